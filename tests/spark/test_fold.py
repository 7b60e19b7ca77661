"""Folding random changes in bulk, against doing them one after another in a dict."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

import tailrace.spark.current.plan as planning
from tailrace.position import sequence
from tailrace.spark.changelog import ChangelogFiles
from tailrace.spark.current.build import SourceChanges, build
from tests.spark.batches import batch
from tests.spark.replay import run

COLUMNS = pa.schema([("a", pa.int32()), ("b", pa.string()), ("n", pa.int64()), ("t", pa.string())])
KEY = ("b", "a")


def key_of(row):
    return tuple(row[name] for name in KEY)


@st.composite
def histories(draw, partial):
    """Changes that a server could have logged, in events, and the rows that they leave."""
    rows = {}
    events = []
    keys = st.tuples(st.sampled_from(["", "x", "y" * 9]), st.integers(0, 3))
    numbers, texts = st.none() | st.integers(-5, 5), st.none() | st.sampled_from(["", "é", "long"])
    for _ in range(draw(st.integers(1, 12))):
        changes = []
        for _ in range(draw(st.integers(1, 6))):
            b, a = draw(keys)
            here = (b, a) in rows
            operation = draw(st.sampled_from(["update", "move", "delete"])) if here else "insert"
            if operation == "insert":
                new = {"a": a, "b": b, "n": draw(numbers), "t": draw(texts)}
                changes.append(("insert", None, new))
                rows[b, a] = new
                continue
            old = rows.pop((b, a))
            if operation == "delete":
                changes.append(("delete", minimal(old, {}, partial), None))
                continue
            new = old | {"n": draw(numbers), "t": draw(texts)}
            if operation == "move":
                to = draw(keys)
                if to not in rows:
                    new |= {"b": to[0], "a": to[1]}
            rows[key_of(new)] = new
            changes.append(("update", minimal(old, {}, partial), minimal(new, old, partial)))
        events.append(changes)
    return events, rows


def minimal(image, before, partial):
    """The image as the source logs it: all of it, or the key and what changed."""
    if not partial:
        return image
    if not before:
        return {name: image[name] for name in KEY}
    return {name: value for name, value in image.items() if before[name] != value}


def batched(items, size):
    return [items[start : start + size] for start in range(0, len(items), size)]


def fold_in_runs(events, runs, folder, per_file):
    """Fold events in several runs, each upon the current state of the one before."""
    committed = {}
    size = -(-len(events) // runs)
    numbered = list(enumerate(events, 1))
    for number, part in enumerate(batched(numbered, size)):
        place = folder / str(number)
        files = []
        for index, some in enumerate(batched(part, per_file)):
            inner = place / "changelog" / str(index)
            inner.mkdir(parents=True)
            writer = ChangelogFiles(inner, group_rows=4)
            for offset, changes in some:
                writer.add(batch(changes, COLUMNS, key=KEY, start=offset * 100))
            files += writer.finish()
        source = SourceChanges([], {"shop.orders": files}, committed)
        built = build([source], lambda _name: True, run, place)["shop.orders"]
        assert built.current.refused is None, built.current.refused
        committed = {"shop.orders": (built.current, built.paths)}
    return built


def check(history, runs, per_file, bucket_bytes):
    events, rows = history
    folder = Path(tempfile.mkdtemp())
    before = planning.BUCKET_BYTES
    planning.BUCKET_BYTES = bucket_bytes
    try:
        built = fold_in_runs(events, runs, folder, per_file)
        tables = [pq.read_table(path) for path in built.paths if path is not None]
        found = {key_of(row): row for table in tables for row in table.to_pylist()}
        assert sum(table.num_rows for table in tables) == len(found) == built.current.rows
        assert {key: {n: row[n] for n in COLUMNS.names} for key, row in found.items()} == rows
        assert built.current.unseen == 0
        for key, row in found.items():
            last = last_change(events, key)
            assert row["_seq"] == last
    finally:
        planning.BUCKET_BYTES = before
        shutil.rmtree(folder)


def last_change(events, key):
    """The place of the change that left the row as it is; only known where images are full."""
    for offset in range(len(events), 0, -1):
        for row in range(len(events[offset - 1]) - 1, -1, -1):
            operation, before, after = events[offset - 1][row]
            whole = (before or {}) | (after or {})
            if operation != "delete" and key_of(whole) == key:
                return sequence(1, offset * 100, row)
    raise AssertionError(key)


SHAPES = {
    "runs": st.integers(1, 3),
    "per_file": st.integers(1, 4),
    "bucket_bytes": st.sampled_from([1 << 30, 2000, 300]),
}


@settings(max_examples=50, deadline=None)
@given(st.one_of(histories(partial=False), histories(partial=True)), *SHAPES.values())
def test_images_that_are_full_or_of_key_and_changes(history, runs, per_file, bucket_bytes):
    check(history, runs, per_file, bucket_bytes)


def fold_one(changes, folder, columns=COLUMNS, key=KEY):
    writer = ChangelogFiles(folder)
    writer.add(batch(changes, columns, key=key))
    source = SourceChanges([], {"shop.orders": writer.finish()}, {})
    return build([source], lambda _name: True, run, folder)["shop.orders"]


ROW = {"a": 1, "b": "x", "n": 5, "t": "here"}


def test_rows_that_were_there_before_the_log_are_counted(tmp_path):
    other = ROW | {"a": 2}
    built = fold_one(
        [("update", ROW, ROW | {"n": 6}), ("delete", other, None), ("insert", None, other)],
        tmp_path,
    )
    assert built.current.rows == 2
    assert built.current.unseen == 2


REFUSED = (
    ("insert", None, {"a": 1, "b": "x", "n": 1}, "inserts left columns to their defaults"),
    ("insert", None, {"a": 1, "b": "x", "n": 1}, ": t ("),
    ("update", {"a": 1, "b": "x"}, {"n": 1}, "before the log begins"),
)


def test_what_refuses_a_table(tmp_path):
    for number, (*change, reason) in enumerate(REFUSED):
        (tmp_path / str(number)).mkdir()
        built = fold_one([tuple(change)], tmp_path / str(number))
        assert reason in built.current.refused
    (tmp_path / "key").mkdir()
    built = fold_one([("insert", None, ROW)], tmp_path / "key", key=())
    assert built.current.refused == "it has no primary key"
    columns = pa.schema([("id", pa.int32()), ("_SEQ", pa.int32())])
    (tmp_path / "name").mkdir()
    built = fold_one([("insert", None, {"id": 1, "_SEQ": 2})], tmp_path / "name", columns, ("id",))
    assert "_SEQ has a name" in built.current.refused


def test_no_duplicates_only_takes_the_rest_from_the_before_image(tmp_path):
    built = fold_one([("insert", None, ROW), ("update", ROW, {"n": 6})], tmp_path)
    (row,) = pq.read_table(built.paths[0]).to_pylist()
    assert (row["n"], row["t"], built.current.unlogged) == (6, "here", ())


def test_columns_that_updates_leave_out_altogether_are_left_out(tmp_path):
    less = {name: value for name, value in ROW.items() if name != "n"}
    built = fold_one([("insert", None, ROW), ("update", less, less)], tmp_path)
    assert built.current.unlogged == ("n",)
    assert pq.read_table(built.paths[0]).schema.names == ["a", "b", "t", "_ts", "_seq", "_raw"]


def test_an_empty_table_can_be_read(tmp_path):
    built = fold_one([("insert", None, ROW), ("delete", ROW, None)], tmp_path)
    table = pq.read_table(built.paths[0])
    assert table.num_rows == 0
    assert table.schema.names == [*COLUMNS.names, "_ts", "_seq", "_raw"]


def test_a_change_of_type_that_loses_nothing_is_carried_over(tmp_path):
    small = pa.schema([("id", pa.int32()), ("v", pa.int16())])
    large = pa.schema([("id", pa.int64()), ("v", pa.decimal128(10, 2))])
    writer = ChangelogFiles(tmp_path)
    writer.add(batch([("insert", None, {"id": 1, "v": 7})], small, start=100))
    writer.add(batch([("insert", None, {"id": 2, "v": None})], large, start=200))
    source = SourceChanges([], {"shop.orders": writer.finish()}, {})
    built = build([source], lambda _name: True, run, tmp_path)["shop.orders"]
    table = pq.read_table(built.paths[0])
    assert table.schema.field("id").type == pa.int64()
    assert [str(value) for value in table.column("v").to_pylist()] == ["7.00", "None"]


def test_a_change_of_type_that_is_not_sure_refuses_the_table(tmp_path):
    writer = ChangelogFiles(tmp_path)
    for start, arrow, value in ((100, pa.float64(), 1.5), (200, pa.string(), "1.5")):
        columns = pa.schema([("id", pa.int32()), ("v", arrow)])
        writer.add(batch([("insert", None, {"id": start, "v": value})], columns, start=start))
    source = SourceChanges([], {"shop.orders": writer.finish()}, {})
    built = build([source], lambda _name: True, run, tmp_path)["shop.orders"]
    assert "v was changed from double to string" in built.current.refused
