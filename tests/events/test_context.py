"""The way from bytes to event: order, checksums, unknown types, places."""

import base64
import pickle
import struct

import pytest

from tailrace.constants import ChecksumAlgorithm, EventType, Flavour
from tailrace.errors import (
    BadEventLength,
    ChecksumMismatch,
    EventDecodeError,
    LogError,
    TruncatedEvent,
    UnknownEvent,
)
from tailrace.events import (
    REGISTRY,
    DecodeContext,
    RotateEvent,
    TableMapEvent,
    XidEvent,
    event_name,
)
from tests.cases import each_case
from tests.events.made import context, raw_event, raw_format

XID = raw_event(EventType.XID, bytes(8))
# From a real server, with its checksum; the facts sheet has checked it (8).
BULK_NULL = base64.b64decode(
    "2ykeWxMBAAAAPgAAAJAGAAAAABcAAAAAAAEABHRlc3QACWJ1bGtfbnVsbAAFDwMFE/YGFAAIAAMBH1bULg8="
)
# From a real MariaDB, with its checksum (facts sheet 4.7): an artificial ROTATE.
FAKE_ROTATE = (
    bytes.fromhex("00000000 04 d9270000 2f000000 00000000 2000 0400000000000000")
    + b"mysql-bin.000034"
    + bytes.fromhex("d53fead7")
)


def test_a_table_map_with_its_checksum():
    event = context(checksums=True).decode(BULK_NULL)
    assert isinstance(event, TableMapEvent)
    assert (event.database, event.table) == ("test", "bulk_null")
    assert event.table_id == 23
    assert event.checksum == struct.unpack("<I", BULK_NULL[-4:])[0]
    assert event.body == BULK_NULL[19:-4]


def test_a_rotate_before_the_format_description():
    event = DecodeContext(checksum_algorithm=ChecksumAlgorithm.CRC32).decode(FAKE_ROTATE)
    assert isinstance(event, RotateEvent)
    assert (event.next_file, event.next_offset, event.artificial) == ("mysql-bin.000034", 4, True)
    assert event.header.server_id == 10201


def test_a_wrong_checksum_says_both_and_where():
    raw = BULK_NULL[:-1] + b"\0"
    with pytest.raises(
        ChecksumMismatch, match=r"binlog\.7 at 12 \(TABLE_MAP\): its checksum is 0x"
    ):
        context(checksums=True).decode(raw, file="binlog.7", offset=12)
    event = context(checksums=True).decode(raw, verify_checksum=False)
    assert event.checksum == 0x002ED456


def test_nothing_is_decoded_without_a_format_description():
    with pytest.raises(EventDecodeError, match="no format description event came before it"):
        DecodeContext().decode(XID)


@each_case("size", range(len(XID)))
def test_truncated_events(size):
    with pytest.raises(TruncatedEvent):
        context().decode(XID[:size])


def test_more_bytes_than_the_event_has():
    with pytest.raises(TruncatedEvent, match="27 bytes, but 28 are there"):
        context().decode(XID + b"x")


@each_case("length", [0, 18, (1 << 30) + 1])
def test_impossible_lengths(length):
    raw = XID[:9] + struct.pack("<I", length) + XID[13:]
    with pytest.raises(EventDecodeError, match="19 to 1073741824"):
        context().decode(raw)


def test_no_place_for_the_checksum():
    with pytest.raises(BadEventLength):
        context(checksums=True).decode(raw_event(EventType.STOP, b"ab"))


def test_every_known_type_has_a_class():
    known = context()
    for code in EventType:
        if code is EventType.UNKNOWN:
            continue
        try:
            known.decode(raw_event(code, b""))
        except UnknownEvent:
            pytest.fail(f"{code.name} has no class")
        except LogError:
            pass


def test_place_value_and_pickle():
    event = context().decode(XID, file="binlog.000003", offset=(1 << 33) + 5)
    assert isinstance(event, XidEvent)
    assert (event.file, event.offset, event.end_offset) == (
        "binlog.000003",
        (1 << 33) + 5,
        (1 << 33) + 5 + 27,
    )
    again = pickle.loads(pickle.dumps(event))
    assert again == event
    assert hash(again) == hash(event)
    assert repr(again) == "<XID binlog.000003@8589934597 xid=0>"
    assert event != context().decode(XID, file="binlog.000003", offset=4)
    assert event != "an event"
    assert (event.type, event.name, event.timestamp) == (16, "XID", 1_700_000_000)
    assert event.fields() == {"xid": 0}


def test_the_context_pickles_with_its_table_maps():
    made = context(checksums=True)
    made.decode(BULK_NULL)
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert again.table_maps[23].table == "bulk_null"
    assert again.flavour is Flavour.MYSQL


def test_a_failed_event_leaves_the_state():
    made = context(checksums=True)
    with pytest.raises(ChecksumMismatch):
        made.decode(BULK_NULL[:-1] + b"\0")
    assert made.table_maps == {}


def test_a_format_description_of_a_server_that_starts_ends_the_table_maps():
    made = context()
    made.decode(raw_event(EventType.TABLE_MAP, BULK_NULL[19:-4]))
    made.decode(raw_event(EventType.ROTATE, bytes(8) + b"x"))
    made.decode(raw_format("11.8.9-MariaDB"))
    assert made.table_maps  # relay logs end inside statements
    made.decode(raw_format("11.8.9-MariaDB", algorithm=1, created=1))
    assert not made.table_maps
    assert made.flavour is Flavour.MARIADB
    assert made.checksum_algorithm is ChecksumAlgorithm.CRC32


def test_names():
    assert event_name(162) == "MARIADB_GTID"
    assert event_name(200) == "UNKNOWN_200"


def test_an_event_nobody_looks_at_is_not_decoded(monkeypatch):
    """Only what the state needs is read: of rows and table maps the id, of a query nothing."""

    def refuse(event, _form):
        raise AssertionError(f"{event.header} was decoded")

    made = context(checksums=True)
    for kind in {base for each in REGISTRY.values() for base in each.__mro__}:
        if "read_body" in vars(kind):
            monkeypatch.setattr(kind, "read_body", refuse)
    rows = raw_event(EventType.WRITE_ROWS, b"\x17" + bytes(9), checksum=True)
    events = [raw_event(code, bytes(40), checksum=True) for code in (2, 5, 13, 14, 16, 33, 38, 40)]
    for raw in (*events, BULK_NULL, rows):
        event = made.decode(raw, file="b", offset=4)
        assert event.encode() == raw
        assert event.replace(server_id=9).body == event.body
        assert event.end_offset == 4 + len(raw)
    with pytest.raises(AssertionError, match="was decoded"):
        _ = event.fields()
