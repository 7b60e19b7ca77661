"""Table maps: types, metadata, optional metadata."""

import pickle
from contextlib import suppress

import pytest

from tailrace.constants import ColumnType, Flavour
from tailrace.errors import EventDecodeError, LogError, UnsupportedType
from tailrace.events import ColumnSpec, DecodeContext, TableMapEvent
from tests.cases import each_case
from tests.events.made import MYSQL_ARRAY, decode, raw_event, raw_format, table_map_body

T = ColumnType


def table(columns, metadata=b"", optional=b"", **more):
    flavour = str(more.pop("flavour", "mysql"))
    event = decode(19, table_map_body(columns, metadata, optional, **more), flavour)
    assert isinstance(event, TableMapEvent)
    return event


def column(code, metadata):
    (spec,) = table(bytes([code]), metadata).columns
    return spec.type, spec.metadata


def test_names_and_numbers():
    event = table(b"\3\3", table_id=0x010203040506, flags=5, nullable=b"\2")
    assert (event.database, event.table) == ("shop", "orders")
    assert (event.table_id, event.flags) == (0x010203040506, 5)
    assert event.columns == (ColumnSpec(T.LONG, 0, False), ColumnSpec(T.LONG, 0, True))
    assert event.primary_key is event.primary_key_prefixes is None
    assert pickle.loads(pickle.dumps(event)) == event


@each_case("fixed", [b"", b"\x99\x98"])
def test_raw_columns_metadata_and_null_bits(fixed):
    """WL#3283, Table_map_event: columns, metadata, null_bits."""
    array = bytearray(MYSQL_ARRAY)
    array[18] += len(fixed)
    body = table_map_body(b"\3\x0f\xf6", b"\x2c\x01\x0a\x02", b"", nullable=b"\6")
    context = DecodeContext()
    context.decode(raw_format(array=bytes(array)))
    event = context.decode(raw_event(19, body[:8] + fixed + body[8:]))
    assert isinstance(event, TableMapEvent)
    assert event.type_codes == bytes([T.LONG, T.VARCHAR, T.NEWDECIMAL])
    assert event.metadata == b"\x2c\x01\x0a\x02"
    assert event.null_bits == b"\6"
    assert [each.nullable for each in event.columns] == [False, True, True]


@each_case(
    ("code", "metadata", "kind", "normalised"),
    [
        (1, "", T.TINY, 0),
        (4, "04", T.FLOAT, 4),
        (5, "08", T.DOUBLE, 8),
        (246, "411e", T.NEWDECIMAL, 65 << 8 | 30),
        (14, "", T.NEWDATE, 0),
        (17, "06", T.TIMESTAMP2, 6),
        (18, "00", T.DATETIME2, 0),
        (19, "03", T.TIME2, 3),
        (16, "0101", T.BIT, 9),  # 1 bit and 1 byte
        (16, "0008", T.BIT, 64),
        (15, "b004", T.VARCHAR, 1200),
        (253, "0a00", T.VAR_STRING, 10),
        (141, "6500", T.VARCHAR_COMPRESSED, 101),
        (252, "02", T.BLOB, 2),
        (140, "02", T.BLOB_COMPRESSED, 2),
        (245, "04", T.JSON, 4),
        (255, "04", T.GEOMETRY, 4),
        (242, "04", T.VECTOR, 4),
        # STRING: the real type, and the length's upper bits inverted in its middle
        (254, "fe0a", T.STRING, 10),
        (254, "eefc", T.STRING, 252 | 0x100),
        (254, "cefc", T.STRING, 0x3FC),  # CHAR(255) in utf8mb4
        (254, "f701", T.ENUM, 1),
        (254, "f808", T.SET, 8),
    ],
)
def test_types(code, metadata, kind, normalised):
    assert column(code, bytes.fromhex(metadata)) == (kind, normalised)


@each_case(
    ("code", "metadata"),
    [
        (246, "4200"),  # more than 65 digits
        (246, "0000"),
        (246, "0506"),  # more digits behind the point than there are
        (18, "07"),
        (16, "0800"),
        (16, "0000"),
        (16, "0108"),  # 65 bits
        (252, "00"),
        (252, "05"),
        (4, "08"),
        (5, "04"),
        (254, "f703"),
        (254, "f809"),
        (254, "f700"),
        (254, "f501"),  # JSON in a STRING
        (3, "00"),  # metadata for a type that has none
    ],
)
def test_metadata_that_no_type_has(code, metadata):
    with pytest.raises(EventDecodeError, match=r"TABLE_MAP"):
        column(code, bytes.fromhex(metadata))


