"""Versions of random changes in bulk, against doing them one after another."""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tailrace.spark.current.plan as planning
from tailrace.position import sequence
from tailrace.spark.changelog import ChangelogFiles
from tailrace.spark.current.build import SourceChanges
from tests.spark.batches import batch
from tests.spark.history.making import EPOCH, Histories
from tests.spark.test_fold import COLUMNS, KEY, SHAPES, batched, histories, key_of

NAME = "shop.orders"


def time_of(offset):
    """The time that `batch` gives an event."""
    return EPOCH + dt.timedelta(microseconds=1_700_000_000_000_000 + offset * 100)


def one_by_one(events):
    """All versions as (row, from, to, seq), found by doing the changes one after another."""
    rows, done = {}, []
    for offset, changes in enumerate(events, 1):
        for place, (_, before, after) in enumerate(changes):
            kept = {}
            if before is not None:
                kept, begun, seq = rows.pop(key_of(before))
                done.append((kept, begun, time_of(offset), seq))
            if after is not None:
                row = kept | after
                rows[key_of(row)] = (row, time_of(offset), sequence(1, offset * 100, place))
    return done + [(row, begun, None, seq) for row, begun, seq in rows.values()]


def make(events, runs, per_file, folder):
    made = Histories(folder)
    for part in batched(list(enumerate(events, 1)), -(-len(events) // runs)):

        def changes(place, committed, part=part):
            files = []
            for index, some in enumerate(batched(part, per_file)):
                inner = place / "changelog" / str(index)
                inner.mkdir(parents=True)
                writer = ChangelogFiles(inner, group_rows=4)
                for offset, events_changes in some:
                    writer.add(batch(events_changes, COLUMNS, key=KEY, start=offset * 100))
                files += writer.finish()
            return SourceChanges([], {NAME: files}, {}, committed)

        made.take(changes)
    return made


def check(history, runs, per_file, bucket_bytes):
    events, _ = history
    folder = Path(tempfile.mkdtemp())
    before = planning.BUCKET_BYTES
    planning.BUCKET_BYTES = bucket_bytes
    try:
        made = make(events, runs, per_file, folder)
        built = made.built[NAME]
        assert built.history.refused is None, built.history.refused
        assert built.history.unseen == 0
        found = [] if (table := made.versions(NAME)) is None else table.to_pylist()
        assert all(row["_is_current"] == (row["_valid_to"] is None) for row in found)
        stated = [
            (
                {name: row[name] for name in COLUMNS.names},
                micros(row["_valid_from"]),
                micros(row["_valid_to"]),
                int(row["_seq"]),
            )
            for row in found
        ]
        assert sorted(map(repr, stated)) == sorted(map(repr, map(ordered, one_by_one(events))))
    finally:
        planning.BUCKET_BYTES = before
        shutil.rmtree(folder)


def ordered(version):
    row, begun, ended, seq = version
    return ({name: row[name] for name in COLUMNS.names}, micros(begun), micros(ended), seq)


def micros(time):
    return None if time is None else (time - EPOCH) // dt.timedelta(microseconds=1)


@given(history=st.one_of(histories(partial=False), histories(partial=True)), **SHAPES)
@settings(max_examples=40, deadline=None)
def test_versions_of_images_that_are_full_or_not(history, runs, per_file, bucket_bytes):
    check(history, runs, per_file, bucket_bytes)


@pytest.mark.parametrize("runs", [1, 3])
def test_times_do_not_go_back(runs, tmp_path):
    first = {"a": 1, "b": "x", "n": 1, "t": None}
    second, third = first | {"n": 2}, first | {"n": 3}
    changes = [(900, "insert", None, first), (500, "update", first, second)]
    changes.append((700, "update", second, third))
    made = Histories(tmp_path)
    # Places of events go up, the clock does not.
    numbered = [(place, change) for place, change in enumerate(changes, 1)]
    for number, part in enumerate(batched(numbered, -(-3 // runs))):

        def source(place, committed, part=part, number=number):
            (place / "changelog").mkdir()
            writer = ChangelogFiles(place / "changelog")
            for at, (clock, *change) in part:
                rows = batch([tuple(change)], COLUMNS, key=KEY, start=clock, number=at)
                writer.add(rows)
            return SourceChanges([], {NAME: writer.finish()}, {}, committed)

        made.take(source)
    found = made.versions(NAME).sort_by("n").to_pylist()
    time = EPOCH + dt.timedelta(microseconds=1_700_000_000_000_900)
    assert [(row["n"], row["_valid_from"], row["_valid_to"]) for row in found] == [
        (1, time, time),
        (2, time, time),
        (3, time, None),
    ]


def test_a_row_that_is_not_known_of(tmp_path):
    old = {"a": 1, "b": "x", "n": 1, "t": None}
    made = Histories(tmp_path)

    def source(place, committed):
        (place / "changelog").mkdir()
        writer = ChangelogFiles(place / "changelog")
        writer.add(batch([("update", old, old | {"n": 2})], COLUMNS, key=KEY, start=100))
        return SourceChanges([], {NAME: writer.finish()}, {}, committed)

    built = made.take(source)[NAME]
    assert built.history.unseen == 1
    assert [row["n"] for row in made.versions(NAME).to_pylist()] == [2]
