import struct
import zlib

import pytest

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError
from tailrace.events import QueryEvent, StatusVariable
from tailrace.events.compression import decompress
from tests.cases import each_case
from tests.events.made import decode, query_body, unread

STATUS = {
    StatusVariable.FLAGS2: (struct.pack("<I", 0x4000), 0x4000),
    StatusVariable.SQL_MODE: (struct.pack("<Q", 1168113696), 1168113696),
    StatusVariable.CATALOG: (b"\3std\0", "std"),
    StatusVariable.AUTO_INCREMENT: (struct.pack("<HH", 2, 1), (2, 1)),
    StatusVariable.CHARSET: (struct.pack("<HHH", 255, 45, 8), (255, 45, 8)),
    StatusVariable.TIME_ZONE: (b"\6+00:00", "+00:00"),
    StatusVariable.CATALOG_NZ: (b"\3std", "std"),
    StatusVariable.LC_TIME_NAMES: (b"\1\0", 1),
    StatusVariable.CHARSET_DATABASE: (b"\x08\0", 8),
    StatusVariable.TABLE_MAP_FOR_UPDATE: (struct.pack("<Q", 3), 3),
    StatusVariable.MASTER_DATA_WRITTEN: (struct.pack("<I", 99), 99),
    StatusVariable.INVOKER: (b"\4root\x09localhost", ("root", "localhost")),
    StatusVariable.UPDATED_DB_NAMES: (b"\2shop\0caf\xc3\xa9\0", ("shop", "café")),
    StatusVariable.MICROSECONDS: (b"\x40\xe2\x01", 123456),
    StatusVariable.EXPLICIT_DEFAULTS_FOR_TIMESTAMP: (b"\1", 1),
    StatusVariable.DDL_LOGGED_WITH_XID: (struct.pack("<Q", 42), 42),
    StatusVariable.DEFAULT_COLLATION_FOR_UTF8MB4: (b"\xff\0", 255),
    StatusVariable.SQL_REQUIRE_PRIMARY_KEY: (b"\1", 1),
    StatusVariable.DEFAULT_TABLE_ENCRYPTION: (b"\0", 0),
    StatusVariable.ENABLE_CASCADE_TRIGGERS: (b"\1", 1),
    StatusVariable.HRNOW: (b"\x40\xe2\x01", 123456),
    StatusVariable.XID: (struct.pack("<Q", 7), 7),
    StatusVariable.CHARACTER_SET_COLLATIONS: (b"\1" + struct.pack("<HH", 45, 46), ((45, 46),)),
}


def event(status, sql=b"x"):
    made = decode(EventType.QUERY, query_body(sql, status))
    assert isinstance(made, QueryEvent)
    return made


@each_case("code", STATUS, ids=lambda code: code.name)
def test_each_status_variable(code):
    payload, value = STATUS[code]
    made = event(bytes([code]) + payload)
    assert made.status == {code.name: value}
    assert made.status_variables.unparsed == b""
    for size in range(len(payload)):
        with pytest.raises(EventDecodeError, match=r"binlog.000001 at 4 \(QUERY\)"):
            _ = event(bytes([code]) + payload[:size]).status_variables


@each_case("code", STATUS, ids=lambda code: code.name)
def test_raw_status_variables(code):
    """WL#3283, Query_event: variables, also those that cannot be parsed."""
    raw = bytes([code]) + STATUS[code][0]
    assert event(raw).status_bytes == raw
    assert event(b"\xfewhat").status_bytes == b"\xfewhat"
    assert event(b"").status_bytes == b""


def test_all_in_any_order():
    parts = [bytes([code]) + payload for code, (payload, _) in STATUS.items()]
    backwards = event(b"".join(reversed(parts)))
    assert backwards.status == {code.name: value for code, (_, value) in STATUS.items()}
    assert backwards.database == "shop"


