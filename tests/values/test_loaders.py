"""Loaders one by one: known bytes, and for all other bytes a value or an error of our tree."""

import contextlib
import struct
import zlib
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.constants import ColumnType
from tailrace.errors import EventDecodeError, LogError, UnsupportedType
from tailrace.values.decimals import decimal_size, number_text
from tailrace.values.floats import float32_text, load_float
from tailrace.values.registry import loader_of, width_of
from tailrace.values.schema import Column, Logical
from tests.cases import each_case

T = ColumnType


def column(kind, metadata=0, **facts):
    values = {
        "unsigned": False,
        "collation": None,
        "members": None,
        "logical": Logical.PLAIN,
    } | facts
    return Column(0, "c", kind, metadata, True, **values)


def text(kind, metadata, collation=45):
    return column(kind, metadata, collation=collation, logical=Logical.TEXT)


def deflated(value, size=None, head=0x81):
    number = len(value) if size is None else size
    return bytes([head]) + number.to_bytes(head & 7, "big") + zlib.compress(value)


AB = ("a", "b")
KNOWN = [
    (column(T.TINY), "ff", -1),
    (column(T.TINY, unsigned=True), "ff", 255),
    (column(T.INT24), "000080", -8388608),
    (column(T.LONGLONG, unsigned=True), "ff" * 8, 2**64 - 1),
    (column(T.YEAR), "00", 0),
    (column(T.YEAR), "01", 1901),
    (column(T.NEWDECIMAL, 14 << 8 | 4), "810dfb38d204d2", Decimal("1234567890.1234")),
    (column(T.NEWDECIMAL, 14 << 8 | 4), "7ef204c72dfb2d", Decimal("-1234567890.1234")),
    (column(T.DATE), "21d00f", "2024-01-01"),
    (column(T.NEWDATE), "0ad00f", "2024-00-10"),
    (column(T.DATETIME2, 0), "8000000000", "0000-00-00 00:00:00"),
    (column(T.TIMESTAMP2, 3), "0000000004d2", None),
    (column(T.TIMESTAMP2, 0), "00000000", "0000-00-00 00:00:00"),
    (column(T.TIMESTAMP2, 0), "7fffffff", "2038-01-19 03:14:07"),
    (column(T.TIME2, 0), "800000", "00:00:00"),
    (column(T.TIME2, 1), "7fffffce", "-00:00:00.5"),
    (column(T.TIME), "40e201", "12:34:56"),
    (column(T.DATETIME), "407e91a368120000", "2024-06-30 12:00:00"),
    (column(T.TIMESTAMP), "ffffff7f", "2038-01-19 03:14:07"),
    (column(T.BIT, 13), "1fff", 8191),
    (column(T.ENUM, 1, members=AB), "00", ""),
    (column(T.ENUM, 1, members=AB), "02", "b"),
    (column(T.ENUM, 1), "02", 2),
    (column(T.SET, 1, members=AB), "03", "a,b"),
    (column(T.SET, 1), "03", 3),
    (column(T.NULL), "", None),
    (column(T.STRING, 4, logical=Logical.BINARY), "01", b"\x01\0\0\0"),
    (column(T.VARCHAR, 4, logical=Logical.BINARY), "01", b"\x01"),
    (text(T.VARCHAR, 20, 8), "e9", "é"),
    (text(T.VARCHAR, 20, None), "c3a9", "é"),
    (column(T.STRING, 16, logical=Logical.UUID), "01", "01000000-0000-0000-0000-000000000000"),
    (column(T.STRING, 4, logical=Logical.INET4), "0a", "10.0.0.0"),
    (column(T.STRING, 16, logical=Logical.INET6), "", "::"),
    (column(T.VECTOR, 4, logical=Logical.VECTOR), "0000803f000000c0", (1.0, -2.0)),
    (column(T.BLOB, 4, logical=Logical.JSON), "5b315d", "[1]"),
    (text(T.VARCHAR_COMPRESSED, 9), "", ""),
    (text(T.VARCHAR_COMPRESSED, 9), "006162", "ab"),
    (text(T.BLOB_COMPRESSED, 2), deflated(b"abc" * 99, head=0x82).hex(), "abc" * 99),
]


@each_case(
    ("column", "data", "value"),
    [known for known in KNOWN if known[2] is not None or known[0].type is T.NULL],
)
def test_known_values(column, data, value):
    raw = bytes.fromhex(data)
    loaded = loader_of(column)(raw)
    assert loaded == value
    assert type(loaded) is type(value) or isinstance(value, str)
    width = width_of(column)
    assert width.prefix or width.size == len(raw)


