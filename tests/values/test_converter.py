"""Conversions: what a value is as a Python type, and what is refused. Servers: test_result_set_server."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tailrace
from tailrace.constants import ColumnType as T
from tailrace.constants import Flavour
from tailrace.errors import ConversionError, ConversionLoss, UnknownColumn, UsageError
from tailrace.events import WriteRowsEvent
from tailrace.events.description import STANDARD_VERSIONS
from tailrace.schema.table import Table
from tailrace.values.converter import Converter
from tailrace.values.image import ABSENT, Image, decoder_of
from tailrace.values.row import Row, RowSet
from tailrace.values.value import Value, made
from tests.cases import each_case
from tests.recorded import CORPUS

KINDS = (object, str, int, float, Decimal, bool, bytes, date, datetime, timedelta, list, dict)


def value(declared, python, flavour="mysql"):
    table = Table.parse(
        f"CREATE TABLE d.t (c {declared})",
        flavour=flavour,
        server_version=STANDARD_VERSIONS[Flavour(flavour)],
    )
    return made(table.schema.columns[0], python)


@each_case(
    ("declared", "given", "kind", "expected"),
    [
        ("INT", -5, int, -5),
        ("INT", -5, str, "-5"),
        ("INT", -5, float, -5.0),
        ("INT", -5, Decimal, Decimal(-5)),
        ("INT", 1, bool, True),
        ("TINYINT UNSIGNED", 255, int, 255),
        ("YEAR", 0, str, "0000"),
        ("YEAR", 1999, int, 1999),
        ("BIT(9)", 257, int, 257),
        ("BIT(9)", 257, bytes, b"\1\1"),
        ("DECIMAL(9,2)", "7.00", int, 7),
        ("DECIMAL(9,2)", "7.10", float, 7.1),
        ("DECIMAL(9,2)", "7.10", str, "7.10"),
        ("DECIMAL(30,9)", "0.000000001", str, "0.000000001"),
        ("DECIMAL(9,2)", "7.10", Decimal, Decimal("7.10")),
        ("FLOAT", 0.1, str, "0.1"),
        ("FLOAT", 0.1, Decimal, Decimal("0.1")),
        ("FLOAT", 0.1, float, 0.10000000149011612),
        ("DOUBLE", 0.1, Decimal, Decimal("0.1")),
        ("DOUBLE", 1e300, int, int(Decimal("1e300"))),
        ("VARCHAR(9)", " 12 ", int, 12),
        ("VARCHAR(9)", "1.5", Decimal, Decimal("1.5")),
        ("VARCHAR(9)", "0.1", float, 0.1),
        (
            "VARCHAR(30)",
            "2024-01-31 10:00:00",
            datetime,
            datetime.fromisoformat("2024-01-31T10:00"),
        ),
        ("VARCHAR(9) CHARACTER SET latin1", "é", bytes, b"\xe9"),
        ("VARCHAR(9) CHARACTER SET latin1", "é", str, "é"),
        ("BINARY(4)", b"ab", bytes, b"ab\0\0"),
        ("ENUM('x','é') CHARACTER SET latin1", "é", str, "é"),
        ("ENUM('x','é') CHARACTER SET latin1", "é", int, 2),
        ("ENUM('x','é') CHARACTER SET latin1", "é", bytes, b"\xe9"),
        ("SET('a','b','c')", "a,c", int, 5),
        ("SET('a','b','c')", "a,c", list, ["a", "c"]),
        ("SET('a','b','c')", "a,c", str, "a,c"),
        ("DATE", "2024-02-29", date, date(2024, 2, 29)),
        ("DATE", "2024-02-29", datetime, datetime.fromisoformat("2024-02-29")),
        ("DATE", "0000-00-00", str, "0000-00-00"),
        (
            "DATETIME(6)",
            "2024-01-31 10:00:00.000001",
            datetime,
            datetime.fromisoformat("2024-01-31T10:00:00.000001"),
        ),
        ("DATETIME", "2024-01-31 00:00:00", date, date(2024, 1, 31)),
        ("TIMESTAMP", "2024-01-31 10:00:00", datetime, datetime(2024, 1, 31, 10, tzinfo=UTC)),
        ("TIME(2)", "-838:59:58.25", timedelta, -timedelta(hours=838, minutes=59, seconds=58.25)),
        ("TIME", "00:00:00", timedelta, timedelta()),
        ("JSON", '{"a": [1, 2.5]}', dict, {"a": [1, 2.5]}),
        ("JSON", "[1, null]", list, [1, None]),
        ("JSON", "18446744073709551615", int, 18446744073709551615),
        ("JSON", "[]", bytes, b"[]"),
        ("VECTOR(2)", [1.5, 0.1], str, "[1.5,0.1]"),
        ("VECTOR(2)", [1.5, 2], list, [1.5, 2.0]),
        ("VECTOR(2)", [1.5, 2], bytes, b"\0\0\xc0\x3f\0\0\0\x40"),
    ],
)
def test_what_a_value_is(declared, given, kind, expected):
    found = Converter().to(kind, value(declared, given))
    assert found == expected
    assert type(found) is kind


@each_case(
    ("declared", "given", "expected"),
    [
        (
            "UUID",
            "01234567-89ab-1def-8123-456789abcd00",
            b"\x01\x23\x45\x67\x89\xab\x1d\xef\x81\x23\x45\x67\x89\xab\xcd\0",
        ),
        ("INET4", "1.2.3.0", b"\1\2\3\0"),
        ("INET6", "::1", bytes(15) + b"\1"),
        ("INET6", "fe80::", b"\xfe\x80" + bytes(14)),
    ],
)
def test_addresses_are_bytes_and_text(declared, given, expected):
    found = value(declared, given, "mariadb")
    assert Converter().to(bytes, found) == expected
    assert Converter().to(str, found) == given


@each_case(
    ("declared", "given", "kind", "lossy", "said"),
    [
        ("DECIMAL(9,2)", "7.50", int, 7, "its fraction"),
        ("DECIMAL(9,2)", "-7.50", int, -7, "its fraction"),
        ("DOUBLE", 0.5, int, 0, "its fraction"),
        ("VARCHAR(9)", "1.5", int, 1, "its fraction"),
        ("BIGINT", 2**53 + 1, float, 2.0**53, "digits"),
        ("DECIMAL(30,20)", "0.12345678901234567890", float, 0.12345678901234568, "digits"),
        ("INT", 2, bool, True, "which number it is"),
        ("DATETIME", "2024-01-31 10:00:00", date, date(2024, 1, 31), "the time of day"),
        ("BLOB", b"a\xff", str, "a\N{REPLACEMENT CHARACTER}", "bytes that are no text"),
        ("GEOMETRY", b"\0\0\0\0\1\1\0\0\0" + bytes(16), str, None, "bytes that are no text"),
    ],
)
def test_loss_is_refused_unless_told(declared, given, kind, lossy, said):
    found = value(declared, given)
    with pytest.raises(ConversionLoss, match=rf"^c \(.* as {kind.__name__} loses {said}"):
        Converter().to(kind, found)
    if lossy is not None:
        assert Converter(lossy=True).to(kind, found) == lossy


def test_documents_lose_digits_and_names():
    for text, said in (('{"a": 1, "a": 2}', "twice"), ('{"a": 0.12345678901234567891}', "digits")):
        found = value("JSON", text, "mariadb")
        with pytest.raises(ConversionLoss, match=said):
            Converter().to(dict, found)
        assert Converter(lossy=True).to(dict, found) is not None


@each_case(
    ("declared", "given", "kind"),
    [
        ("INT", 5, bytes),
        ("INT", 20240131, date),
        ("INT", 5, list),
        ("VARCHAR(9)", "abc", int),
        ("VARCHAR(9)", "1e999999", int),
        ("VARCHAR(9)", "nan", float),
        ("VARCHAR(9)", "1e350", float),
        ("VARCHAR(9)", "abc", datetime),
        ("BLOB", b"12", int),
        ("DATE", "2024-02-29", int),
        ("DATE", "2024-02-00", date),
        ("DATETIME", "0000-00-00 00:00:00", datetime),
        ("DATETIME", "2024-01-31 10:00:00", timedelta),
        ("TIME", "10:00:00", datetime),
        ("JSON", "[1]", dict),
        ("JSON", "{}", list),
        ("ENUM('1')", "1", float),
        ("SET('1')", "1", Decimal),
        ("VECTOR(1)", [1.0], float),
        ("GEOMETRY", b"\0\0\0\0\1\1\0\0\0" + bytes(16), dict),
    ],
)
def test_what_a_value_is_not(declared, given, kind):
    for converter in (Converter(), Converter(lossy=True)):
        with pytest.raises(ConversionError, match=rf"^c \({'.*'}\) .* is no {kind.__name__}"):
            converter.to(kind, value(declared, given))


def test_text_of_mariadb_that_is_no_json():
    column = Table.parse("CREATE TABLE d.t (c JSON)", flavour="mariadb").schema.columns[0]
    with pytest.raises(ConversionError, match="is no dict"):
        Converter().to(dict, Value(column.type, column.metadata, b'{"a": NaN}', column))
    with pytest.raises(ConversionError, match="is no list"):
        Converter().to(list, Value(column.type, column.metadata, b"[" * 100_000, column))


@each_case("kind", KINDS)
def test_null_is_none(kind):
    assert Converter().to(kind, value("INT", None)) is None


def test_a_type_that_is_not_known():
    with pytest.raises(
        ConversionError, match="no conversion to Fraction, only to object, str, int"
    ):
        Converter().to(Fraction, value("INT", 5))


def test_values_without_a_column_are_converted_by_their_type():
    to = Converter().to
    assert to(int, Value(T.SHORT, 0, b"\xff\xff")) == -1
    assert to(str, Value(T.VARCHAR, 20, b"abc")) == "abc"
    assert to(bytes, Value(T.BLOB, 2, b"abc")) == b"abc"
    assert to(Decimal, Value(T.NEWDECIMAL, 3 << 8 | 1, b"\x8c\x05")) == Decimal("12.5")
    assert to(int, Value(T.ENUM, 1, b"\2")) == 2


def test_whole_rows():
    table = Table.parse("CREATE TABLE d.t (a INT, d DECIMAL(4,1), v VARCHAR(9))")
    row = Row("insert", None, Image(decoder_of(table.schema), [5, Decimal("1.0"), None]))
    assert Converter().row(row) == {"a": 5, "d": Decimal("1.0"), "v": None}
    assert Converter().row(row, {"A": str, "d": int}) == {"a": "5", "d": 1, "v": None}
    with pytest.raises(UnknownColumn):
        Converter().row(row, {"w": str})


@given(st.decimals(-(10**20), 10**20, places=10), st.booleans())
def test_a_float_without_loss_is_the_same_number(number, lossy):
    found = value("DECIMAL(40,10)", number)
    try:
        result = Converter(lossy=lossy).to(float, found)
    except ConversionLoss:
        assert not lossy
        assert Decimal(repr(float(number))) != number != Decimal(float(number))
    else:
        assert result == float(number)


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_are_themselves_in_every_type(number):
    found = value("BIGINT", number)
    assert Converter().to(int, found) == number
    assert int(Converter().to(str, found)) == number
    assert Converter().to(Decimal, found) == number


@each_case("case", ["json-text-min", "json-text-full"])
def test_json_of_mariadb_is_a_dict_by_option(case):
    """WL#3283, Converter: with the log's table map alone, MariaDB's JSON is text or bytes."""
    event = next(
        event
        for event in tailrace.open(CORPUS / f"mariadb-11.8.{case}")
        if isinstance(event, WriteRowsEvent)
    )
    row = next(iter(RowSet(event, event.table_map)))
    assert row[1].storage == b'{"a" : [1,2 , 3]}'
    assert Converter(json_text=True).row(row, {row.keys()[1]: dict})[row.keys()[1]] == {
        "a": [1, 2, 3]
    }
    with pytest.raises(ConversionError, match="is no dict"):
        Converter().to(dict, row[1])
    with pytest.raises(ConversionError, match="is no list: its document is no array"):
        Converter(json_text=True).to(list, row[1])
    with pytest.raises(ConversionError, match="is no dict"):
        Converter(json_text=True).to(dict, row[0])
    with pytest.raises(ConversionError, match=r"is no dict: .*utf-8"):
        Converter(json_text=True).to(dict, Value(T.BLOB, 2, b"{\xff}"))


def test_a_wrong_call_says_so():
    """WL#3283, Motivation: it should be difficult to use the interface in the wrong way."""
    five = value("INT", 5)
    for kind, wrong in ((five, int), (int, 5), ("int", five), ([], five), (int, ABSENT)):
        with pytest.raises(UsageError, match=r"Converter\.to takes a type and a Value, not "):
            Converter().to(kind, wrong)
    with pytest.raises(UsageError, match=r"Converter\.row takes a row or an image, not \{\}"):
        Converter().row({})
