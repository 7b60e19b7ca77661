"""Folding random changes in bulk, and their versions, against doing them one after another."""

import datetime as dt
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tailrace.spark.state.current.plan as planning
from tailrace.position import sequence
from tailrace.spark.state.current.build import build
from tests.spark.batches import batch, changelog
from tests.spark.history.making import EPOCH, Histories
from tests.spark.replay import by_name, run, run_twice, source_changes

COLUMNS = pa.schema([("a", pa.int32()), ("b", pa.string()), ("n", pa.int64()), ("t", pa.string())])
KEY = ("b", "a")
NAME = "shop.orders"


def key_of(row):
    return tuple(row[name] for name in KEY)


@st.composite
def histories(draw, partial):
    """Changes that a server could have logged, in events."""
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
    return events


def minimal(image, before, partial):
    """The image as the source logs it: all of it, or the key and what changed."""
    if not partial:
        return image
    if not before:
        return {name: image[name] for name in KEY}
    return {name: value for name, value in image.items() if before[name] != value}


def batched(items, size):
    return [items[start : start + size] for start in range(0, len(items), size)]


def check(events, runs, per_file, bucket_bytes):
    """Current states and histories over several runs, each upon what the one before left."""
    folder = Path(tempfile.mkdtemp())
    before = planning.BUCKET_BYTES
    planning.BUCKET_BYTES = bucket_bytes
    try:
        made, committed = Histories(folder / "history"), {}
        for number, part in enumerate(batched(list(enumerate(events, 1)), -(-len(events) // runs))):
            place = folder / str(number)
            files = {NAME: files_of(place, part, per_file)}
            source = source_changes([], files, committed, place)
            built = by_name(build([source], run_twice, place))
            committed = {NAME: (built[NAME].rows, built[NAME].paths)}
            made.take(
                lambda at, known, files=files: source_changes([], files, {}, at, histories=known)
            )
        wanted = one_by_one(events)
        check_current(built[NAME], wanted)
        check_versions(made, wanted)
    finally:
        planning.BUCKET_BYTES = before
        shutil.rmtree(folder)


def files_of(place, part, per_file):
    """Changelog files of so many events each."""
    return [
        file
        for index, some in enumerate(batched(part, per_file))
        for file in changelog(
            place / "changelog" / str(index),
            *(batch(changes, COLUMNS, key=KEY, start=offset * 100) for offset, changes in some),
            group_rows=4,
        )
    ]


def check_current(built, wanted):
    assert built.rows.refused is None, built.rows.refused
    assert built.rows.unseen == 0
    tables = [pq.read_table(path) for path in built.paths if path is not None]
    found = [(row, int(row["_seq"])) for table in tables for row in table.to_pylist()]
    assert built.rows.rows == len(found)
    left = [(row, seq) for row, _, ended, seq in wanted if ended is None]
    assert sorted(map(repr, map(ordered, found))) == sorted(map(repr, map(ordered, left)))


def check_versions(made, wanted):
    history = made.built[NAME].rows
    assert history.refused is None, history.refused
    assert history.unseen == 0
    found = [] if (table := made.versions(NAME)) is None else table.to_pylist()
    assert all(row["_is_current"] == (row["_valid_to"] is None) for row in found)
    stated = [
        (row, micros(row["_valid_from"]), micros(row["_valid_to"]), int(row["_seq"]))
        for row in found
    ]
    assert sorted(map(repr, map(ordered, stated))) == sorted(map(repr, map(ordered, wanted)))


def ordered(version):
    row, *more = version
    return {name: row[name] for name in COLUMNS.names}, *more


def micros(time):
    return None if time is None else (time - EPOCH) // dt.timedelta(microseconds=1)


def one_by_one(events):
    """All versions as (row, from, to, seq), found by doing the changes one after another."""
    rows, done = {}, []
    for offset, changes in enumerate(events, 1):
        time = 1_700_000_000_000_000 + offset * 100  # as `batch` has it
        for place, (_, before, after) in enumerate(changes):
            kept = {}
            if before is not None:
                kept, begun, seq = rows.pop(key_of(before))
                done.append((kept, begun, time, seq))
            if after is not None:
                row = kept | after
                rows[key_of(row)] = (row, time, sequence(1, offset * 100, place))
    return done + [(row, begun, None, seq) for row, begun, seq in rows.values()]


SHAPES = {
    "runs": st.integers(1, 3),
    "per_file": st.integers(1, 4),
    "bucket_bytes": st.sampled_from([1 << 30, 2000, 300]),
}


@settings(max_examples=50, deadline=None)
@given(st.one_of(histories(partial=False), histories(partial=True)), *SHAPES.values())
def test_images_that_are_full_or_of_key_and_changes(events, runs, per_file, bucket_bytes):
    check(events, runs, per_file, bucket_bytes)


def fold_one(changes, folder):
    files = changelog(folder / "changelog", batch(changes, COLUMNS, key=KEY))
    return by_name(build([source_changes([], {NAME: files}, {}, folder)], run, folder))[NAME]


ROW = {"a": 1, "b": "x", "n": 5, "t": "here"}


def test_rows_that_were_there_before_the_log_are_counted(tmp_path):
    other = ROW | {"a": 2}
    built = fold_one(
        [("update", ROW, ROW | {"n": 6}), ("delete", other, None), ("insert", None, other)],
        tmp_path,
    )
    assert built.rows.rows == 2
    assert built.rows.unseen == 2


REFUSED = (
    ("insert", None, {"a": 1, "b": "x", "n": 1}, "inserts left columns to their defaults"),
    ("insert", None, {"a": 1, "b": "x", "n": 1}, ": t ("),
    ("update", {"a": 1, "b": "x"}, {"n": 1}, "before the log begins"),
)


def test_what_refuses_a_table(tmp_path):
    for number, (*change, reason) in enumerate(REFUSED):
        built = fold_one([tuple(change)], tmp_path / str(number))
        assert reason in built.rows.refused


def test_no_duplicates_only_takes_the_rest_from_the_before_image(tmp_path):
    built = fold_one([("insert", None, ROW), ("update", ROW, {"n": 6})], tmp_path)
    (row,) = pq.read_table(built.paths[0]).to_pylist()
    assert (row["n"], row["t"], built.rows.unlogged) == (6, "here", ())


def test_an_empty_table_can_be_read(tmp_path):
    built = fold_one([("insert", None, ROW), ("delete", ROW, None)], tmp_path)
    table = pq.read_table(built.paths[0])
    assert table.num_rows == 0
    assert table.schema.names == [*COLUMNS.names, "_ts", "_seq", "_raw"]


def test_a_change_of_type_that_loses_nothing_is_carried_over(tmp_path):
    small = pa.schema([("id", pa.int32()), ("v", pa.int16())])
    large = pa.schema([("id", pa.int64()), ("v", pa.decimal128(10, 2))])
    files = changelog(
        tmp_path / "changelog",
        batch([("insert", None, {"id": 1, "v": 7})], small, start=100),
        batch([("insert", None, {"id": 2, "v": None})], large, start=200),
    )
    source = source_changes([], {NAME: files}, {}, tmp_path)
    built = by_name(build([source], run, tmp_path))[NAME]
    table = pq.read_table(built.paths[0])
    assert table.schema.field("id").type == pa.int64()
    assert [str(value) for value in table.column("v").to_pylist()] == ["7.00", "None"]


def take(made, *batches):
    """A batch of a history."""

    def source(place, committed):
        files = {NAME: changelog(place / "changelog", *batches)}
        return source_changes([], files, {}, place, histories=committed)

    return made.take(source)


@pytest.mark.parametrize("runs", [1, 3])
def test_times_do_not_go_back(runs, tmp_path):
    """Places of events go up, the clock does not."""
    first, second, third = (ROW | {"n": number} for number in (1, 2, 3))
    changes = [(900, "insert", None, first), (500, "update", first, second)]
    changes.append((700, "update", second, third))
    batches = [
        batch([tuple(change)], COLUMNS, key=KEY, start=clock, number=place)
        for place, (clock, *change) in enumerate(changes, 1)
    ]
    made = Histories(tmp_path)
    for part in batched(batches, -(-3 // runs)):
        take(made, *part)
    found = made.versions(NAME).sort_by("n").to_pylist()
    time = EPOCH + dt.timedelta(microseconds=1_700_000_000_000_900)
    assert [(row["n"], row["_valid_from"], row["_valid_to"]) for row in found] == [
        (1, time, time),
        (2, time, time),
        (3, time, None),
    ]


def test_a_row_that_is_not_known_of(tmp_path):
    made = Histories(tmp_path)
    rows = batch([("update", ROW, ROW | {"n": 2})], COLUMNS, key=KEY, start=100)
    assert take(made, rows)[NAME].rows.unseen == 1
    assert [row["n"] for row in made.versions(NAME).to_pylist()] == [2]
