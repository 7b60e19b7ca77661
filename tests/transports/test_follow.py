"""Following a log that grows: by bytes, by files, on real servers; and stopping."""

import threading
import time

import pytest

import tailrace
from tailrace.constants import EventType
from tailrace.errors import LogError, StorageError, TruncatedEvent, UsageError
from tailrace.events import QueryEvent
from tailrace.handlers import Handler
from tailrace.position import Position
from tailrace.storage.memory import forget_memory, memory_folder
from tests.events.made import query_body, raw_event, raw_format, write
from tests.handlers.made import BEGIN, DDL, XID
from tests.transports.test_background import _no_thread_is_left, threads  # noqa: F401 - a fixture
from tests.waiting import DEADLINE

E = EventType
ROTATE = raw_event(E.ROTATE, bytes([4, *bytes(7)]) + b"binlog.000002")
IN_USE = raw_format(flags=1)


def append(path, data):
    with path.open("ab") as file:
        file.write(data)


def names(log, count):
    got = []
    for _ in range(count):
        event = log.wait_for_next_event(DEADLINE)
        assert event is not None
        got.append(event.name)
    return got


def test_waiting_for_what_is_appended(tmp_path):
    path = write(tmp_path / "binlog.000001", IN_USE, DDL)
    with tailrace.open(path, follow=True) as log:
        assert names(log, 2) == ["FORMAT_DESCRIPTION", "QUERY"]
        began = time.monotonic()
        assert log.wait_for_next_event(0.15) is None
        assert time.monotonic() - began > 0.14
        assert not log.at_end
        assert log.wait_for_next_event(0) is None
        for at in range(0, len(BEGIN), 7):  # a torn event is one that is still being written
            append(path, BEGIN[at : at + 7])
            if at + 7 < len(BEGIN):
                assert log.wait_for_next_event(0.03) is None
        assert names(log, 1) == ["QUERY"]
        assert log.torn_tail is None
        append(path, XID + DDL)
        assert names(log, 2) == ["XID", "QUERY"]
        assert log.position.offset == path.stat().st_size - len(DDL)
        assert log.wait_for_next_event(0.01) is None
        assert log.position.offset == path.stat().st_size


def test_going_on_into_the_next_file(tmp_path):
    path = write(tmp_path / "binlog.000001", IN_USE)
    with tailrace.open(tmp_path, follow=True) as log:
        assert names(log, 1) == ["FORMAT_DESCRIPTION"]
        append(path, DDL + ROTATE)
        second = tmp_path / "binlog.000002"
        assert names(log, 2) == ["QUERY", "ROTATE"]
        second.write_bytes(b"")
        assert log.wait_for_next_event(0.06) is None
        second.write_bytes(b"\xfebin")
        assert log.wait_for_next_event(0.06) is None
        append(second, IN_USE[:30])
        assert log.wait_for_next_event(0.06) is None
        append(second, IN_USE[30:] + DDL)
        assert names(log, 2) == ["FORMAT_DESCRIPTION", "QUERY"]
        assert log.wait_for_next_event(0.01) is None
        assert log.position == Position("binlog.000002", second.stat().st_size)
    assert len(list(tailrace.open(tmp_path))) == 5


def test_what_was_put_in_before_the_next_file_came_is_read(tmp_path):
    """No event is lost between the last look at a file and the sight of the next."""
    path = write(tmp_path / "binlog.000001", IN_USE)
    with tailrace.open(path, follow=True) as log:
        names(log, 1)
        for number in range(2, 30):
            append(tmp_path / f"binlog.{number - 1:06}", DDL * 3)
            write(tmp_path / f"binlog.{number:06}", IN_USE)
            assert names(log, 4) == ["QUERY", "QUERY", "QUERY", "FORMAT_DESCRIPTION"]


def test_a_crash_and_the_next_file(tmp_path):
    path = write(tmp_path / "binlog.000001", IN_USE, BEGIN, XID[:9])
    with tailrace.open(path, follow=True) as log:
        assert names(log, 2) == ["FORMAT_DESCRIPTION", "QUERY"]
        assert log.wait_for_next_event(0.05) is None
        write(tmp_path / "binlog.000002", raw_format(created=5, flags=1), DDL)
        assert names(log, 2) == ["FORMAT_DESCRIPTION", "QUERY"]


def test_damage_is_no_torn_tail(tmp_path):
    path = write(tmp_path / "binlog.000001", raw_format(), DDL[:-3])  # closed, and cut
    with tailrace.open(path, follow=True) as log:
        names(log, 1)
        for _ in range(2):
            with pytest.raises(TruncatedEvent, match=r"binlog\.000001 at \d+"):
                log.wait_for_next_event(DEADLINE)
        assert not log.at_end
    path = write(tmp_path / "binlog.000002", IN_USE, bytes(19))
    with tailrace.open(path, follow=True) as log, pytest.raises(LogError, match="19 to"):
        list(log)


