"""Without a server: what the stream's control events may say, when attempts are made, pauses."""

import struct
from zlib import crc32

import pytest

from tailrace.errors import (
    AccessDenied,
    BadLogName,
    ConnectionLost,
    EventDecodeError,
    GtidsAhead,
    LogPurged,
    LogReset,
    ProtocolError,
    TailraceError,
)
from tailrace.events import EventHeader, HeartbeatEvent
from tailrace.live.chunks import FileBegin, stamp
from tailrace.live.place import LeftOff, Place, Verdict
from tailrace.live.retry import LONGEST_PAUSE, Attempts, Pauses
from tailrace.live.url import Host, Source
from tailrace.position import Position
from tests.cases import each_case

ARTIFICIAL = 0x20
HOSTILE = [
    *("/root/.ssh/authorized_keys", "../victim/x.000001", "a/b.000001", "a\\b.000001"),
    *("binlog", "binlog.index", "..", "..000001", "a..b.000001", ".000001", "binlog.00000x"),
    *("a\nb.000001", "a\0b.000001", "\x1b[2Jb.000001", "a\x9bb.000001", "a\u202eb.000001"),
    *("x" * 250 + ".000001", "\u5b57" * 90 + ".000001", " b.000001", "b.99999999999"),
]
WRAP = 1 << 32


def event(kind, body=b"", log_pos=0, flags=0, *, crc=True):
    size = 19 + len(body) + 4 * crc
    raw = struct.pack("<IBIIIH", 0, kind, 1, size, log_pos % WRAP, flags) + body
    return memoryview(raw + struct.pack("<I", crc32(raw)) if crc else raw)


def name(file, offset=4, **settings):
    return event(4, struct.pack("<Q", offset) + file.encode(), 0, ARTIFICIAL, **settings)


def rotate(at, file, offset=4):
    body = struct.pack("<Q", offset) + file.encode()
    return event(4, body, at + 19 + len(body) + 4)


def description(log_pos):
    return event(15, bytes(80), log_pos)


def reading(offset=4, *, by_gtid=False, ends=None):
    """A place inside binlog.000007, at an offset behind its description."""
    start = max(4, offset)
    asked = None if by_gtid else Position("binlog.000007", start)
    place = Place(asked, source="it", ends=ends)
    place.control(name("binlog.000007", start))
    size = len(description(0))
    given = place.control(description(0 if offset > 4 else 4 + size))
    assert isinstance(given, FileBegin)
    return place


def heartbeat(file, offset):
    return event(27, file.encode(), offset)


def heartbeat_2(file, offset):
    raw = file.encode()
    body = bytes([1, len(raw)]) + raw + b"\2\x09\xfe" + struct.pack("<Q", offset) + b"\0"
    return event(41, body, offset)


@each_case("given", HOSTILE)
def test_a_source_names_logs_plainly(given):
    """A name becomes a file's in a copy: none leads elsewhere, whatever event gives it."""
    with pytest.raises(BadLogName, match="a log file"):
        Place(Position("", 4), source="it").control(name(given))
    for made in (rotate(reading().offset, given), heartbeat(given, 1 << 20)):
        with pytest.raises(BadLogName, match="a log file"):
            reading(by_gtid=True).control(made)
    if len(given.encode()) < 251:
        with pytest.raises(BadLogName, match="a log file"):
            reading(by_gtid=True).control(heartbeat_2(given, 1 << 20))


def test_a_file_begins():
    place = Place(Position("", 4), source="it")
    assert place.control(name("binlog.000003")) is Verdict.DROPPED
    raw = description(4 + 103)
    assert place.control(raw) == FileBegin(
        "binlog.000003", 4 + len(raw), bytes(raw), artificial=False
    )
    assert place.position == Position("binlog.000003", 4 + len(raw))


@each_case("crc", [False, True])
def test_a_file_is_entered(crc):
    place = Place(Position("binlog.000003", 500), source="it")
    place.control(name("binlog.000003", 500, crc=crc))
    given = place.control(description(0))
    assert given.artificial
    assert given.offset == 500