def test_an_unknown_status_variable_ends_the_parsing_but_not_the_event():
    made = event(b"\x10\1" + b"\x99abc", b"SELECT 1")
    assert made.status == {"EXPLICIT_DEFAULTS_FOR_TIMESTAMP": 1}
    assert made.status_variables.unparsed == b"\x99abc"
    assert made.sql == "SELECT 1"


def test_too_many_databases_have_no_names():
    assert event(b"\x0c\xfe").status == {"UPDATED_DB_NAMES": None}


@each_case(
    ("payload", "value"), [(b"\x20", (0x20, None)), (b"\x04" + struct.pack("<Q", 9), (4, 9))]
)
def test_mariadb_gtid_flags(payload, value):
    assert event(b"\x82" + payload).status == {"GTID_FLAGS3": value}


def test_what_follows_from_status_variables():
    made = event(b"\x0d\x40\xe2\x01\x04" + struct.pack("<HHH", 28, 28, 8))
    assert made.timestamp_us == 1_700_000_000_123_456
    assert made.client_collation == 28
    assert event(b"\x80\x01\0\0").timestamp_us == 1_700_000_000_000_001
    assert event(b"").timestamp_us == 1_700_000_000_000_000
    assert event(b"").client_collation is None
    assert event(b"").status_value(StatusVariable.SQL_MODE) is None


def test_bytes_that_are_no_utf8():
    made = event(b"", b"INSERT INTO t VALUES ('\xe9\\')")
    assert made.sql == "INSERT INTO t VALUES ('\\xe9\\')"
    assert made.sql_bytes == b"INSERT INTO t VALUES ('\xe9\\')"
    with pytest.raises(EventDecodeError, match="database's name is not UTF-8"):
        decode(EventType.QUERY, query_body(b"x", database=b"\xe9"))


def test_the_zero_byte_behind_the_database():
    body = bytearray(query_body(b"SELECT"))
    body[13 + 4] = 1
    with pytest.raises(EventDecodeError, match="past the event's end"):
        decode(EventType.QUERY, bytes(body))


def compressed(plain, mark=0x84, length=None):
    size = (len(plain) if length is None else length).to_bytes(mark & 7, "big")
    return bytes([mark]) + size + zlib.compress(plain)


@each_case("mark", [0x82, 0x83, 0x84])
def test_compressed_blocks(mark):
    plain = b"CREATE TABLE" * 300
    assert decompress(compressed(plain, mark)) == plain
    assert decompress(b"before" + compressed(plain, mark), 6) == plain
    assert decompress(compressed(b"", mark)) == b""


@each_case(
    ("block", "words"),
    [
        (b"", "compressed block is missing"),
        (compressed(b"x", 0x80 | 1)[:1], "ends inside its length"),
        (b"\x80", "0x80 does not begin"),
        (b"\x85" + bytes(9), "0x85 does not begin"),
        (b"\x89" + bytes(9), "0x89 does not begin"),
        (b"\x04" + bytes(9), "0x04 does not begin"),
        (b"\x91\1" + zlib.compress(b"x"), "algorithm 1 is not known"),
        (compressed(b"x" * 9, 0x81, 8), "does not hold the 8 bytes"),
        (compressed(b"x" * 9, 0x81, 10), "does not hold the 10 bytes"),
        (compressed(b"x" * 9)[:-1], "does not hold"),
        (compressed(b"x" * 9) + b"y", "does not hold"),
        (b"\x81\x09junkjunkjunk", "is damaged"),
        (compressed(b"x", 0x84, 1 << 31), "cannot hold the 2147483648"),
        (compressed(b"x" * 5000, 0x84, 500_000), "cannot hold"),
    ],
)
def test_compressed_blocks_that_are_refused(block, words):
    with pytest.raises(EventDecodeError, match=words):
        decompress(block)


def test_a_damaged_compressed_query_is_noticed_when_asked_for():
    made = unread(EventType.QUERY_COMPRESSED, query_body(b"\x81\3junk"), "mariadb")
    assert isinstance(made, QueryEvent)
    with pytest.raises(EventDecodeError, match=r"at 4 \(QUERY_COMPRESSED\)"):
        _ = made.sql