def test_a_file_that_becomes_shorter(tmp_path):
    path = write(tmp_path / "binlog.000001", IN_USE, DDL, DDL)
    with tailrace.open(path, follow=True) as log:
        names(log, 3)
        path.write_bytes(path.read_bytes()[: -len(DDL)])
        with pytest.raises(StorageError, match="shorter"):
            log.wait_for_next_event(DEADLINE)


def test_a_file_that_is_left_out(tmp_path):
    path = write(tmp_path / "binlog.000001", IN_USE)
    with tailrace.open(path, follow=True) as log:
        names(log, 1)
        write(tmp_path / "binlog.000003", IN_USE)
        with pytest.raises(StorageError, match=r"binlog\.000002 is missing"):
            log.wait_for_next_event(DEADLINE)


def test_following_from_the_end(tmp_path):
    path = write(tmp_path / "binlog.000001", IN_USE, DDL)
    start = f"binlog.000001:{path.stat().st_size}"
    with tailrace.open(path, start=start, follow=True) as log:
        assert names(log, 1) == ["FORMAT_DESCRIPTION"]
        assert log.wait_for_next_event(0.05) is None
        append(path, DDL)
        assert names(log, 1) == ["QUERY"]


def test_following_in_memory():
    folder = memory_folder("test-follow")
    try:
        output = folder.create("binlog.000001", b"\xfebin" + IN_USE)
        with tailrace.open("memory:test-follow", follow=True) as log:
            assert names(log, 1) == ["FORMAT_DESCRIPTION"]
            assert log.wait_for_next_event(0.03) is None
            output.write(DDL[:20])
            assert log.wait_for_next_event(0.03) is None
            output.write(DDL[20:])
            assert names(log, 1) == ["QUERY"]
            folder.create("binlog.000002", b"\xfebin" + IN_USE + DDL)
            assert names(log, 2) == ["FORMAT_DESCRIPTION", "QUERY"]
            folder.remove("binlog.000002")
            with pytest.raises(StorageError, match="no such file"):
                log.wait_for_next_event(DEADLINE)
    finally:
        forget_memory("test-follow")


def test_an_injection_wakes_who_waits(tmp_path):
    path = write(tmp_path / "binlog.000001", IN_USE)
    handler = Handler()
    with tailrace.open(path, follow=True, handlers=[handler]) as log:
        names(log, 1)
        event = QueryEvent.make(sql="CREATE TABLE x (id INT)")
        threading.Timer(0.05, handler.inject, [event]).start()
        assert log.wait_for_next_event(DEADLINE) is event
        assert log.wait_for_next_event(0.02) is None


def test_seeking_while_connected(tmp_path):
    path = write(tmp_path / "binlog.000001", IN_USE, DDL, BEGIN, XID, DDL)
    with tailrace.open(path) as log:
        log.connect()
        log.connect()
        assert threads() <= 1  # it may have read all and ended
        events = [log.wait_for_next_event(DEADLINE) for _ in range(5)]
        assert log.wait_for_next_event(DEADLINE) is None
        assert log.at_end
        assert log.wait_for_next_event() is None
        assert list(log) == []
        end = events[3].end_offset
        log.position = f"binlog.000001:{end}"
        assert threads() == 0
        assert log.position == Position("binlog.000001", end or 0)
        assert [event.name for event in log] == ["FORMAT_DESCRIPTION", "QUERY"]
        log.connect()
        assert [event.name for event in log] == ["FORMAT_DESCRIPTION", "QUERY"]
        log.seek(None)
        log.connect()
        assert [len(one.events) for one in log.transactions()] == [1, 2, 1]
        with pytest.raises(UsageError, match="not among the logs"):
            log.seek("binlog.000009:4")
        assert log.position == Position("binlog.000001", path.stat().st_size)


def test_a_damaged_event_in_its_place_while_connected(tmp_path):
    bad = bytearray(raw_event(E.QUERY, query_body(b"CREATE TABLE t"), checksum=True))
    good = bytes(bad)
    bad[-1] ^= 1
    path = write(tmp_path / "binlog.000001", raw_format(algorithm=1), good, good, bytes(bad), good)
    with tailrace.open(path) as log:
        log.connect()
        assert names(log, 3) == ["FORMAT_DESCRIPTION", "QUERY", "QUERY"]
        for _ in range(2):
            with pytest.raises(LogError, match="checksum"):
                log.wait_for_next_event()
        assert log.position.offset == path.stat().st_size - 2 * len(good)
