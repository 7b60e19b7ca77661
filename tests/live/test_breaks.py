"""Live reading through forced breaks, against the server's files; and the witnesses themselves.

`tools.campaign.live` does it; ``python -m tools.campaign.live --size full`` breaks 100 times.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import tailrace
from tests.waiting import wait_for
from tools.campaign import live, live_files
from tools.campaign.live_consumers import Events, Gtids, Raw, Rows, raw_of
from tools.load.actions import choose
from tools.load.client import Plan
from tools.load.load import Load
from tools.servers import available

SEED = 6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_what_arrives_through_breaks_is_what_the_files_hold(name: str) -> None:
    if reason := available(name):
        if os.environ.get("TAILRACE_REQUIRE_SERVERS") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    report = live.run(name, live.SIZES["small"], SEED)
    assert report.failures == []
    assert report.breaks.total() == live.SIZES["small"].breaks
    assert len(report.breaks) == 7, "each kind of break"
    assert report.reconnections >= 4 * report.breaks.total() // 2, "breaks that nobody felt"
    assert report.transactions > 100
    assert report.rows > 100


# --- the comparison finds what it is there to find -----------------------------------------------


def _event(kind: int, body: bytes, flags: int = 0) -> bytes:
    length = 19 + len(body)
    fixed = b"\0\0\0\0" + bytes((kind,)) + b"\1\0\0\0" + length.to_bytes(4, "little")
    return fixed + b"\0\0\0\0" + flags.to_bytes(2, "little") + body


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "binlog.000001"
    kinds = (15, 35, 33, 2, 16, 4)
    path.write_bytes(b"\xfebin" + b"".join(_event(kind, bytes((kind,))) for kind in kinds))
    return path


def test_events_are_walked_to_a_torn_tail(log: Path) -> None:
    whole = list(live_files.events(log))
    assert [event.type for event in whole] == [15, 35, 33, 2, 16, 4]
    assert [event.offset for event in whole] == [4, 24, 44, 64, 84, 104]
    log.write_bytes(log.read_bytes()[:-1])
    assert list(live_files.events(log)) == whole[:-1]


def test_only_the_flag_of_a_log_in_use_is_overlooked() -> None:
    at = ("binlog.000001", 4)
    assert live_files.seen(*at, _event(15, b"x", 1)) == live_files.seen(*at, _event(15, b"x"))
    assert live_files.seen(*at, _event(15, b"x", 2)) != live_files.seen(*at, _event(15, b"x"))
    assert live_files.seen(*at, _event(2, b"x", 1)) != live_files.seen(*at, _event(2, b"x"))


def test_events_lost_doubled_and_changed_are_told(log: Path) -> None:
    wanted = list(live_files.events(log))
    assert live_files.difference("read", wanted, wanted) is None
    lost = live_files.difference("read", wanted[:3] + wanted[4:], wanted)
    assert lost is not None
    assert "event 3" in lost
    doubled = live_files.difference("read", [*wanted[:4], wanted[3], *wanted[4:]], wanted)
    assert doubled is not None
    assert "event 4" in doubled
    other = wanted[2]._replace(digest=wanted[2].digest + 1)
    changed = live_files.difference("read", [*wanted[:2], other, *wanted[3:]], wanted)
    assert changed is not None
    assert "with other bytes" in changed
    short = live_files.difference("read", wanted[:-1], wanted)
    assert short is not None
    assert "5 events, the files have 6" in short


def test_a_transaction_that_a_crash_cut_off_is_none(tmp_path: Path) -> None:
    first, second = tmp_path / "binlog.000001", tmp_path / "binlog.000002"
    written = [_event(kind, b"x") for kind in (15, 162, 19, 23, 16, 162, 19, 23)]
    first.write_bytes(b"\xfebin" + b"".join(written)[:-3])
    second.write_bytes(b"\xfebin" + b"".join(_event(kind, b"y") for kind in (15, 162, 2)))
    found = [event for path in (first, second) for event in live_files.events(path)]
    assert [len(each) for each in live_files.transactions(found)] == [4, 2]
    assert live_files.size(first) == first.stat().st_size - len(written[-1]) + 3
    assert live_files.size(second) == second.stat().st_size


def test_transactions_begin_at_gtids_and_hold_no_control_events(log: Path) -> None:
    found = list(live_files.events(log))
    assert live_files.transactions(found) == [tuple(event.digest for event in found[2:5])]


EXAMPLE = Path(__file__).parents[2] / "examples" / "shop" / "mysql"


@pytest.fixture
def files() -> list[live_files.Seen]:
    return [event for path in _logs() for event in live_files.events(path)]


def _logs() -> list[Path]:
    return sorted(EXAMPLE.glob("*.0*"))


def test_events_of_files_are_seen_as_they_are(files: list[live_files.Seen], tmp_path: Path) -> None:
    reader = Events(str(EXAMPLE), tmp_path)
    for event in tailrace.open(EXAMPLE, expand_payloads=False):
        assert event.file is not None
        assert event.offset is not None
        reader.found.append(live_files.seen(event.file, event.offset, raw_of(event)))
    assert reader.difference(files, EXAMPLE) is None
    reader.found.pop(100)
    assert "event 100" in str(reader.difference(files, EXAMPLE))


def test_transactions_lost_doubled_and_swapped_are_told(
    files: list[live_files.Seen], tmp_path: Path
) -> None:
    reader = Gtids("", tmp_path, "mysql")
    control = [event for event in files if event.type in {15, 35, 4}]
    assert control
    reader.found = [event for event in files if event.type not in {15, 35, 4}]
    assert reader.difference(files, EXAMPLE) is None
    starts = [n for n, event in enumerate(reader.found) if event.type == 33]
    first, second, third = starts[10:13]
    good = reader.found
    reader.found = good[:first] + good[second:]
    assert "transaction 10 differs" in str(reader.difference(files, EXAMPLE))
    reader.found = good[:second] + good[first:]
    assert "transaction 11 differs" in str(reader.difference(files, EXAMPLE))
    reader.found = good[:first] + good[second:third] + good[first:second] + good[third:]
    assert "transaction 10 differs" in str(reader.difference(files, EXAMPLE))
    reader.found = good[: second - 1] + good[second:]
    assert "transaction 10 differs" in str(reader.difference(files, EXAMPLE))


def test_rows_lost_doubled_and_changed_are_told(tmp_path: Path) -> None:
    reader = Rows("", tmp_path)
    for batch in tailrace.changes(EXAMPLE):
        reader.note(batch.slice(0, 1))
        if batch.num_rows > 1:
            reader.note(batch.slice(1))
    assert reader.rows > 1000
    assert reader.difference([], EXAMPLE) is None, "only batches' borders differ"
    rows = reader.found
    reader.found = rows[1:]
    assert "not the same" in str(reader.difference([], EXAMPLE))
    reader.found = [rows[0], *rows]
    assert "not the same" in str(reader.difference([], EXAMPLE))
    place = rows[0].schema.get_field_index("_pos")
    field = rows[0].schema.field(place)
    moved = pa.array([rows[0].column(place)[0].as_py() + 1], field.type)
    reader.found = [rows[0].set_column(place, field, moved), *rows[1:]]
    assert "not the same" in str(reader.difference([], EXAMPLE))


def test_bytes_and_sizes_are_told(files: list[live_files.Seen], tmp_path: Path) -> None:
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


def test_a_load_chooses_by_its_seed() -> None:
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


def test_a_load_outlives_its_server(fresh_server) -> None:
    server = fresh_server("mariadb-10.11", {"sync_binlog": 1, "innodb_flush_log_at_trx_commit": 1})
    load = Load(server, seed=SEED, clients=3, huge=0)
    with load:
        wait_for(lambda: load.counts["small"] > 20)
        connections = load.counts["connections"]
        server.kill()
        server.start()
        enough = load.counts["small"] + 20
        wait_for(lambda: load.counts["small"] > enough)
        # the other clients may still be on their way
        wait_for(lambda: load.counts["connections"] >= connections + 3)
    assert server.query("XA RECOVER") == []
    marks = set(server.query("SELECT client, n FROM random_load.marks"))
    assert load.acknowledged() <= marks
    assert len(load.acknowledged()) > 20
