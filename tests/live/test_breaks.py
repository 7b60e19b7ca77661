"""Live reading through forced breaks (`tools.campaign.live`), and that campaign's witnesses."""

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import tailrace
from tests.conftest import _require
from tools.campaign import live, live_files
from tools.campaign.live_consumers import Events, Gtids, Raw, Rows, raw_of
from tools.load.actions import choose
from tools.load.client import Plan

SEED = 6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_what_arrives_through_breaks_is_what_the_files_hold(name):
    _require(name)
    report = live.run(name, live.SIZES["small"], SEED)
    assert not report.failures, "\n".join(map(str, report.failures))
    assert report.breaks.total() == live.SIZES["small"].breaks
    assert len(report.breaks) == 7, "each kind of break"
    assert report.reconnections >= 4 * report.breaks.total() // 2, "breaks that nobody felt"
    assert report.transactions > 100
    assert report.rows > 100


# --- the comparison finds what it is there to find -----------------------------------------------


def _event(kind, body, flags=0):
    length = 19 + len(body)
    fixed = b"\0\0\0\0" + bytes((kind,)) + b"\1\0\0\0" + length.to_bytes(4, "little")
    return fixed + b"\0\0\0\0" + flags.to_bytes(2, "little") + body


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "binlog.000001"
    kinds = (15, 35, 33, 2, 16, 4)
    path.write_bytes(b"\xfebin" + b"".join(_event(kind, bytes((kind,))) for kind in kinds))
    return path


def test_events_are_walked_to_a_torn_tail(log):
    whole = list(live_files.events(log))
    assert [event.type for event in whole] == [15, 35, 33, 2, 16, 4]
    assert [event.offset for event in whole] == [4, 24, 44, 64, 84, 104]
    log.write_bytes(log.read_bytes()[:-1])
    assert list(live_files.events(log)) == whole[:-1]


def test_only_the_flag_of_a_log_in_use_is_overlooked():
    at = ("binlog.000001", 4)
    for kind, flags, same in ((15, 1, True), (15, 2, False), (2, 1, False)):
        found = live_files.seen(*at, _event(kind, b"x", flags))
        assert (found == live_files.seen(*at, _event(kind, b"x"))) == same


def test_a_transaction_that_a_crash_cut_off_is_none(tmp_path):
    first, second = tmp_path / "binlog.000001", tmp_path / "binlog.000002"
    written = [_event(kind, b"x") for kind in (15, 162, 19, 23, 16, 162, 19, 23)]
    first.write_bytes(b"\xfebin" + b"".join(written)[:-3])
    second.write_bytes(b"\xfebin" + b"".join(_event(kind, b"y") for kind in (15, 162, 2)))
    found = [event for path in (first, second) for event in live_files.events(path)]
    assert [len(each) for each in live_files.transactions(found)] == [4, 2]
    assert live_files.size(first) == first.stat().st_size - len(written[-1]) + 3
    assert live_files.size(second) == second.stat().st_size


def test_transactions_begin_at_gtids_and_hold_no_control_events(log):
    found = list(live_files.events(log))
    assert live_files.transactions(found) == [tuple(event.digest for event in found[2:5])]


EXAMPLE = Path(__file__).parents[2] / "examples" / "shop" / "mysql"


@pytest.fixture
def files():
    return [event for path in _logs() for event in live_files.events(path)]


def _logs():
    return sorted(EXAMPLE.glob("*.0*"))


def test_events_lost_doubled_and_changed_are_told(files, tmp_path):
    reader = Events(str(EXAMPLE), tmp_path)
    for event in tailrace.open(EXAMPLE, expand_payloads=False):
        reader.found.append(live_files.seen(event.file, event.offset, raw_of(event)))
    assert reader.difference(files, EXAMPLE) is None
    good = reader.found
    other = good[2]._replace(digest=good[2].digest + 1)
    for reader.found, told in (
        (good[:3] + good[4:], "event 3"),
        ([*good[:4], good[3], *good[4:]], "event 4"),
        ([*good[:2], other, *good[3:]], "with other bytes"),
        (good[:-1], f"{len(good) - 1} events, the files have {len(good)}"),
    ):
        assert told in str(reader.difference(files, EXAMPLE))


def test_transactions_lost_doubled_and_swapped_are_told(files, tmp_path):
    reader = Gtids("", tmp_path, "mysql")
    control = [event for event in files if event.type in {15, 35, 4}]
    assert control
    reader.found = [event for event in files if event.type not in {15, 35, 4}]
    assert reader.difference(files, EXAMPLE) is None
    starts = [n for n, event in enumerate(reader.found) if event.type == 33]
    first, second, third = starts[10:13]
    good = reader.found
    for reader.found, number in (
        (good[:first] + good[second:], 10),
        (good[:second] + good[first:], 11),
        (good[:first] + good[second:third] + good[first:second] + good[third:], 10),
        (good[: second - 1] + good[second:], 10),
    ):
        assert f"transaction {number} differs" in str(reader.difference(files, EXAMPLE))


def test_rows_lost_doubled_and_changed_are_told(tmp_path):
    reader = Rows("", tmp_path)
    for batch in tailrace.changes(EXAMPLE):
        reader.note(batch.slice(0, 1))
        if batch.num_rows > 1:
            reader.note(batch.slice(1))
    assert reader.rows > 1000
    assert reader.difference([], EXAMPLE) is None, "only batches' borders differ"
    rows = reader.found
    place = rows[0].schema.get_field_index("_pos")
    field = rows[0].schema.field(place)
    moved = pa.array([rows[0].column(place)[0].as_py() + 1], field.type)
    changed = rows[0].set_column(place, field, moved)
    for reader.found in (rows[1:], [rows[0], *rows], [changed, *rows[1:]]):
        assert "not the same" in str(reader.difference([], EXAMPLE))


def test_bytes_and_sizes_are_told(files, tmp_path):
    reader = Raw("", tmp_path / "copy")
    shutil.copytree(EXAMPLE, tmp_path / "files")
    shutil.copytree(
        EXAMPLE, reader.folder, ignore=lambda _, names: [n for n in names if ".0" not in n]
    )
    index = next((tmp_path / "files").glob("*.index"))
    assert reader.difference(files, index) is None
    last = reader.folder / _logs()[-1].name
    whole = last.read_bytes()
    last.write_bytes(whole + b"\0\0\0")
    assert "sizes" in str(reader.difference(files, index))
    last.write_bytes(whole[:60] + bytes((whole[60] ^ 1,)) + whole[61:])
    assert "other bytes" in str(reader.difference(files, index))


# --- the load --------------------------------------------------------------------------------------


def test_a_load_chooses_by_its_seed():
    plan = Plan("load", 4, large=1.0, huge=1 << 20, statements=True, flush=True, own=True)
    numbers = range(3000)
    first = [choose(random.Random(f"1/0/{n}"), plan) for n in numbers]
    assert first == [choose(random.Random(f"1/0/{n}"), plan) for n in numbers]
    assert first != [choose(random.Random(f"2/0/{n}"), plan) for n in numbers]
    named = {action.__name__ for action in first}
    assert {"huge", "large", "flush_logs", "as_statement", "xa_left", "own_alter"} <= named
    plain = Plan("load", 4, large=0.0, huge=0, statements=False, flush=False, own=False)
    named = {choose(random.Random(f"1/0/{n}"), plain).__name__ for n in numbers}
    assert not {"huge", "large", "flush_logs", "as_statement", "own_alter", "create_as"} & named
