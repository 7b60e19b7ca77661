"""Two speeds, one truth, on random tables: every type, any cut, any selection of columns."""

import os
import warnings
from itertools import pairwise
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tailrace
from tailrace.columns import batches as read
from tailrace.columns import changes, plan_splits, read_split
from tailrace.columns.read import blocks, decoder, table, walk
from tailrace.errors import NoSuchTable, UsageError
from tailrace.events.table_map import TableMapEvent
from tailrace.storage import find
from tailrace.table_filter import TableFilter
from tests.columns.oracle import assert_equal_paths, by_table
from tests.columns.random_log import logs

EXAMPLES = settings(max_examples=int(os.environ.get("TAILRACE_EXAMPLES", "25")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("random")


def series_of(folder, data):
    (folder / "binlog.000007").write_bytes(data)
    (series,) = find(folder)
    return series


def rows_of(batches):
    return {
        name: found.drop_columns(["_present"]).to_pylist()
        for (name, _), found in by_table(batches).items()
    }


def same(left, right):
    """Equal, NaN to itself."""
    return repr(left) == repr(right)


@EXAMPLES
@given(data=logs())
def test_kernels_give_what_objects_give(folder, data):
    assert assert_equal_paths(series_of(folder, data)) > 0


@EXAMPLES
@given(data=logs(), block=st.integers(19, 400), most=st.integers(2, 5), room=st.integers(1, 3))
@pytest.mark.slow
def test_however_small_the_pieces_are(folder, data, block, most, room):
    """Blocks that end anywhere; batches, notes of odd values and plans that are full at once."""
    with (
        patch.object(blocks, "BLOCK", block),
        patch.object(read, "BLOCK", block),
        patch.object(table, "MOST_ROWS", most),
        patch.object(table, "_ODD_ROOM", 64 * room),
        patch.object(walk, "_ENTRIES", room + 1),
        patch.object(walk, "_TRANSACTIONS", room + 2),
        patch.object(decoder, "_SMALL_PAYLOAD", block),
        patch.object(decoder, "_PAYLOAD_BLOCK", block),
    ):
        assert assert_equal_paths(series_of(folder, data)) > 0


@EXAMPLES
@given(data=logs(), chosen=st.sets(st.integers(0, 8)), named=st.booleans())
@pytest.mark.slow
def test_chosen_columns_are_those_of_all(folder, data, chosen, named):
    series = series_of(folder, data)
    names = {f"column {n}" if named else f"c{n + 1}" for n in chosen}
    every = rows_of(changes(series))
    there = {
        name
        for batch in changes(series)
        for image in ("before", "after")
        for name in batch.schema.field(image).type.names
    }
    mapped = {  # a table may have a table map and no rows: then its columns are no mistake
        f"column {n}" if named else f"c{n + 1}"
        for event in tailrace.open(series)
        if isinstance(event, TableMapEvent)
        for n in range(len(event.columns))
    }
    if names - there - mapped:
        with pytest.raises(UsageError, match="columns: there is no"):
            list(changes(series, columns=names))
    names &= there
    found = rows_of(changes(series, columns=names))
    assert set(found) == set(every)
    for name, rows in found.items():
        for row, whole in zip(rows, every[name], strict=True):
            for image in ("before", "after"):
                if whole[image] is not None:
                    whole[image] = {k: v for k, v in whole[image].items() if k in names}
            raw = [pair for pair in whole["_raw"] or [] if pair[0].partition(".")[2] in names]
            whole["_raw"] = raw or None
            assert same(row, whole)


@EXAMPLES
@given(data=logs(), pattern=st.sampled_from(["shop.t0", "t1", "shop.*", "*.t2", "other.*"]))
@pytest.mark.slow
def test_chosen_tables_are_those_of_all(folder, data, pattern):
    series = series_of(folder, data)
    wanted = TableFilter.of(pattern)
    every = rows_of(changes(series))
    kept = {name: rows for name, rows in every.items() if wanted(*name.decode().split("."))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if not kept else "error", NoSuchTable)
        found = rows_of(changes(series, tables=[pattern]))
    assert same(found, kept)


@EXAMPLES
@given(data=logs())
@pytest.mark.slow
def test_splits_in_a_row_are_the_whole(folder, data):
    series = series_of(folder, data)
    whole = rows_of(changes(series))
    splits = plan_splits(series, target_bytes=1)
    batches = [batch for split in splits for batch in read_split(split)]
    assert same(rows_of(batches), whole)
    assert splits[0].start == 4
    assert splits[-1].end == series.files[0].size
    assert all(one.end == other.start for one, other in pairwise(splits))
