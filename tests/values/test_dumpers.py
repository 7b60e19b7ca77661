"""Dumpers one by one: bytes that servers write, what is refused, and nothing but our own error."""

import contextlib
import pickle
from collections import UserDict
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, localcontext
from ipaddress import IPv4Address, IPv6Address
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.constants import ColumnType
from tailrace.errors import UnsupportedType, ValueRejected
from tailrace.values.registry import dumper_of, loader_of
from tailrace.values.schema import Logical
from tests.cases import each_case
from tests.values.test_loaders import AB, EVERY, KNOWN, column, text

T = ColumnType
BINARY = Logical.BINARY


@each_case(
    ("column", "data", "value"),
    [
        known
        for known in KNOWN
        if known[2] is not None and not (known[0].type is T.BLOB_COMPRESSED and known[1])
    ],
)
def test_what_loaders_give(column, data, value):
    assert dumper_of(column)(value).hex() == data


def decimal(precision, scale, **facts):
    return column(T.NEWDECIMAL, precision << 8 | scale, **facts)


def naive(*parts):
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)


EAST = timezone(timedelta(hours=9))
UNIX = datetime(2024, 2, 29, 1, 2, 3, 250000, tzinfo=EAST)
UUID_TEXT = "01234567-89ab-1def-8123-456789abcd00"
OBJECTS = [
    (column(T.TINY), True, "01"),
    (column(T.LONGLONG, unsigned=True), Decimal(2**64 - 1), "ff" * 8),
    (column(T.BIT, 64), Decimal("0E+2"), "00" * 8),
    (column(T.SET, 1, members=AB), Decimal("2.0"), "02"),
    (column(T.FLOAT), Decimal("0.1"), "cdcccc3d"),
    (column(T.FLOAT), 16777217, "0000804b"),
    (column(T.DOUBLE), -0.0, "0000000000000080"),
    (column(T.DATE), date(2024, 1, 1), "21d00f"),
    (column(T.DATE), naive(2024, 1, 1), "21d00f"),
    (column(T.DATETIME2, 0), "2024-02-29T01:02:03", "99b2ba1083"),
    (column(T.DATETIME2, 0), naive(2024, 2, 29, 1, 2, 3), "99b2ba1083"),
    (column(T.DATETIME2, 0), date(2024, 2, 29), "99b2ba0000"),
    (column(T.DATETIME2, 0), "2024-02-29 01:02:03.000", "99b2ba1083"),
    (column(T.DATETIME2, 2), naive(2024, 2, 29, 1, 2, 3, 250000), "99b2ba108319"),
    (column(T.TIMESTAMP2, 2), UNIX, "65df58fb19"),
    (column(T.TIMESTAMP2, 2), UNIX.astimezone(UTC).replace(tzinfo=None), "65df58fb19"),
    (column(T.TIMESTAMP2, 2), "2024-02-28 16:02:03.25", "65df58fb19"),
    (column(T.TIMESTAMP), UNIX.replace(microsecond=0), "fb58df65"),
    (column(T.TIMESTAMP2, 6), "1970-01-01 00:00:00.000001", "00000000000001"),
    (column(T.TIME2, 1), timedelta(milliseconds=-500), "7fffffce"),
    (column(T.TIME2, 0), time(12, 34, 56), "80c8b8"),
    (column(T.TIME2, 0), "-838:59:59", "4b9105"),
    (column(T.TIME), timedelta(hours=-12, minutes=-34, seconds=-56), "c01dfe"),
    (column(T.ENUM, 1, members=AB), 2, "02"),
    (column(T.ENUM, 1, members=("", "b")), "", "01"),
    (column(T.SET, 1, members=AB), {"b", "a"}, "03"),
    (column(T.SET, 1, members=AB), ["b"], "02"),
    (column(T.SET, 1, members=AB), 3, "03"),
    (column(T.SET, 1, members=AB), "", "00"),
    (text(T.STRING, 40), "a  ", "61"),
    (text(T.VARCHAR, 40), "a  ", "612020"),
    (text(T.VARCHAR, 20, 13), "\\", "815f"),
    (text(T.VARCHAR, 20, 95), "\u2170", "fa40"),
    (column(T.STRING, 4, logical=BINARY), bytearray(b"a\0\0"), "61"),
    (column(T.VARCHAR, 4, logical=BINARY), memoryview(b"a\0"), "6100"),
    (column(T.STRING, 16, logical=Logical.UUID), UUID(UUID_TEXT), "0123456789ab1def8123456789abcd"),
    (column(T.STRING, 16, logical=Logical.UUID), UUID_TEXT.replace("-", ""), None),
    (column(T.STRING, 4, logical=Logical.INET4), IPv4Address("10.0.0.0"), "0a"),
    (column(T.STRING, 16, logical=Logical.INET6), IPv6Address("::"), ""),
    (column(T.VECTOR, 4, logical=Logical.VECTOR), [1, -2.0], "0000803f000000c0"),
    (column(T.VECTOR, 4, logical=Logical.VECTOR), bytes(4), "00000000"),
    (column(T.VARCHAR, 8, logical=Logical.VECTOR), (1.0, -2.0), "0000803f000000c0"),
    (column(T.BLOB, 4, logical=Logical.JSON), {"é": [1, None]}, b'{"\xc3\xa9": [1, null]}'.hex()),
    (text(T.BLOB_COMPRESSED, 2), "", ""),
    (text(T.VARCHAR_COMPRESSED, 41), "abc", "00616263"),
    (text(T.BLOB_COMPRESSED, 1), "x" * 255, None),
]


