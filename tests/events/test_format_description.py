import struct
from functools import partial

import pytest

from tailrace.constants import (
    FILE_FLAGS_AT,
    HEADER_SIZE,
    MAGIC,
    ChecksumAlgorithm,
    EventFlag,
    EventType,
    Flavour,
)
from tailrace.errors import ChecksumMismatch, EventDecodeError, LogError, UsageError
from tailrace.events import DecodeContext, FormatDescriptionEvent
from tailrace.events.description import flavour_of, version_of
from tailrace.events.format_description import file_flags, marked, with_in_use
from tailrace.schema.foreign_keys import logs_cascades
from tailrace.schema.table import Table
from tailrace.writing.dialect import version_number
from tests.cases import each_case
from tests.events.made import MARIADB_ARRAY, MYSQL_ARRAY, checked, raw_event, raw_format


def decode(raw):
    event = DecodeContext().decode(raw)
    assert isinstance(event, FormatDescriptionEvent)
    return event


@each_case(
    ("version", "flavour", "aware"),
    [
        ("9.7.4", Flavour.MYSQL, True),
        ("8.0.42-33", Flavour.MYSQL, True),
        ("5.6.1-log", Flavour.MYSQL, True),
        ("9.6", Flavour.MYSQL, True),
        ("11.8-MariaDB", Flavour.MARIADB, True),
        ("5.6.0", Flavour.MYSQL, False),
        ("5.5.62-log", Flavour.MYSQL, False),
        ("5.1.73", Flavour.MYSQL, False),
        ("11.8.9-MariaDB-4 from Debian-log", Flavour.MARIADB, True),
        ("5.3.0-MariaDB", Flavour.MARIADB, True),
        ("5.2.14-MariaDB-log", Flavour.MARIADB, False),
        ("8.0.39-Vitess", Flavour.MYSQL, True),
        ("unheard of", Flavour.MYSQL, False),
    ],
)
def test_flavour_and_checksums_follow_from_the_version(version, flavour, aware):
    array = MYSQL_ARRAY if aware else MYSQL_ARRAY[:27]
    event = decode(raw_format(version, array, algorithm=1 if aware else None))
    assert event.flavour is flavour
    assert event.server_version == version
    assert event.description.post_headers == array
    assert (event.checksum is not None) == aware
    assert event.checksum_algorithm is (
        ChecksumAlgorithm.CRC32 if aware else ChecksumAlgorithm.NONE
    )
    assert event.binlog_version == 4


@each_case(
    ("version", "flavour", "numbers"),
    [
        ("9.7.4", Flavour.MYSQL, (9, 7, 4)),
        ("9.6", Flavour.MYSQL, (9, 6, 0)),
        ("5.5.5-m3-log", Flavour.MYSQL, (5, 5, 5)),
        ("10.11-MariaDB", Flavour.MARIADB, (10, 11, 0)),
        ("5.5.5-10.11.8-MariaDB-log", Flavour.MARIADB, (10, 11, 8)),
        ("mysql-8.0.36", Flavour.MYSQL, None),
        ("9", Flavour.MYSQL, None),
    ],
)
def test_all_read_a_version_the_same_way(version, flavour, numbers):
    """Flavour and numbers are read once, for checksums, GTIDs, foreign keys and new tables."""
    assert flavour_of(version) is flavour
    assert version_of(version) == numbers
    known = numbers or (0, 0, 0)
    assert logs_cascades(version) == (flavour is Flavour.MYSQL and known >= (9, 6))
    old = numbers is not None and numbers < ((8,) if flavour is Flavour.MYSQL else (11, 6))
    parse = partial(Table.parse, "CREATE TABLE t (a TEXT)", database="d", flavour=flavour)
    if numbers is None:
        with pytest.raises(UsageError, match="server_version"):
            parse(server_version=version)
    else:
        made = parse(server_version=version)
        assert made.schema.columns[0].charset == ("latin1" if old else "utf8mb4")
    digits = 999_999 if numbers is None else numbers[0] * 10_000 + numbers[1] * 100 + numbers[2]
    assert version_number(version) == digits


def test_the_headers_length():
    """WL#3283, Format_event: log_header_len."""
    event = decode(raw_format())
    assert event.header_length == len(event.header.encode()) == 19


