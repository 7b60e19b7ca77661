"""What goes wrong in GTID events, and what follows from their fields."""

import struct

import pytest

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError
from tailrace.events import GtidEvent, MariadbGtidEvent, PreviousGtidsEvent
from tailrace.events.serialization import read_signed, read_unsigned, write_unsigned
from tests.cases import each_case
from tests.events.cases import GTID, UUID
from tests.events.made import decode, unread


def message(*fields, version=1, last=0):
    """A GTID_TAGGED body of these fields, its size filled in."""
    rest = write_unsigned(last) + b"".join(fields)
    head = write_unsigned(version)
    for size in range(256):
        whole = head + write_unsigned(size) + rest
        if len(whole) == size:
            return whole
    raise AssertionError


def number(field, value):
    return write_unsigned(field) + write_unsigned(value)


UUID_FIELD = number(1, UUID[0]) + b"".join(write_unsigned(byte) for byte in UUID[1:])


def tagged(body):
    event = decode(EventType.GTID_TAGGED, body)
    assert isinstance(event, GtidEvent)
    return event


@each_case(
    ("raw", "value"),
    [
        ("02", 1),
        ("00", 0),
        ("fe", 127),
        ("0102", 128),
        ("30", 24),
        ("f903", 254),
        ("ff" + "00" * 7 + "80", 1 << 63),
        ("7f" + "ff" * 7, (1 << 56) - 1),
    ],
)
def test_unsigned_integers(raw, value):
    data = bytes.fromhex(raw)
    assert read_unsigned(data, 0, len(data)) == (value, len(data))
    assert write_unsigned(value) == data
    for size in range(len(data)):
        with pytest.raises(EventDecodeError):
            read_unsigned(data, 0, size)


@each_case(("folded", "value"), [(0, 0), (1, -1), (2, 1), (3, -2), (2**64 - 1, -(2**63))])
def test_signed_integers(folded, value):
    data = write_unsigned(folded)
    assert read_signed(data, 0, len(data))[0] == value


def test_an_untagged_gtid_and_all_fields():
    event = tagged(
        message(
            number(0, 0),
            UUID_FIELD,
            number(2, 2 * 7),
            write_unsigned(3) + b"\0",
            number(6, 20),
            number(7, 10),
            number(9, 90200),
            number(10, 80042),
            number(11, 5),
        )
    )
    assert str(event.gtid) == "896e7882-18fe-11ef-ab88-22222d34d411:7"
    assert (event.immediate_commit_timestamp, event.original_commit_timestamp) == (20, 10)
    assert event.commit_timestamp == 10
    assert (event.immediate_server_version, event.original_server_version) == (90200, 80042)
    assert event.commit_group_ticket == 5
    assert not event.anonymous


def test_fields_of_a_newer_server():
    known = (UUID_FIELD, number(2, 2))
    assert tagged(message(*known, number(12, 1))).gno == 1  # may be passed over
    with pytest.raises(EventDecodeError, match="field 12 must be understood"):
        tagged(message(*known, number(12, 1), last=13))


@each_case(
    ("body", "words"),
    [
        (message(number(2, 2)), "holds no GTID"),
        (message(UUID_FIELD), "holds no GTID"),
        (message(number(2, 2), UUID_FIELD), "field 1 comes after field 2"),
        (message(UUID_FIELD, number(2, 1)), "number -1 is out of range"),
        (message(UUID_FIELD, number(2, 0)), "number 0 is out of range"),
        (message(number(1, 300), *[write_unsigned(1)] * 15, number(2, 2)), "a byte of the UUID"),
        (message(UUID_FIELD, number(2, 2), write_unsigned(3) + b"\x06A-B"), "not a tag"),
        (message(UUID_FIELD, number(2, 2), write_unsigned(3) + b"\x06 ab"), "not a tag"),
        (message(UUID_FIELD, number(2, 2), write_unsigned(3) + b"\x06aB_"), "not a tag"),
        (message(UUID_FIELD, number(2, 2), number(3, 33), b"a" * 33), "a tag of 33 bytes"),
        (message(UUID_FIELD, number(2, 2), version=2), "serialization version 2"),
    ],
)
def test_messages_that_are_refused(body, words):
    with pytest.raises(EventDecodeError, match=words):
        tagged(body)


@each_case("gno", [0, -1, (1 << 63) - 1])
def test_numbers_out_of_range(gno):
    with pytest.raises(EventDecodeError, match="out of range"):
        decode(EventType.GTID, GTID[:17] + struct.pack("<q", gno))


def test_an_unknown_logical_clock_is_left():
    event = decode(EventType.GTID, GTID[:25] + b"\1" + GTID[26:])
    assert isinstance(event, GtidEvent)
    assert event.last_committed is event.sequence_number is None
    assert event.commit_timestamp is None


def test_previous_gtids_that_are_none():
    event = unread(EventType.PREVIOUS_GTIDS, b"short")
    assert isinstance(event, PreviousGtidsEvent)
    with pytest.raises(EventDecodeError, match=r"binlog.000001 at 4 \(PREVIOUS_GTIDS\)"):
        _ = event.gtids


def test_the_padding_of_mariadb_gtids():
    body = struct.pack("<QIB", 1, 0, 0)
    for padding in (bytes(6), bytes(3744)):  # the latter before a large transaction (11.7 on)
        event = decode(162, body + padding, "mariadb")
        assert isinstance(event, MariadbGtidEvent)
        assert event.seq_no == 1
    for padding in (b"\0\0\0\0\0\1", bytes(3743) + b"\1"):
        with pytest.raises(EventDecodeError, match="bytes follow"):
            decode(162, body + padding, "mariadb")
    flagged = decode(162, struct.pack("<QIB", 1, 0, 1), "mariadb")
    assert isinstance(flagged, MariadbGtidEvent)
    assert flagged.standalone