@each_case(("column", "value", "data"), OBJECTS)
def test_python_objects(column, value, data):
    dumped = dumper_of(column)(value)
    if data is not None:
        assert dumped.hex() == data
    assert dumper_of(column)(loader_of(column)(dumped)) == dumped


@each_case(
    ("precision", "scale", "value", "shown"),
    [
        (5, 2, "-1.5", "-1.50"),
        (5, 2, 999, "999.00"),
        (5, 2, 0.1, "0.10"),
        (5, 2, Decimal("-0.00"), "0.00"),
        (5, 2, "1.5000", "1.50"),
        (5, 2, "+.5e1", "5.00"),
        (5, 0, Decimal("1E+4"), "10000"),
        (1, 1, "0.9", "0.9"),
        (65, 30, "-" + "9" * 35 + "." + "9" * 30, "-" + "9" * 35 + "." + "9" * 30),
        (5, 2, Decimal("0E-999999"), "0.00"),
    ],
)
def test_decimals(precision, scale, value, shown):
    kind = decimal(precision, scale)
    with localcontext() as context:
        context.prec = 3  # the user's context has no say
        assert str(loader_of(kind)(dumper_of(kind)(value))) == shown


@given(st.decimals(allow_nan=False, allow_infinity=False), st.integers(1, 65), st.data())
def test_a_decimal_is_kept_or_refused(value, precision, data):
    scale = data.draw(st.integers(0, min(precision, 30)))
    kind = decimal(precision, scale)
    try:
        dumped = dumper_of(kind)(value)
    except ValueRejected:
        _, digits, exponent = value.as_tuple()
        fits = int(exponent) >= -scale and len(digits) + int(exponent) <= precision - scale
        assert value
        assert not fits
    else:
        assert loader_of(kind)(dumped) == value