def test_created_and_in_use():
    event = decode(raw_format(created=1_700_000_001, flags=1, algorithm=1))
    assert (event.created, event.in_use) == (1_700_000_001, True)
    assert decode(raw_format()).in_use is False


def test_the_flags_of_a_file_are_those_of_its_first_event():
    for in_use in (False, True):
        raw = bytes(marked(raw_format(algorithm=1), in_use=in_use))
        assert decode(raw).in_use is in_use
        head = MAGIC + raw[:HEADER_SIZE]
        assert file_flags(head) == file_flags(MAGIC + raw) == in_use
        assert file_flags(head[:-1]) == file_flags(b"\xfdbin" + raw) == file_flags(b"") == 0
        other = bytearray(head)
        other[FILE_FLAGS_AT] = with_in_use(other[FILE_FLAGS_AT] | EventFlag.RELAY_LOG, in_use=True)
        assert file_flags(other) == EventFlag.IN_USE | EventFlag.RELAY_LOG
        other[FILE_FLAGS_AT] = with_in_use(other[FILE_FLAGS_AT], in_use=False)
        assert file_flags(other) == EventFlag.RELAY_LOG


@each_case("algorithm", [0, 1])
@each_case(("version", "array"), [("9.7.4", MYSQL_ARRAY), ("11.8.9-MariaDB", MARIADB_ARRAY)])
def test_flipped_bytes(version, array, algorithm):
    raw = raw_format(version, array, algorithm=algorithm)
    for at in range(len(raw)):
        for bit in (1, 0x80):
            damaged = bytearray(raw)
            damaged[at] ^= bit
            if at == 17 and bit == 1:
                continue  # IN_USE
            try:
                event = decode(bytes(damaged))
            except LogError:
                continue
            # Without checksums MariaDB's own is not trusted; but the algorithm must not change.
            assert algorithm == 0
            assert event.flavour is Flavour.MARIADB
            assert event.checksum_algorithm is ChecksumAlgorithm.NONE


def test_a_sender_does_not_renew_the_checksum_of_a_log_without():
    raw = raw_format(algorithm=0, created=5, log_pos=0)
    assert decode(raw[:71] + bytes(4) + raw[75:]).created == 0  # zeroed in passing
    raw = raw_format(algorithm=0, created=5)
    with pytest.raises(ChecksumMismatch):
        decode(raw[:71] + bytes(4) + raw[75:])


@each_case("algorithm", [2, 255])
def test_unknown_checksum_algorithms(algorithm):
    with pytest.raises(EventDecodeError, match="checksum algorithm"):
        decode(raw_format(algorithm=algorithm, log_pos=0))


def test_an_array_too_long_for_a_server_without_checksums():
    with pytest.raises(EventDecodeError, match="does not go with 42 event types"):
        decode(raw_format("5.5.62", algorithm=None))


def test_other_versions_of_the_format():
    for version, header, words in ((3, 19, "version 3"), (4, 20, "headers of 20 bytes")):
        body = struct.pack("<H50sIB", version, b"9.7.4", 0, header) + MYSQL_ARRAY + b"\0"
        raw = raw_event(EventType.FORMAT_DESCRIPTION, body, checksum=True)
        with pytest.raises(EventDecodeError, match=words):
            decode(raw)


def test_post_headers():
    description = decode(raw_format()).description
    assert description.post_header(EventType.WRITE_ROWS, 8) == 10
    assert description.post_header(EventType.GTID_LIST, 4) == 4  # past the array's end
    assert description.extra_post_header(EventType.QUERY) == 0
    assert description.table_map_id_size == 6


def test_longer_post_headers_are_stepped_over_and_shorter_refused():
    array = bytearray(MYSQL_ARRAY)
    array[EventType.XID - 1] = 3
    made = DecodeContext()
    made.decode(raw_format(array=bytes(array)))
    event = made.decode(raw_event(EventType.XID, b"new" + struct.pack("<Q", 77)))
    assert event.fields() == {"xid": 77}
    assert event.replace(xid=78).body == b"new" + struct.pack("<Q", 78)
    array[EventType.QUERY - 1] = 11
    made.decode(raw_format(array=bytes(array)))
    with pytest.raises(EventDecodeError, match="2 bytes shorter"):
        checked(made, raw_event(EventType.QUERY, bytes(40)))
