"""Batches made by hand: what tasks would hand over, of rows that a test chooses."""

from __future__ import annotations

import datetime as dt
import decimal
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.lake.asides import Asides
from tailrace.spark.lake.lake import open_store
from tailrace.spark.lake.plan import Made
from tailrace.spark.manifest.lake_options import LakeOptions
from tailrace.spark.manifest.manifest import DataFile, SourceState, TableRows
from tailrace.spark.parquet.file import ParquetFile
from tailrace.spark.state.built import Built
from tailrace.spark.state.current.keys import buckets
from tailrace.spark.state.current.rows import RAW
from tests.spark.batches import batch as rows_of
from tests.spark.batches import changelog, data_folder
from tests.spark.replay import run

BEGIN = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
MAP = pa.map_(pa.string(), pa.string())
COLUMNS = pa.schema(
    [
        ("id", pa.int32()),
        ("name", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("born", pa.date32()),
        ("at", pa.timestamp("us")),
        ("seen", pa.timestamp("us", "UTC")),
        ("span", pa.duration("us")),
        ("big", pa.decimal128(20, 0)),
        ("tiny", pa.int8()),
        ("ratio", pa.float32()),
        ("data", pa.binary()),
    ]
)


def name_of(number):
    """What `row` calls a row."""
    return f"n{number} ü"


def row(number, columns=COLUMNS, **values):
    """A row of all types, different for each number."""
    made = {
        "id": number,
        "name": name_of(number),
        "price": decimal.Decimal(number * 100 + 25).scaleb(-2),
        "born": dt.date(2000, 1, 1) + dt.timedelta(days=number),
        "at": dt.datetime.fromisoformat("2020-01-01T00:00:00.123456") + dt.timedelta(hours=number),
        "seen": BEGIN + dt.timedelta(seconds=number),
        "span": dt.timedelta(hours=-800, microseconds=number),
        "big": decimal.Decimal(2**64 - 1 - number),
        "tiny": number % 100,
        "ratio": number / 4,
        "data": bytes([number % 256, 255]),
    }
    return {name: values.get(name, made.get(name)) for name in columns.names}


def changes(folder, rows, columns, first, name="shop.orders", source="mysql", shard=None):
    """A changelog file of inserts of the rows."""
    database, table = name.split(".")
    inserts = [("insert", None, row) for row in rows]
    where = {"database": database, "table": table, "source": source}
    rows = rows_of(inserts, columns, start=first, seq=first, **where)
    (file,) = changelog(folder / f"{name}-{first}", rows, source=shard)
    return file


def state(folder, rows, columns, count=2, keep=(), known=None, prefix="x"):
    """A current state of the rows in ``count`` buckets; those in ``keep`` are ``known``'s."""
    folder.mkdir(parents=True, exist_ok=True)
    image = pa.struct(list(columns))
    table = pa.Table.from_struct_array(pa.array(rows, image)) if rows else columns.empty_table()
    table = table.append_column("_ts", pa.array([BEGIN] * len(rows), pa.timestamp("us", "UTC")))
    table = table.append_column(
        "_seq", pa.array([decimal.Decimal(1)] * len(rows), pa.decimal128(38, 0))
    )
    table = table.append_column(RAW, pa.nulls(len(rows), MAP))
    places = buckets([table.column("id")], count)
    files, paths = [], []
    for bucket in range(count):
        if bucket in keep:
            files.append(known[0][bucket])
            paths.append(known[1][bucket])
            continue
        chosen = table.filter(pa.array(places == bucket))
        chosen = chosen.take(pc.sort_indices(chosen, [("id", "ascending")]))
        to = data_folder(folder)
        file = ParquetFile(folder / f"{prefix}-{bucket}.parquet", plain=to.plain)
        file.write(chosen)
        files.append(DataFile("", chosen.num_rows, file.close(), chosen.nbytes))
        paths.append(str(file.path))
    return Built(TableRows(columns, ("id",), tuple(files)), tuple(paths))


def made(store, files, built, offset, keep=("changelog", "current"), shards=False, **more):
    """All of a batch that reads its source up to an offset."""
    kind = store._format
    options = LakeOptions(keep=keep, format=kind, shards=shards)
    at = SourceState("binlog.000001", offset, {}, "h", "t", {"version": 1})
    asides = more.pop("asides", None) or Asides(store.manifest, keep)
    touched = more.pop("touched", frozenset({*store.manifest.tables, *files, *built}))
    return Made(files, built, {"mysql": at}, options, asides, touched, **more)


def batch(store, number, columns=COLUMNS, rows=10, **more):
    """Batch ``number``: ten new rows in the changelog, and in the current state all so far."""
    new = [row(each, columns, **more) for each in range(number * rows, (number + 1) * rows)]
    every = [row(each, columns, **more) for each in range((number + 1) * rows)]
    files = {"shop.orders": [changes(store.staging / "c", new, columns, number * rows + 1)]}
    built = {"shop.orders": state(store.staging / "s", every, columns)}
    return made(store, files, built, 100 * (number + 1))


def begun(folder, name, **more):
    """A lake of a format that has a first batch."""
    with open_store(folder / "lake", name) as store:
        store.commit(batch(store, 0, **more))
    return folder / "lake"


@contextmanager
def reopened(lake, name):
    """The lake's store as who comes next has it, who has looked at what others did."""
    with open_store(lake, name) as store:
        store.refresh(run)
        yield store
