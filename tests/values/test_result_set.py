"""Result sets of other drivers: SQLite's, which describes no types, and what PEP 249 allows."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from decimal import Decimal

import pytest

from tailrace.constants import ColumnType as T
from tailrace.errors import UnsupportedType, UsageError, ValueRejected
from tailrace.schema.table import Table
from tailrace.values.result_set import ResultSet
from tailrace.values.value import Value
from tests.cases import each_case

TABLE = Table.parse(
    "CREATE TABLE d.t (id BIGINT UNSIGNED PRIMARY KEY, name VARCHAR(20), price DECIMAL(9,2),"
    " raw BLOB, s SET('a','b'), bits BIT(9))"
)


@dataclass
class Cursor:
    """A DB-API cursor over what is given, whatever its driver's ways."""

    description: list[tuple] | None
    rows: list = field(default_factory=list)
    fetched: list = field(default_factory=list)

    def fetchmany(self, size=1):
        self.fetched.append(size)
        head, self.rows = self.rows[:size], self.rows[size:]
        return head


def described(name, code, size=None, precision=None, scale=None):
    return (name, code, None, size, precision, scale, None)


@pytest.fixture
def sqlite():
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (price, name, id, raw)")
        connection.execute(
            "INSERT INTO t VALUES ('1.50', 'é', 18446744073709551615.0, x'00ff'), (2, NULL, 7, NULL)"
        )
        connection.execute("UPDATE t SET id = 5 WHERE price = '1.50'")
        yield connection
    connection.close()


def test_a_driver_without_types(sqlite):
    one, two = ResultSet(sqlite.execute("SELECT price, name, ID, raw FROM t"), TABLE)
    assert one.keys() == ["price", "name", "id", "raw"]
    assert one["price"] == Value(T.NEWDECIMAL, 9 << 8 | 2, b"\x80\0\0\x01\x32")
    assert one["name"].as_c_str() == "é".encode()
    assert (one["id"].type, one["id"].as_uint64()) == (T.LONGLONG, 5)
    assert one["raw"].as_blob() == b"\0\xff"
    assert two["name"].is_null
    assert two.values == (Decimal("2.00"), None, 7, None)


def test_the_table_is_needed_where_nothing_tells_the_type(sqlite):
    with pytest.raises(UnsupportedType, match=r"column 'name' \(type code None\).*give its table"):
        ResultSet(sqlite.execute("SELECT name FROM t"))


def test_the_key_is_the_tables_where_all_of_it_is_there(sqlite):
    assert ResultSet(sqlite.execute("SELECT raw, id FROM t"), TABLE).schema.primary_key == (1,)
    assert ResultSet(sqlite.execute("SELECT raw FROM t"), TABLE).schema.primary_key == ()


def test_no_result():
    with pytest.raises(UsageError, match="execute a query first"):
        ResultSet(Cursor(None))
    assert list(ResultSet(Cursor([described("id", 8)]))) == []


def test_rows_come_in_batches_and_once():
    cursor = Cursor([described("n", 3)], [(number,) for number in range(2500)])
    result = ResultSet(cursor)
    assert len(cursor.fetched) == 1
    assert [row.values[0] for row in result] == list(range(2500))
    assert list(result) == []
    assert [row.number for row in ResultSet(Cursor([described("n", 3)], [(1,), (2,)]))] == [0, 1]


def test_ways_of_drivers():
    description = [described("s", 254), described("bits", 16)]
    (row,) = ResultSet(Cursor(description, [({"b", "a"}, b"\1\1")]), TABLE)
    assert row.values == ("a,b", 257)
    (row,) = ResultSet(Cursor(description, [{"bits": 257, "s": "a,b"}]), TABLE)
    assert row.values == ("a,b", 257)


@each_case(
    ("entry", "given", "expected"),
    [
        (described("x", 246, 6, 6, 2), Decimal("-1.25"), (T.NEWDECIMAL, 4 << 8 | 2)),
        (described("x", 246, 11, 11, 0), Decimal(7), (T.NEWDECIMAL, 10 << 8)),
        (described("x", 12, 26, 26, 6), "2024-01-31 00:00:00.000001", (T.DATETIME2, 6)),
        (described("x", 11, 10, 10, 31), "00:00:00", (T.TIME2, 6)),
        (described("x", 7, 19, 19, 0), "2024-01-31 00:00:00", (T.TIMESTAMP2, 0)),
        (described("x", 253, 20), "abc", (T.VARCHAR, 80)),
        (described("x", 254, 80), b"abc", (T.STRING, 80)),
        (described("x", 252, 255), b"abc", (T.BLOB, 1)),
        (described("x", 252, 65535), "abc", (T.BLOB, 2)),
        (described("x", 252, 1 << 32), None, (T.BLOB, 4)),
        (described("x", 16, 9), 300, (T.BIT, 9)),
        (described("x", 245), "{}", (T.JSON, 4)),
        (described("x", 4), 1.5, (T.FLOAT, 4)),
        (described("x", 13), 2024, (T.YEAR, 0)),
    ],
)
def test_what_a_description_tells(entry, given, expected):
    (row,) = ResultSet(Cursor([entry], [(given,)]))
    assert (row[0].type, row[0].metadata) == expected
    assert row[0].is_null == (given is None)


@each_case("entry", [described("x", 247), described("x", "INT"), described("x", 300)])
def test_what_a_description_does_not_tell(entry):
    with pytest.raises(UnsupportedType, match="give its table"):
        ResultSet(Cursor([entry], [(1,)]))


def test_a_value_that_does_not_fit_says_where():
    cursor = Cursor([described("id", 8)], [(1,), (-1,)])
    with pytest.raises(ValueRejected, match=r"^row 2 of the result, id: (?!.*give the table)"):
        list(ResultSet(cursor, TABLE))
