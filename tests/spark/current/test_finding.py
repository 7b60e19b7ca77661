"""Rows found by hash and bounds are those that a search of all rows finds, for keys of all types."""

import datetime as dt
import decimal
import random
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace.spark.parquet import footer
from tailrace.spark.parquet.file import DataFolder
from tailrace.spark.state.current import finding, jobs, raw, rows
from tailrace.spark.state.current.flat import Target
from tailrace.spark.state.current.fold import key_columns
from tailrace.spark.state.current.keys import buckets
from tailrace.spark.state.current.rows import Base
from tests.spark.replay import Given

EARLY, DAY, LATE = (
    dt.datetime.fromisoformat(each)
    for each in ("1000-01-01", "2026-02-28 23:59:59.999999", "9999-12-31")
)
TEXTS = ["", "a", "A", "a ", "ab", "é", "e\u0301", "\uffff", "\U0001f600", "z" * 5000, "zz" * 40]
KEYS = {
    "int8": (pa.int8(), [-128, -1, 0, 1, 127]),
    "int64": (pa.int64(), [-(1 << 63), -5, 0, 7, 8, 9, 1 << 40, (1 << 63) - 1]),
    "unsigned": (
        pa.decimal128(20, 0),
        [decimal.Decimal(each) for each in (0, 1, 9, 10, 1 << 63, (1 << 64) - 1)],
    ),
    "decimal": (
        pa.decimal128(38, 4),
        [decimal.Decimal(each) for each in ("-99.5", "-0.0001", "0", "0.0001", "1e30")],
    ),
    "double": (pa.float64(), [-1e300, -1.5, -0.0, 1e-300, 2.5, 1e300]),
    "float": (pa.float32(), [-1.5, -0.0, 0.5, 16777216.0]),
    "text": (pa.string(), TEXTS),
    "bytes": (pa.binary(), [b"", b"\0", b"\0\xff", b"\x7f", b"\x80", b"\xff\xff", b"\xff" * 5000]),
    "date": (pa.date32(), [dt.date(1000, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
    "datetime": (pa.timestamp("us"), [EARLY, DAY, LATE]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [each.replace(tzinfo=dt.UTC) for each in (EARLY, DAY, LATE)],
    ),
    "time": (pa.duration("us"), [dt.timedelta(hours=-838), dt.timedelta(0), dt.timedelta(1)]),
}
BUCKETS = 4


def table(target, keys, texts=()):
    """Rows of a state with keys, some of them NULL with a text."""
    found = {
        name: pa.array([key[place] for key in keys], target.columns.field(name).type)
        for place, name in enumerate(target.key)
    }
    if any(texts):
        found[raw.beside(target.key[0])] = pa.array(texts, pa.string())
    return pa.table(found)


def written(rows_, target, path, manner):
    """A file of them: ours, ours in a table of a format, or one of another engine."""
    full = rows_.append_column("_seq", pa.nulls(len(rows_), pa.decimal128(38, 0)))
    full = full.append_column("_ts", pa.nulls(len(rows_), pa.timestamp("us", "UTC")))
    if manner == "foreign":
        texts = {
            name: rows_.column(raw.beside(name))
            for name in target.key
            if raw.beside(name) in rows_.schema.names
        }
        order = rows_.select(target.key).append_column(rows.RAW, raw.as_map(len(rows_), texts))
        pq.write_table(order, path, row_group_size=2, store_schema=False)
        return
    folder = DataFolder(Path(path).parent, plain=manner == "plain")
    _, made = jobs.FoldJob(target, None, (), (), False, folder).write(full, folder)
    Path(made).rename(path)


@pytest.mark.slow
@pytest.mark.parametrize("manner", ["ours", "plain", "foreign"])
def test_all_rows_of_touched_keys_are_found(tmp_path, manner):
    rng = random.Random(7)
    names = [(name,) for name in KEYS] + [("int8", "text"), ("text", "unsigned"), ("date", "int64")]
    if manner == "foreign":
        names.remove(("time",))  # another engine's file has numbers there
    for number, key in enumerate(names):
        target = Target(pa.schema([(name, KEYS[name][0]) for name in key]), key)
        keys = [*product(*(KEYS[name][1] for name in key))]
        zeros = ["0000-00-00", "2026-02-00"] if key == ("date",) else []
        texts = [None] * len(keys) + zeros
        every = table(target, [*keys, *[(None,) for _ in zeros]], texts)
        places = buckets(key_columns([every], key), BUCKETS)
        paths = [str(tmp_path / f"{number}-{bucket}.parquet") for bucket in range(BUCKETS)]
        tail = str(tmp_path / f"{number}-tail.parquet")
        with mock.patch.object(jobs, "ROW_GROUP", 2):
            for bucket, path in enumerate(paths):
                written(every.filter(pa.array(places == bucket)), target, path, manner)
            written(every, target, tail, manner)
        gone = {paths[0]: Given(np.array([0]))}
        for count in (2, len(every)):
            touched = every.take(pa.array(rng.sample(range(len(every)), count)))
            for deleted in ({}, gone):
                base = Base(tuple(paths), {}, key, tails=(tail,), deleted=deleted)
                found = plain(*finding.find(base, touched, target))
                with mock.patch.object(finding, "_near", all_groups):
                    assert found == plain(*finding.find(base, touched, target))
                assert found[2] >= 2 * count - len(deleted)
        with footer.opened(tail) as groups:
            near = [
                len([*finding._near(groups, target, each)]) for each in singles(every.slice(0, 3))
            ]
            assert min(near) < len(groups.sizes)


def singles(rows_):
    return [rows_.slice(number, 1) for number in range(len(rows_))]


def all_groups(groups, *_):
    return range(len(groups.sizes))


def plain(places, keys):
    found = {path: sorted(each.tolist()) for path, each in places.items()}
    return found, sorted(map(repr, keys.to_pylist())), len(keys)