def test_a_file_ends_by_its_rotate():
    place = reading(1000)
    assert place.control(rotate(1000, "binlog.000008")) is Verdict.KEPT
    assert place.position == Position("binlog.000008", 4)
    with pytest.raises(ProtocolError, match=r"binlog\.000009:4 comes"):
        place.control(name("binlog.000009"))
    assert place.control(name("binlog.000008")) is Verdict.DROPPED


def test_a_file_ends_without_rotate():
    with pytest.raises(LeftOff):  # it may have been reset: another connection tells
        reading(1000).control(name("binlog.000008"))
    place = reading(1000, ends=Position("binlog.000007", 1000))
    assert place.control(name("binlog.000008")) is Verdict.DROPPED
    place = reading(1000)
    place.moved(1023, 3)  # STOP
    assert place.control(name("binlog.000008")) is Verdict.DROPPED
    assert reading(1000, by_gtid=True).control(name("binlog.000008")) is Verdict.DROPPED
    for other in ("binlog.000007", "binlog.000006"):
        with pytest.raises(LogReset):
            reading(1000).control(name(other))


@each_case(
    "sequence",
    [
        [description(110)],
        [event(27, b"binlog.000007", 4)],
        [rotate(4, "binlog.000008")],
        [name("binlog.000007"), name("binlog.000007")],
        [name("binlog.000006")],
        [name("binlog.000007", 5)],
        [name("binlog.000007"), description(0)],
        [name("binlog.000007"), description(107), description(107)],
        [name("binlog.000007"), description(107), event(2, b"", 200, ARTIFICIAL)],
        [event(4, bytes(8), 0, ARTIFICIAL)],
    ],
)
def test_what_may_not_come(sequence):
    place = Place(Position("binlog.000007", 4), source="it")
    for each in sequence[:-1]:
        place.control(each)
    with pytest.raises(TailraceError, match="it: "):
        place.control(sequence[-1])


@each_case(("beat", "at"), [(heartbeat, 1000), (heartbeat_2, 1000), (heartbeat_2, 3 * WRAP + 1000)])
def test_a_heartbeat_stands_where_we_are(beat, at):
    place = reading(at)
    assert place.control(beat("binlog.000007", at)) is Verdict.DROPPED
    assert place.heard == Position("binlog.000007", at)
    for file, offset in (
        ("binlog.000007", at + 1),
        ("binlog.000008", at),
        ("binlog.000007", at - 1),
    ):
        with pytest.raises(ProtocolError):
            reading(at).control(beat(file, offset))


@each_case("crc", [False, True])
@each_case(
    ("body", "why"),
    [
        (b"\1\x0dbinlog.000007\2\3\xfc\xe8\3", "a field.s type"),
        (b"\1\x0dbinlog.000007\2\3\xfc\xe8\3\0\7\7", "2 bytes follow"),
        (b"\1\x0dbinlog.00000\xff\2\3\xfc\xe8\3\0", "not UTF-8"),
    ],
)
def test_a_heartbeat_is_read_as_its_event_is(body, why, crc):
    """HEARTBEAT_V2 is fields up to a mark, and nothing follows: a damaged one confirms nothing."""
    raw = event(41, body, 1000, crc=crc)
    with pytest.raises(ProtocolError, match=why):
        reading(1000).control(raw)
    header = EventHeader.parse(raw)
    with pytest.raises(EventDecodeError, match=why):
        HeartbeatEvent(header, body).check()


def test_mariadbs_heartbeat_past_4_gib():
    body = struct.pack("<Q", WRAP + 7) + b"binlog.000007"
    place = reading(WRAP + 7)
    assert place.control(event(27, body, 0)) is Verdict.DROPPED


def test_by_gtid_the_source_goes_over_what_we_have():
    place = reading(1000, by_gtid=True)
    place.control(heartbeat_2("binlog.000007", 5000))
    assert place.offset == 5000
    place.control(event(163, bytes(4), 6000, ARTIFICIAL))
    assert place.offset == 6000
    place.hole(event(33, bytes(42), 7000))
    assert place.offset == 7000 - 65
    place.hole(event(33, bytes(42), 10))  # past 4 GiB
    assert place.offset == WRAP + 10 - 65
    with pytest.raises(ProtocolError, match="bytes are missing"):
        reading(1000).hole(event(33, bytes(42), 7000))