REFUSED = [
    (column(T.TINY), 128, "128 is not between -128 and 127"),
    (column(T.TINY, unsigned=True), -1, "-1 is not between 0 and 255"),
    (column(T.LONGLONG), 10**5000, "a int is not between"),
    (column(T.LONG), 1.0, "1.0 is not a whole number"),
    (column(T.LONG), Decimal("1.5"), "not a whole number"),
    (column(T.LONG), Decimal("1E+999999"), "not a whole number of 64 bits"),
    (column(T.LONG), Decimal("sNaN"), "not a whole number"),
    (column(T.LONG), "1", "'1' is not a whole number"),
    (column(T.YEAR), 1900, "1900 is no YEAR"),
    (column(T.BIT, 3), 8, "8 is not between 0 and 7"),
    (decimal(5, 2), "1000", "more digits than DECIMAL"),
    (decimal(5, 2), "1.005", "after the point than DECIMAL.*round it first"),
    (decimal(5, 2), 0.1 + 0.2, "after the point"),
    (decimal(5, 2), Decimal("1E+999999"), "more digits"),
    (decimal(5, 2), Decimal("1E-999999"), "after the point"),
    (decimal(5, 2), Decimal("sNaN"), "no number that a DECIMAL holds"),
    (decimal(5, 2), float("inf"), "is no number"),
    (decimal(5, 2), "1_0", "'1_0' is not a number"),
    (decimal(5, 2), "1e99999999999999999999", "is no.* number"),
    (decimal(5, 2, unsigned=True), -1, "below zero"),
    (column(T.FLOAT), 3.5e38, "more than a FLOAT holds"),
    (column(T.FLOAT), float("nan"), "neither infinities nor NaN"),
    (column(T.DOUBLE), float("-inf"), "neither infinities nor NaN"),
    (column(T.DOUBLE), 10**400, "no number that a DOUBLE holds"),
    (column(T.DOUBLE), "1.5", "not a number"),
    (column(T.DOUBLE, unsigned=True), -0.5, "below zero"),
    (column(T.DATE), "2024-13-01", "no such date"),
    (column(T.DATE), "2024-1-1", "no date"),
    (column(T.DATE), "٢٠٢٤-01-01", "no date"),
    (column(T.DATE), naive(2024, 1, 1, 12), "more than a date"),
    (column(T.DATE), 20240101, "no date"),
    (
        column(T.DATETIME2, 3),
        "2024-01-01 00:00:00.0001",
        "more fraction digits than the column's 3",
    ),
    (column(T.DATETIME2, 0), naive(2024, 1, 1, 0, 0, 0, 1), "more fraction digits"),
    (column(T.DATETIME2, 0), "2024-01-01 24:00:00", "no such time of day"),
    (column(T.DATETIME2, 0), UNIX, "time zone"),
    (column(T.DATETIME2, 0), "2024-01-01", "no date and time"),
    (column(T.TIMESTAMP2, 0), "1970-01-01 00:00:00", "no TIMESTAMP"),
    (column(T.TIMESTAMP2, 0), "2106-02-07 06:28:16", "no TIMESTAMP"),
    (column(T.TIMESTAMP2, 0), "2024-02-31 00:00:00", "no such day"),
    (
        column(T.TIMESTAMP2, 0),
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=9))),
        "TIMESTA",
    ),
    (column(T.TIME2, 0), "839:00:00", "no such time"),
    (column(T.TIME2, 6), timedelta(hours=839), "longer than 838:59:59"),
    (column(T.TIME2, 0), timedelta(microseconds=-1), "more fraction digits"),
    (column(T.TIME2, 0), time(1, tzinfo=UTC), "without a zone"),
    (column(T.ENUM, 1, members=AB), "c", "'c' is none of the column's names"),
    (column(T.ENUM, 1, members=AB), 3, "3 is not between 0 and 2"),
    (column(T.ENUM, 1), "a", "names of this ENUM or SET are unknown"),
    (column(T.SET, 1, members=AB), "a,c", "'c' is none"),
    (column(T.SET, 1, members=AB), [1], "1 is none"),
    (column(T.SET, 1, members=AB), 4, "4 is not between 0 and 3"),
    (text(T.VARCHAR, 40), "é" * 11, "11 characters, the column 10"),
    (text(T.VARCHAR, 40), b"a", "is not text"),
    (text(T.VARCHAR, 40, 54), "\ud800", "not in the character set utf16"),
    (text(T.VARCHAR, 40, 8), "日", r"'\\u65e5' at 0 .* latin1"),
    (text(T.VARCHAR, 40, 33), "a😀", "at 1 .* utf8mb3"),
    (text(T.VARCHAR, 40, 28), "x\x80", "at 1 .* gbk"),
    (text(T.BLOB, 1), "x" * 256, "256 bytes, the column holds 255"),
    (text(T.VARCHAR_COMPRESSED, 41), "x" * 41, "41 characters, the column 10"),
    (text(T.BLOB_COMPRESSED, 1), "x" * 256, "256 bytes, the column holds 255"),
    (
        column(T.BLOB_COMPRESSED, 1, logical=BINARY),
        bytes(range(255)),
        "incompressible bytes, the column holds 254",
    ),
    (column(T.VARCHAR_COMPRESSED, 9, logical=BINARY), b"x" * 9, "9 bytes, the column holds 8"),
    (column(T.STRING, 4, logical=BINARY), b"\0" * 5, "5 bytes, the column holds 4"),
    (column(T.VARCHAR, 4, logical=BINARY), b"12345", "5 bytes, the column holds 4"),
    (column(T.BLOB, 4, logical=BINARY), "x", "is not bytes"),
    (column(T.STRING, 16, logical=Logical.UUID), "0", "no UUID"),
    (column(T.STRING, 4, logical=Logical.INET4), "1.2.3", "no IPv4 address"),
    (column(T.STRING, 16, logical=Logical.INET6), IPv6Address("fe80::1%eth0"), "scope"),
    (column(T.VECTOR, 4, logical=Logical.VECTOR), [float("nan")], "NaN"),
    (column(T.VECTOR, 4, logical=Logical.VECTOR), [1e39], "more than a FLOAT"),
    (column(T.VECTOR, 4, logical=Logical.VECTOR), bytes(3), "no 32-bit floats"),
    (column(T.VARCHAR, 8, logical=Logical.VECTOR), [1.0], "1 numbers, the VECTOR has 2"),
    (column(T.GEOMETRY, 4, logical=Logical.GEOMETRY), b"POINT(1 2)", "no geometry"),
    (column(T.BLOB, 4, logical=Logical.JSON), [float("nan")], "cannot be written as JSON"),
    (column(T.NULL), 0, "NULL only"),
]


