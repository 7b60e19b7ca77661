"""A row read out of the log and the same row read by SELECT are equal, value by value."""

from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from pymysql.cursors import DictCursor

from tailrace.constants import ColumnType
from tailrace.errors import ValueRejected
from tailrace.schema.table import Table
from tailrace.values.converter import Converter
from tailrace.values.result_set import ResultSet
from tailrace.values.schema import Logical
from tailrace.values.value import Value
from tests.values.replay import changes
from tools.corpus import CASES, Recorder
from tools.corpus.case import DATABASE

UNTOLD = {("opaque", "j"), ("enums_and_sets", "e")}
"""Columns whose text does not tell all: a DATE in a document; no member, or the member of no name."""


def selected(column, mysql):
    """A column in the SELECT: of a FLOAT all digits, of a VECTOR what the driver can read."""
    if column.type is ColumnType.FLOAT:
        return f"`{column.name}` + 0e0 AS `{column.name}`"
    if column.logical is Logical.VECTOR and mysql:
        return f"CAST(`{column.name}` AS BINARY) AS `{column.name}`"
    return f"`{column.name}`"


def recorded(server):
    """The log of the corpus' tables of values, and a list of the rows of each table."""
    server.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
    server.rotate()
    server.execute("SET GLOBAL binlog_row_metadata = FULL")
    recorder = Recorder(server)
    for case in CASES:
        full = case.settings == {"binlog_row_metadata": "FULL"} and case.insert_only
        if full and case.script and server.name in case.servers:
            case.script(recorder)
    recorder.connection.close()
    tables = {}
    for schema, row in changes(server.rotate()):
        if schema.database == DATABASE:
            tables.setdefault(schema, []).append(row)
    return tables


def test_rows_of_the_log_are_rows_of_the_result(flavour_server):
    kinds = set()
    for schema, logged in recorded(flavour_server).items():
        listed = ", ".join(
            selected(column, flavour_server.flavour == "mysql") for column in schema.columns
        )
        query = f"SELECT {listed} FROM {DATABASE}.`{schema.table}` ORDER BY id"
        with flavour_server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute(query)
            given = cursor.fetchall()
            cursor.execute(query)
            result = list(ResultSet(cursor, schema))
        logged.sort(key=lambda row: row.values[0])
        for row, other, record in zip(logged, result, given, strict=True):
            assert row.keys() == other.keys()
            for (name, value), expected in zip(row.items(), record, strict=True):
                what = (schema.table, name)
                assert isinstance(value, Value)
                assert value == other[name] or what in UNTOLD, what
                assert hash(value) == hash(other[name]) or what in UNTOLD
                converted = Converter().to(type(expected), value)
                if isinstance(converted, datetime):
                    converted = converted.replace(tzinfo=None)
                assert converted == expected, what
                kinds.add(type(expected))
            assert row.values == other.values or schema.table == "opaque"
    assert len(kinds) > 8, kinds


def test_a_result_without_a_table(flavour_server):
    with flavour_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT 7 AS i, -1.50 AS d, 'é' AS t, x'00ff' AS b, NULL AS n, 1e0/3 AS f, b'101' AS bits,"
            " CAST('2024-01-31 01:02:03.5' AS DATETIME(3)) AS m, CAST('-01:02:03' AS TIME) AS c"
        )
        (row,) = ResultSet(cursor)
    to = Converter().to
    assert row.kind == "select"
    assert row.keys() == ["i", "d", "t", "b", "n", "f", "bits", "m", "c"]
    assert to(int, row["i"]) == 7
    assert to(Decimal, row["d"]) == Decimal("-1.50")
    assert to(str, row["t"]) == "é"
    assert to(bytes, row["b"]) == b"\0\xff"
    assert row["n"].is_null
    assert to(float, row["f"]) == 1 / 3
    assert to(datetime, row["m"]) == datetime.fromisoformat("2024-01-31T01:02:03.500")
    assert to(timedelta, row["c"]) == -timedelta(hours=1, minutes=2, seconds=3)
    assert row["m"].type is ColumnType.DATETIME2
    assert row["m"].metadata == 3


def test_dictionaries_are_rows_too(flavour_server):
    with flavour_server.connect() as connection, connection.cursor(DictCursor) as cursor:
        cursor.execute("SELECT 2 AS b, 1 AS a UNION SELECT 3, 4")
        assert [row.values for row in ResultSet(cursor)] == [(2, 1), (3, 4)]


def test_a_value_that_the_description_misjudges_is_told(flavour_server):
    with flavour_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 18446744073709551615 AS big")
        with pytest.raises(ValueRejected, match=r"row 1 of the result, big: .*give the table"):
            list(ResultSet(cursor))
        big = "CREATE TABLE x.t (Big BIGINT UNSIGNED)"
        cursor.execute("SELECT 18446744073709551615 AS big")
        (row,) = ResultSet(cursor, Table.parse(big, flavour=flavour_server.flavour))
        assert row["big"].as_uint64() == 18446744073709551615
        assert row["big"].as_int64() == -1


def test_members_of_the_character_set_binary_are_those_of_the_log(flavour_server):
    server = flavour_server
    server.execute("DROP DATABASE IF EXISTS result_bytes")
    server.execute("CREATE DATABASE result_bytes")
    server.rotate()
    server.execute(
        "CREATE TABLE result_bytes.t"
        " (e ENUM('a','é') CHARACTER SET binary, s SET('a','b') CHARACTER SET binary)"
    )
    server.execute("INSERT INTO result_bytes.t VALUES ('a', 'a,b'), (2, ''), (NULL, NULL)")
    server.connection.commit()
    logged = [each for each in changes(server.rotate()) if each[0].database == "result_bytes"]
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT e, s FROM result_bytes.t")
        assert [row.values for row in ResultSet(cursor, logged[0][0])] == [
            row.values for _, row in logged
        ]