def test_an_encrypted_logs_event_stands_there_once():
    place = reading(4)
    size = len(event(164, bytes(17)))
    assert place.control(event(164, bytes(17), place.offset + size, 0x80)) is Verdict.KEPT
    assert reading(1000).control(event(164, bytes(17), 147, 0x80)) is Verdict.DROPPED


def test_a_stamp_is_the_same_however_it_is_sent():
    filed = bytearray(description(107))
    sent = bytearray(filed)
    sent[13:17] = sent[71:75] = sent[-4:] = b"\1\2\3\4"
    sent[17] ^= 1
    assert stamp(bytes(filed)) == stamp(bytes(sent))
    for at in (0, 5, 21, 80):
        other = bytearray(filed)
        other[at] ^= 1
        assert stamp(bytes(other)) != stamp(bytes(filed))


# --- attempts ------------------------------------------------------------------------------------

LOST, DENIED = ConnectionLost("lost"), AccessDenied("denied")


def attempts(hosts=1, retry=None, first=False):
    return Attempts(
        Source(
            hosts=tuple(Host("h", n + 1) for n in range(hosts)),
            user="u",
            retry=retry,
            retry_first=first,
        )
    )


def test_at_first_each_host_is_tried():
    tried = attempts(3)
    for port in (1, 2):
        assert tried.host.port == port
        tried.failed(DENIED if port == 1 else LOST, 10)
        assert tried.due == 10
    with pytest.raises(AccessDenied):
        tried.failed(LOST, 10)


def test_pauses_grow_and_vary():
    pauses = Pauses()
    drawn = [pauses.next() for _ in range(20)]
    assert drawn[0] == 0
    most = [0.0, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6] + [LONGEST_PAUSE] * 11
    assert all(bound / 2 <= pause <= bound for pause, bound in zip(drawn, most, strict=True))
    assert len(set(drawn[-11:])) > 1
    pauses.reset()
    assert pauses.next() == 0


def test_a_lost_connection_is_tried_again_at_once_and_then_with_pauses():
    tried = attempts()
    tried.connected()
    tried.lost(LOST, 100, proved=True)
    assert tried.due == 100
    tried.failed(LOST, 101)
    assert 101.1 <= tried.due <= 101.2
    tried.connected()
    tried.lost(LOST, 102, proved=False)  # of no use: the pauses go on growing
    assert 102.2 <= tried.due <= 102.4
    with pytest.raises(AccessDenied):
        tried.failed(DENIED, 103)
    tried.connected()
    tried.lost(LOST, 200, proved=True)
    assert tried.due == 200


def test_it_ends_when_the_time_for_it_is_over():
    tried = attempts(retry=5)
    tried.connected()
    tried.lost(LOST, 100, proved=True)
    tried.failed(LOST, 101)
    tried.failed(LOST, 104.99)
    assert tried.due <= 105
    with pytest.raises(ConnectionLost, match=r"u@h:1: no connection for 5 seconds") as caught:
        tried.failed(LOST, 105)
    assert caught.value.__cause__ is LOST
    tried = attempts(retry=0)
    tried.connected()
    with pytest.raises(ConnectionLost):
        tried.lost(LOST, 100, proved=True)


def test_the_first_connection_is_retried_where_that_was_said():
    tried = attempts(retry=5, first=True)
    tried.failed(LOST, 100)
    tried.failed(LOST, 104.99)
    with pytest.raises(ConnectionLost, match=r"no connection for 5 seconds"):
        tried.failed(LOST, 105)
    for each in (attempts(retry=5), attempts(), attempts(retry=0, first=True)):
        with pytest.raises(ConnectionLost) as caught:
            each.failed(LOST, 100)
        assert caught.value is LOST


def test_with_several_hosts_what_one_refuses_is_no_end():
    tried = attempts(2)
    tried.connected()
    tried.lost(LOST, 100, proved=True)
    for _ in range(3):
        assert tried.host.port == 1
        tried.failed(LOST, 101)
        assert tried.host.port == 2
        assert tried.due == 101
        tried.failed(GtidsAhead("it lags"), 101)
    assert tried.due > 101
    tried.failed(LogPurged("purged"), 110)
    with pytest.raises(LogPurged):
        tried.failed(GtidsAhead("it lags"), 110)