@each_case("code", [20, 21, 99, 142, 243, 244])
def test_types_that_no_table_logs(code):
    with pytest.raises(UnsupportedType, match=f"column 1.*({code}|type)"):
        column(code, b"")


# As a MySQL 9.7 wrote it, with FULL metadata: CHAR latin1, VARCHAR utf8mb4, BINARY, VARBINARY, TEXT
# latin1, BLOB, ENUM, SET, GEOMETRY, POINT, LONGTEXT, CHAR, JSON, VARCHAR gbk; key (c1(5), c4).
REAL_COLUMNS = bytes.fromhex("fe0ffe0ffcfcfefeffff fcfef50f".replace(" ", ""))
REAL_METADATA = bytes.fromhex("fe0a b004 fe05 0700 02 02 f701 f801 04 04 04 cefc 04 1400")
MYSQL_FULL = bytes.fromhex(
    "030f08fcff003f3f083ffcff00fcff001c07020001042a026331026332026333026334026335026336026337"
    "026338026731017002633903633130016a036331310b0408fcff0005070301780179017a0605020161016209"
    "0400050300 0c02fffc"
)
# The same table, as MariaDB 10.11 wrote it: it counts GEOMETRY as text, and has no visibility.
MARIADB_FULL = bytes.fromhex(
    "030c082d3f3f083f3f3f2d2d2e1c07020001042a026331026332026333026334026335026336026337026338"
    "026731017002633903633130016a036331310b02082d05070301780179017a06050201610162090400050300"
)
MARIADB_COLUMNS = REAL_COLUMNS.replace(b"\xf5", b"\xfc")  # JSON is a LONGTEXT


def test_full_metadata_of_mysql():
    event = table(REAL_COLUMNS, REAL_METADATA, MYSQL_FULL)
    names = [spec.name for spec in event.columns]
    assert names == [
        "c1",
        "c2",
        "c3",
        "c4",
        "c5",
        "c6",
        "c7",
        "c8",
        "g1",
        "p",
        "c9",
        "c10",
        "j",
        "c11",
    ]
    collations = [spec.collation for spec in event.columns]
    assert collations == [8, 255, 63, 63, 8, 63, 8, 255, None, None, 255, 255, None, 28]
    assert event.columns[6].members == (b"a", b"b")
    assert event.columns[7].members == (b"x", b"y", b"z")
    assert [spec.geometry_type for spec in event.columns if spec.type is T.GEOMETRY] == [0, 1]
    assert all(spec.visible for spec in event.columns)
    assert (event.primary_key, event.primary_key_prefixes) == ((0, 3), (5, 0))
    assert event.layout.unknown_fields == ()


def test_full_metadata_of_mariadb():
    event = table(MARIADB_COLUMNS, REAL_METADATA, MARIADB_FULL, flavour="mariadb")
    collations = [spec.collation for spec in event.columns]
    assert collations == [8, 45, 63, 63, 8, 63, 8, 45, 63, 63, 45, 45, 46, 28]
    assert [spec.visible for spec in event.columns] == [None] * 14
    assert (event.primary_key, event.primary_key_prefixes) == ((0, 3), (5, 0))


def test_signs_count_numbers_and_years():
    # YEAR, INT UNSIGNED, TINYINT, BIGINT UNSIGNED, DECIMAL UNSIGNED, FLOAT UNSIGNED, DOUBLE,
    # BIT(9), YEAR, SMALLINT UNSIGNED, MEDIUMINT UNSIGNED: the bits are MySQL's and MariaDB's.
    columns = bytes([13, 3, 1, 8, 246, 4, 5, 16, 13, 2, 9])
    event = table(columns, bytes.fromhex("0a03 04 08 0101"), bytes.fromhex("0102ddc0"))
    signs = [spec.unsigned for spec in event.columns]
    assert signs == [True, True, False, True, True, True, False, None, True, True, True]


def test_vectors_and_invisible_columns_of_mysql():
    optional = bytes.fromhex("01016003023f080d0103040f026964016501740179017503696e760801000c01f8")
    event = table(bytes([3, 242, 252, 13, 3, 3]), b"\4\2", optional)
    assert [spec.name for spec in event.columns] == ["id", "e", "t", "y", "u", "inv"]
    assert (event.columns[1].dimensions, event.columns[1].collation) == (3, 63)
    assert event.columns[2].collation == 8
    assert [spec.visible for spec in event.columns] == [True] * 5 + [False]
    assert event.primary_key == (0,)


