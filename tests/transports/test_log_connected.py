"""The log object over its transports: connected or not it gives the same; transports of others."""

import threading

import pytest

import tailrace
from tailrace.constants import EventType
from tailrace.errors import LogError, StorageError, UsageError
from tailrace.gtid import GtidSet
from tailrace.log import Log
from tailrace.position import Position
from tailrace.transports import SeriesTransport
from tests.cases import each_case
from tests.events.made import log as made_log
from tests.events.made import raw_event, raw_format
from tests.handlers.made import BEGIN, DDL, XID
from tests.recorded import CORPUS
from tests.waiting import ended, in_thread

E = EventType
CASES = (
    *("mysql-9.7.checksum-crc32", "mysql-9.7.interleaved", "mysql-9.7.payload-full"),
    *("mysql-9.7.relay-log", "mysql-9.7.torn", "mysql-9.7.xa", "mariadb-11.8.clean-shutdown"),
    *("mariadb-11.8.compressed-statements", "mariadb-11.8.domains", "mariadb-11.8.incident"),
    *("mariadb-11.8.in-use", "mariadb-11.8.relay-log", "mariadb-11.8.torn", "mariadb-11.8.xa"),
)
"""Logs that end or continue in every way; what their rows hold makes no difference here."""


def steps(log):
    return [(event, log.position) for event in log]


def state(log):
    return log.position, log.ignored, log.torn_tail, log.incomplete


@each_case("case", CASES)
def test_connected_or_not_it_gives_the_same(case):
    plain = tailrace.open(CORPUS / case)
    wanted = steps(plain)
    with tailrace.open(CORPUS / case) as connected:
        connected.connect()
        assert steps(connected) == wanted
        assert state(connected) == state(plain)
        assert connected.at_end
    with tailrace.open(CORPUS / case) as waiting:
        got = []
        while not waiting.at_end:
            event = waiting.wait_for_next_event(5)
            if event is not None:
                got.append((event, waiting.position))
        assert got == wanted
        assert state(waiting) == state(plain)
    with tailrace.open(CORPUS / case) as assembling:
        assembling.connect()
        assert list(assembling.transactions()) == list(plain.transactions())


class Wire:
    """A transport as of a server: it knows nothing before it is read, and waits."""

    name = "wire"

    def __init__(self, *records):
        self.records = records
        self.starts = []

    def peek(self):
        return None

    def locate(self, start):
        return None

    def read(self, start, *, follow):
        self.starts.append((start, follow))
        return WireStream(self.records, follow=follow)


class WireStream:
    def __init__(self, records, *, follow):
        self.records = records
        self.torn_tail = None
        self.closed = threading.Event()
        if not follow:
            self.closed.set()

    def __iter__(self):
        yield from self.records
        self.closed.wait()

    def close(self):
        self.closed.set()


def wire(*raws):
    at = 1 << 33
    records = []
    for raw in raws:
        records.append(("source.000007", at, raw))
        at += len(raw)
    return Wire(*records)


def test_a_transport_that_knows_nothing_before():
    transport = wire(raw_format(created=9), DDL, BEGIN, XID)
    log = tailrace.open(transport)
    with pytest.raises(UsageError, match="known only after its first event was read"):
        print(log.created)
    assert log.position == Position("", 4)
    events = list(log)
    assert (log.created, log.format.server_version) == (1_700_000_000, "9.7.4")
    assert events[1].offset == (1 << 33) + len(raw_format())
    assert log.position == Position("source.000007", events[-1].end_offset or 0)
    start = GtidSet.parse("ab3fb2ab-e590-11f1-af3c-02fc00000001:1-9")
    log.seek(start)
    assert [event.name for event in log] == ["FORMAT_DESCRIPTION", "QUERY", "QUERY", "XID"]
    log.seek("source.000007:8589934592")
    list(log)
    log.seek(None)
    list(log)
    assert transport.starts == [
        (None, False),
        (start, False),
        (Position("source.000007", 1 << 33), False),
        (None, False),
    ]