BAD = [
    (column(T.DATE), "ffffff", "year 32767"),
    (column(T.DATE), "ffff00", "month 15"),
    (column(T.DATETIME2, 0), "7fffffffff", "before year 0"),
    (column(T.DATETIME2, 0), "99b25fffff", "hour 31"),
    (column(T.DATETIME2, 0), "99b2440fff", "minute 63"),
    (column(T.DATETIME2, 6), "99b2440000ffffff", "microsecond 16777215"),
    (column(T.TIME2, 0), "ffffff", "hour"),
    (column(T.TIME), "ffff7f", "second"),
    (column(T.DATETIME), "ff" * 8, "there is no"),
    (column(T.NEWDECIMAL, 4 << 8 | 2), "ffff", "below 100"),
    (column(T.NEWDECIMAL, 4 << 8 | 2), "8064", "below 100"),
    (column(T.ENUM, 1, members=AB), "03", "value 3"),
    (column(T.SET, 1, members=AB), "04", "0x4"),
    (column(T.STRING, 2, logical=Logical.BINARY), "010203", "2 bytes has 3"),
    (column(T.VECTOR, 4, logical=Logical.VECTOR), "000000", "multiple of 4"),
    (column(T.GEOMETRY, 4, logical=Logical.GEOMETRY), "0000", "no SRID"),
    (text(T.VARCHAR, 20, 45), "ff", "utf8mb4"),
    (text(T.VARCHAR_COMPRESSED, 9), deflated(b"0123456789").hex(), "9 are allowed"),
    (text(T.VARCHAR_COMPRESSED, 99), deflated(b"0123456789", 9).hex(), "claims"),
    (text(T.VARCHAR_COMPRESSED, 99), deflated(b"0123456789", 11).hex(), "claims"),
    (text(T.VARCHAR_COMPRESSED, 99), "8103ffff", "uncompress"),
    (text(T.VARCHAR_COMPRESSED, 99), "80", "begins with"),
    (text(T.VARCHAR_COMPRESSED, 99), "4103", "begins with"),
    (text(T.BLOB_COMPRESSED, 1), deflated(bytes(1 << 20), head=0x83).hex(), "255 are allowed"),
]


@each_case(("column", "data", "message"), BAD)
def test_bad_values(column, data, message):
    with pytest.raises(EventDecodeError, match=message):
        loader_of(column)(bytes.fromhex(data))


@each_case(
    ("kind", "metadata"),
    [
        (T.DECIMAL, 0),
        (T.TYPED_ARRAY, 0),
        (T.INVALID, 0),
        (T.BOOL, 0),
        (T.BIT, 0),
        (T.BIT, 65),
        (T.ENUM, 3),
        (T.SET, 9),
        (T.BLOB, 0),
        (T.BLOB, 5),
        (T.JSON, 0),
    ],
)
def test_types_that_no_row_has(kind, metadata):
    with pytest.raises(UnsupportedType, match=kind.name):
        width_of(column(kind, metadata))


@each_case(
    ("kind", "metadata"),
    [(T.NEWDECIMAL, 66 << 8), (T.NEWDECIMAL, 2 << 8 | 3), (T.TIME2, 7), (T.DATETIME, 9)],
)
def test_metadata_that_no_type_has(kind, metadata):
    with pytest.raises(EventDecodeError):
        width_of(column(kind, metadata))


EVERY = [known[0] for known in KNOWN] + [
    column(T.JSON, 4, logical=Logical.JSON),
    column(T.GEOMETRY, 4, logical=Logical.GEOMETRY),
    column(T.FLOAT, 4),
    column(T.DOUBLE, 8),
    *(
        column(kind, digits)
        for kind in (T.TIME2, T.TIMESTAMP2, T.DATETIME2)
        for digits in (1, 4, 6)
    ),
    *(column(kind, digits) for kind in (T.TIME, T.TIMESTAMP, T.DATETIME) for digits in (1, 4, 6)),
    *(text(T.VARCHAR, 20, collation) for collation in (1, 12, 13, 28, 35, 54, 56, 60, 95, 97, 248)),
]


@given(st.sampled_from(EVERY), st.data())
def test_any_bytes_give_a_value_or_our_error(column, data):
    width = width_of(column)
    sizes = (0, 60) if width.prefix else (width.size, width.size)
    raw = data.draw(st.binary(min_size=sizes[0], max_size=sizes[1]))
    with contextlib.suppress(LogError):
        loader_of(column)(raw)


def test_decimals_keep_their_scale():
    assert number_text(b"\x80\x00", 4, 2) == "0.00"
    assert number_text(b"\x80" + bytes(13), 30, 30) == f"0.{'0' * 30}"
    assert decimal_size(65, 30) == 30
    with pytest.raises(EventDecodeError, match="has 1"):
        number_text(b"\x80", 4, 2)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float32_text_round_trips(value):
    text = float32_text(value)
    assert float32_text(float(text)) == text
    assert load_float(struct.pack("<f", float(text))) == value


def test_float32_text_is_short():
    assert float32_text(load_float(bytes.fromhex("cdcccc3d"))) == "0.1"
    assert float32_text(16777216.0) == "16777216.0"


def test_geometry_is_srid_and_wkb():
    value = bytes.fromhex("e6100000" + "0101000000" + "00" * 16)
    assert loader_of(column(T.GEOMETRY, 4))(value) == value
