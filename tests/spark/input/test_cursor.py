"""Going on with a log where the lake ends, and noticing when it is another log."""

from dataclasses import replace
from pathlib import Path

import pytest

from tailrace.columns import plan_splits
from tailrace.errors import LogPurged, LogReset, PipelineError
from tailrace.position import bytes_after
from tailrace.spark import mirror
from tailrace.spark.input.cursor import SourceCursor, Taken
from tailrace.storage import find
from tailrace.storage.identity import digests

SHOP = Path(__file__).resolve().parents[3] / "examples" / "shop" / "mariadb"


@pytest.fixture
def logs(tmp_path):
    """A copy of three logs, as bytes by name, and a function that writes some of them anew."""
    content = {path.name: path.read_bytes() for path in sorted(SHOP.glob("binlog.0*"))}
    folder = tmp_path / "mariadb"
    folder.mkdir()

    def write(**changed):
        for path in folder.iterdir():
            path.unlink()
        for name, data in (content | changed).items():
            if data is not None:
                (folder / name).write_bytes(data)
        (series,) = find(folder)
        return series

    write.content = content
    return write


def read(series):
    return Taken(series, plan_splits(series)).state(None)


def test_a_log_that_grew(logs):
    names = sorted(logs.content)
    last = logs.content[names[2]]
    bounds = [split.start for split in plan_splits(logs(), target_bytes=20_000)][-3:]
    short = logs(**{names[2]: last[: bounds[0]]})
    state = read(short)
    assert (state.file, state.offset) == (names[2], bounds[0])
    assert bytes_after(short.sizes, state.position) == 0
    whole = logs()
    assert bytes_after(whole.sizes, state.position) == len(last) - bounds[0]
    assert bytes_after(whole.sizes, None) == sum(map(len, logs.content.values()))
    cursor = SourceCursor(whole, state, (), hold=True)
    assert cursor.planner.catalogue.lookup("warehouse", "stock") is not None
    cursor.look(whole)
    taken = cursor.take()
    assert [(each.file, each.start, each.end) for each in taken.splits] == [
        (names[2], bounds[0], len(last))
    ]
    assert replace(taken.state(state), seen=None) == read(whole)


def test_nothing_new_keeps_the_state(logs):
    series = logs()
    state = read(series)
    assert Taken(series, []).state(state) is state
    assert Taken(series, []).state(None) is None


def test_a_state_does_not_grow_with_files_that_were_purged(logs):
    """But for the first file, which says where the lake begins in the log."""
    first, middle, last = sorted(logs.content)
    whole = logs()
    before = Taken(whole, plan_splits(replace(whole, files=whole.files[:2]))).state(None)
    assert (before.file, [*before.files]) == (middle, [first])
    later = replace(before, files={"binlog.000000": 7, first: len(logs.content[first])})
    rest = logs(**{first: None})
    cursor = SourceCursor(rest, later, (), hold=True)
    cursor.look(rest)
    state = cursor.take().state(later)
    assert (state.file, [*state.files]) == (last, ["binlog.000000", middle])


def test_another_log(logs):
    """At the start of a mirror and at each look of one that follows, the same errors."""
    first, middle, last = sorted(logs.content)
    whole = logs()
    state, inner = read(whole), read(replace(whole, files=whole.files[:2]))
    gone = dict.fromkeys((first, middle))
    for kind, found, changed, message in (
        (LogReset, state, {last: logs.content[last][:5000]}, "has 5000 bytes"),
        (LogReset, state, {last: flipped(logs.content[last], 30)}, "not those that were read"),
        (LogReset, state, {last: flipped(logs.content[last], -30)}, "not those that were read"),
        (LogReset, state, {last: None}, f"{last} is gone.* are {first} to {middle}: they were res"),
        (LogReset, state, {first: logs.content[first][:1000]}, "had 161876 bytes and has 1000"),
        (LogPurged, inner, gone, f"{middle} is gone.* begin with {last}, .*create a new lake"),
    ):
        following = SourceCursor(logs(), found, (), hold=True)
        series = logs(**changed)
        for cursor in (following, SourceCursor(series, found, (), hold=True)):
            with pytest.raises(kind, match=message):
                cursor.look(series)


def test_another_log_of_the_same_size(logs, tmp_path):
    """A run that has nothing new to read compares the log all the same."""
    logs()
    mirror(tmp_path / "mariadb", tmp_path / "lake", incomplete="accept")
    assert mirror(tmp_path / "mariadb", tmp_path / "lake").log_bytes == 0
    last = max(logs.content)
    logs(**{last: flipped(logs.content[last], -30)})
    with pytest.raises(LogReset, match="not those that were read"):
        mirror(tmp_path / "mariadb", tmp_path / "lake")


def flipped(data, at):
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


def test_the_flag_is_passed_over_wherever_the_lake_ends(logs):
    """Also where the last bytes before that place begin within the first event's header."""
    names = sorted(logs.content)
    data = logs.content[names[0]] + bytes(5000)
    flagged = data[:21] + bytes((data[21] | 1,)) + data[22:]
    places = (4, 22, 23, 200, 4095, 4096, *range(4097, 4122), 4200, 5000)

    def found(content):
        log = logs(**{names[0]: content}).files[0]
        return [digests(log, place) for place in places]

    assert found(flagged) == found(data)
    changed = data[:23] + bytes((data[23] ^ 1,)) + data[24:]
    assert all(one != other for one, other in zip(found(changed)[3:], found(data)[3:], strict=True))


def test_a_damaged_schema_history(logs):
    for tables in ({}, {"version": 3}, {"version": 1, "tables": "all"}):
        state = replace(read(logs()), tables=tables)
        with pytest.raises(
            PipelineError, match="source mariadb: the lake's manifest: the schema hist"
        ):
            SourceCursor(logs(), state, (), hold=True)