@each_case(("column", "value", "message"), REFUSED, ids=range(len(REFUSED)))
def test_refused(column, value, message):
    with pytest.raises(ValueRejected, match=message) as caught:
        dumper_of(column)(value)
    assert isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert len(str(caught.value)) < 300


@each_case("kind", [T.DECIMAL, T.TYPED_ARRAY, T.INVALID, T.BOOL])
def test_types_that_no_row_has(kind):
    with pytest.raises(UnsupportedType, match=kind.name):
        dumper_of(column(kind))


def test_pandas_and_numpy_objects():
    pandas, numpy = pytest.importorskip("pandas"), pytest.importorskip("numpy")
    moment, span = column(T.DATETIME2, 6), column(T.TIME2, 6)
    stamp = pandas.Timestamp("2024-02-29 01:02:03.000004")
    assert loader_of(moment)(dumper_of(moment)(stamp)) == "2024-02-29 01:02:03.000004"
    assert loader_of(span)(dumper_of(span)(pandas.Timedelta(-1, "us"))) == "-00:00:00.000001"
    assert dumper_of(column(T.LONG))(numpy.int64(-1)) == b"\xff" * 4
    assert dumper_of(column(T.FLOAT))(numpy.float32(0.1)).hex() == "cdcccc3d"
    assert dumper_of(decimal(5, 2))(numpy.float64(0.1)).hex() == "80000a"
    for each, value in (
        (moment, pandas.NaT),
        (moment, stamp + pandas.Timedelta(1, "ns")),
        (span, pandas.NaT),
        (span, pandas.Timedelta(1, "ns")),
        (column(T.LONG), pandas.NA),
        (column(T.DOUBLE), pandas.NA),
        (column(T.DOUBLE), numpy.nan),
        (text(T.VARCHAR, 40), pandas.NA),
        (decimal(5, 2), pandas.NA),
    ):
        with pytest.raises(ValueRejected):
            dumper_of(each)(value)


class Unprintable:
    def __repr__(self):
        raise RuntimeError


LOOP = []
LOOP.append(LOOP)
ODD = [
    *(float("nan"), float("inf"), 1e308, -(10**30), 10**5000, 0, -1, 0.5, True),
    *(Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"), Decimal("1E+999999")),
    *(Decimal("1E-999999"), "", " ", "\ud800", "x" * 70_000, "😀" * 300, "[" * 5000, "1e400"),
    *("0000-00-00", "9999-99-99", "-838:59:59.9999999", "9" * 5000, "{}", "\x00", "٣"),
    *(b"", b"\xff" * 300, bytearray(5), memoryview(b"abc"), object(), Unprintable(), LOOP, [], {}),
    *({1: 2}, {"a": b""}, {"\ud800": 1}, [None], (1, 2), {3}, UserDict(a=1), 1j, iter(())),
    *(
        date.max,
        datetime.max.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=EAST),
        time.max,
        timedelta.max,
    ),
    *(timedelta.min, UUID(int=0), IPv4Address(0), IPv6Address(0), range(3), type, ...),
]
MORE = [
    *(column(kind, unsigned=True) for kind in (T.FLOAT, T.DOUBLE)),
    *(column(T.LONGLONG), decimal(65, 30, unsigned=True), column(T.ENUM, 2), column(T.SET, 8)),
    *(text(T.STRING, 40), text(T.BLOB, 1), text(T.BLOB_COMPRESSED, 1), text(T.VARCHAR, 80, 63)),
    *(column(kind, 40, logical=BINARY) for kind in (T.STRING, T.VARCHAR)),
    column(T.VARCHAR, 8, logical=Logical.VECTOR),
]


@each_case("column", [*EVERY, *MORE], ids=lambda each: f"{each.type.name}-{each.logical}")
def test_odd_values_are_dumped_or_refused(column):
    dump, load = dumper_of(column), loader_of(column)
    for value in ODD:
        with contextlib.suppress(ValueRejected):
            dumped = dump(value)
            assert isinstance(dumped, bytes)
            again = dump(load(dumped))
            assert again == dumped or column.type is T.JSON  # SQL's values in it become text