def test_a_transport_that_waits():
    with tailrace.open(wire(raw_format(), DDL), follow=True) as log:
        assert log.wait_for_next_event(5) is not None
        assert log.created == 1_700_000_000
        assert log.wait_for_next_event(5) is not None
        assert log.wait_for_next_event(0.02) is None
        assert not log.at_end


def test_the_first_event_is_no_format_description():
    rotate = raw_event(E.ROTATE, bytes([4, *bytes(7)]) + b"binlog.000002")
    with pytest.raises(LogError, match="a log begins with a format description"):
        list(tailrace.open(wire(rotate)))
    with tailrace.open(wire(rotate)) as log, pytest.raises(LogError, match="a log begins with"):
        log.wait_for_next_event()


def test_a_transport_that_fails_when_it_is_asked():
    class Broken(Wire):
        def read(self, start, *, follow):
            raise StorageError("no line")

    log = tailrace.open(Broken())
    for attempt in (lambda: list(log), log.connect, log.wait_for_next_event):
        with pytest.raises(StorageError, match="no line"):
            attempt()


def test_closing_and_seeking_inside_a_loop(tmp_path):
    path = made_log(tmp_path, 1, DDL, BEGIN, XID, DDL)
    for connect in (False, True):
        with tailrace.open(path) as log:
            for leave in (log.close, lambda: log.seek(None)):
                if connect:
                    log.connect()
                seen = 0
                for _ in log:
                    seen += 1
                    if seen == 2:
                        leave()
                assert seen == 2
            assert len(list(log)) == 5


def test_positions_as_text_and_the_creation_time(tmp_path):
    path = made_log(tmp_path, 3, DDL, BEGIN, XID)
    log = tailrace.open(path)
    assert log.created == 1_700_000_000
    ends = [event.end_offset for event in log]
    resumed = tailrace.open(path, start=f"binlog.000003:{ends[1]}")
    assert [event.name for event in resumed] == ["FORMAT_DESCRIPTION", "QUERY", "XID"]
    log.position = Position("binlog.000003", ends[1] or 0)
    assert list(log) == list(resumed)
    log.position = "binlog.000003"
    assert len(list(log)) == 4
    with pytest.raises(UsageError, match="start is oldest, now, a position"):
        log.position = "rubbish"
    with pytest.raises(StorageError, match="no event begins at"):
        list(tailrace.open(path, start=f"binlog.000003:{(ends[1] or 0) + 1}"))


def test_series_are_transports_too(tmp_path):
    path = made_log(tmp_path, 1, DDL)
    series = tailrace.open(path).transport.series
    assert list(Log(series)) == list(Log(SeriesTransport(series))) == list(tailrace.open(series))


def test_an_interrupted_wait_is_told(tmp_path, monkeypatch):
    """An interrupt may have cost an event: going on as if nothing were would lose it in silence."""
    path = made_log(tmp_path, 1, DDL, DDL)
    with tailrace.open(path) as log:
        first = log.wait_for_next_event()
        assert first is not None

        def interrupt(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(log._link, "get", interrupt)
            with pytest.raises(KeyboardInterrupt):
                log.wait_for_next_event()
        with pytest.raises(StorageError, match="interrupted"):
            log.wait_for_next_event()
        log.seek(log.position)
        assert len(list(log)) == 3


def test_a_close_between_two_waits_ends_them(tmp_path):
    """WL#3283, wait_for_next_event: it goes on until the connection is to be ended."""
    made_log(tmp_path, 1, BEGIN, XID)
    log = tailrace.open(tmp_path, follow=True)
    log.connect()
    assert log.wait_for_next_event() is not None
    ended(in_thread(log.close))
    assert [log.wait_for_next_event() for _ in range(3)] == [None] * 3
    assert not log.at_end
    log.connect()
    assert log.wait_for_next_event() is not None
    log.close()