def test_compressed_columns_of_mariadb_have_collations():
    event = table(
        bytes([3, 141, 140, 254]),
        bytes.fromhex("6500 02 fe03"),
        bytes.fromhex("0101000203 08012d"),
        flavour="mariadb",
    )
    assert [spec.collation for spec in event.columns] == [None, 8, 45, 8]


def test_enums_by_a_default_collation():
    event = table(b"\xfe\xfe", bytes.fromhex("f701 f801"), bytes.fromhex("0a 03 08 01 2d"))
    assert [spec.collation for spec in event.columns] == [8, 45]


def test_unknown_fields_are_named():
    event = table(b"\3", b"", b"\x63\2xy\x01\x01\x80")
    assert event.layout.unknown_fields == (0x63,)
    assert event.columns[0].unsigned is True


@each_case(
    ("optional", "words"),
    [
        ("01", "a field's length needs 1 bytes"),
        ("0102", "a field needs 2 bytes"),
        ("0100", "a bit a column"),
        ("01020000", "1 bytes follow SIGNEDNESS"),
        ("0400", "a column's name"),
        ("040101", "a column's name needs 1"),
        ("0401ff", "does not begin a length"),
        ("0801 01", "column 1 of 1"),
        ("0901 00", "a key's prefix"),
        ("0203 080163", "a collation for column 1 of 0"),
    ],
)
def test_damaged_fields(optional, words):
    with pytest.raises(EventDecodeError, match=words):
        table(b"\3", b"", bytes.fromhex(optional))


def test_more_members_than_bytes():
    with pytest.raises(EventDecodeError, match="200 members in 2 bytes"):
        table(b"\xfe", b"\xf7\1", bytes.fromhex("06 03 c8 0161"))


@each_case("flavour", Flavour)
def test_every_truncation(flavour):
    columns, optional = (
        (REAL_COLUMNS, MYSQL_FULL) if flavour == "mysql" else (MARIADB_COLUMNS, MARIADB_FULL)
    )
    body = table_map_body(columns, REAL_METADATA, optional)
    legal = 0
    for size in range(len(body)):
        try:
            decode(19, body[:size], flavour)
        except EventDecodeError:
            continue
        legal += 1  # where one optional field ends and the next has not begun
    assert legal == (8 if flavour == "mysql" else 7)
    for at in range(len(body)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(body)
            damaged[at] ^= flip
            with suppress(LogError):
                repr(decode(19, bytes(damaged), flavour))


def test_the_zero_byte_behind_a_name():
    body = bytearray(table_map_body(b"\3"))
    body[13] = ord("x")
    with pytest.raises(EventDecodeError, match="no zero byte ends the database's name"):
        decode(19, bytes(body))


def test_too_many_columns():
    body = table_map_body(b"\3")
    at = body.index(b"orders\0") + 7
    with pytest.raises(EventDecodeError, match="no table has more than 4096"):
        decode(19, body[:at] + b"\xfc\x01\x10" + bytes(5000))


def test_ids_of_four_bytes():
    array = bytearray(MYSQL_ARRAY)
    array[18] = 6
    context = DecodeContext()
    context.decode(raw_format(array=bytes(array)))
    body = table_map_body(b"\3", table_id=9)
    event = context.decode(raw_event(19, body[:4] + body[6:]))
    assert isinstance(event, TableMapEvent)
    assert (event.table_id, event.table) == (9, "orders")


def test_the_same_bytes_give_the_same_layout():
    first, second = table(b"\3", table_id=1), table(b"\3", table_id=2)
    assert first.layout is second.layout
    assert first != second


def test_tables_of_the_same_columns_share_them():
    body = table_map_body(b"\3\x0f", b"\x28\0")
    first, second = (decode(19, body.replace(b"orders", name)) for name in (b"orders", b"orderz"))
    assert isinstance(first, TableMapEvent)
    assert isinstance(second, TableMapEvent)
    assert (first.table, second.table) == ("orders", "orderz")
    assert first.columns is second.columns


def test_too_many_open_tables():
    context = DecodeContext()
    context.decode(raw_format())
    event = context.decode(raw_event(19, table_map_body(b"\3")))
    assert isinstance(event, TableMapEvent)
    context.table_maps.update(dict.fromkeys(range(1 << 16), event))
    context.decode(raw_event(19, table_map_body(b"\3", table_id=7)))  # known already
    with pytest.raises(EventDecodeError, match="65536 tables are open"):
        context.decode(raw_event(19, table_map_body(b"\3", table_id=1 << 20)))
