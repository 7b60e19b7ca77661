"""A row read out of the log and the same row read by SELECT are equal, value by value."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from pymysql.cursors import DictCursor
from pymysql.err import OperationalError

from tailrace.constants import ColumnType, Flavour
from tailrace.errors import ValueRejected
from tailrace.schema.table import Table
from tailrace.values.converter import Converter
from tailrace.values.result_set import ResultSet
from tailrace.values.value import Value
from tests.cases import each_case
from tests.values.replay import Case, changes
from tests.values.test_server_values import FAMILIES, recorded
from tools.campaign.columns import Types
from tools.campaign.tables import RandomTable
from tools.dumps import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.campaign.tables import RandomColumn
    from tools.servers import Server


def documents(flavour: Flavour) -> Iterator[tuple[str, list[str]]]:
    """What the families there leave out."""
    yield (
        "json",
        [
            '\'{"b": [1, -1.5, 1e100, null, true], "a": "é日"}\'',
            "'18446744073709551615'",
            "json_array(repeat('x', 70000), 65536, -32769)",
            "'{}'",
            "null",
        ],
    )
    if flavour is Flavour.MYSQL:
        yield "multipoint", ["st_geomfromtext('MULTIPOINT(1 2,3 4)', 4326)"]
        yield "tinyint(1)", ["true", "false"]


def selected(declared: str, name: str, mysql: bool) -> str:
    """A column in the SELECT: of a FLOAT all digits, of a VECTOR what the driver can read."""
    if declared.startswith("float"):
        return f"{name} + 0e0 AS {name}"
    if declared.startswith("vector") and mysql:
        return f"CAST({name} AS BINARY) AS {name}"
    return name


@each_case("family", [*FAMILIES, documents], ids=lambda family: family.__name__)
def test_rows_of_the_log_are_rows_of_the_result(flavour_server: Server, family) -> None:
    server, flavour = flavour_server, Flavour(flavour_server.flavour)
    declared = [("vector(3)", ["vec_fromtext('[1,2.5,-3e10]')"])]
    declared = declared if flavour is Flavour.MARIADB and family is documents else []
    declared += family(flavour)
    names = [f"c{number}" for number in range(len(declared))]
    server.rotate()
    server.execute("SET GLOBAL binlog_row_metadata = FULL")
    database = recorded(server, f"result_{family.__name__}", declared)
    log = server.rotate()
    found = changes(Case(log, {"server": server.version}))
    logged = [(schema, row) for schema, row in found if schema.database == database]
    listed = [
        selected(declaration, name, flavour is Flavour.MYSQL)
        for name, (declaration, _) in zip(names, declared, strict=True)
    ]
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        query = f"SELECT id, {', '.join(listed)} FROM {database}.t ORDER BY id"
        cursor.execute(query)
        given = cursor.fetchall()
        cursor.execute(query)
        result = list(ResultSet(cursor, logged[0][0]))
    assert len(result) == len(logged) == len(given)
    kinds = set()
    for (_, row), other, record in zip(logged, result, given, strict=True):
        assert len(row) == len(other) == len(declared) + 1
        assert row.keys() == other.keys()
        for (name, value), expected in zip(row.items(), record, strict=True):
            what = (name, name != "id" and declared[int(name[1:])][0])
            assert isinstance(value, Value)
            assert value == other[name], what
            assert hash(value) == hash(other[name])
            converted = Converter().to(type(expected), value)
            if isinstance(converted, datetime):
                converted = converted.replace(tzinfo=None)
            assert converted == expected, what
            kinds.add(type(expected))
        assert row.values == other.values
    assert len(kinds) > 1


def listed(column: RandomColumn, mysql: bool) -> str:
    """As `selected`; of ENUM and SET the numbers, as two may have one text."""
    declared, name = column.kind.declared.lower(), quoted(column.name)
    if declared.startswith(("enum", "set")):
        return f"CAST({name} AS UNSIGNED) AS {name}"
    return selected(declared, name, mysql)


def test_random_rows_of_the_log_are_rows_of_the_result(flavour_server: Server) -> None:
    """Of all character sets; MySQL's JSON by its content: text does not tell all of the storage."""
    server = flavour_server
    mysql = server.flavour == "mysql"
    rng, types = random.Random(f"rows of {server.name}"), Types(server)
    tables = {}
    server.rotate()
    server.execute("SET GLOBAL binlog_row_metadata = FULL")
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'")
        cursor.execute("DROP DATABASE IF EXISTS result_random")
        cursor.execute("CREATE DATABASE result_random")
        cursor.execute("USE result_random")
        for number in range(30):
            table = RandomTable(rng, types, f"t{number}", plain=False)
            table.counted = True
            for column in table.columns:
                column.default = None
            create, filled = table.create(), [table.insert("INSERT IGNORE") for _ in range(3)]
            try:
                cursor.execute(create)
            except OperationalError:
                continue
            for sql in filled:
                cursor.execute(sql)
            columns = ", ".join(listed(column, mysql) for column in table.columns)
            cursor.execute(f"SELECT {columns}, id FROM {quoted(table.name)}")
            made = Table.parse(
                create,
                flavour=server.flavour,
                database="result_random",
                server_version=server.version,
            )
            tables[table.name] = list(ResultSet(cursor, made))
        log = server.rotate()
    left = {name: {row["id"]: row for row in rows} for name, rows in tables.items()}
    for schema, row in changes(Case(log, {"server": server.version})):
        if schema.database != "result_random":
            continue
        other = left[schema.table].pop(row["id"])
        for column in schema.columns:
            one, two = row[column.name], other[column.name]
            if one.type is ColumnType.JSON:
                texts = (Converter().to(str, value) or "null" for value in (one, two))
                one, two = (json.loads(text, parse_float=Decimal) for text in texts)
            assert one == two, (schema.table, column)
    assert len(tables) > 15
    assert not any(left.values())


def test_a_result_without_a_table(flavour_server: Server) -> None:
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


def test_dictionaries_are_rows_too(flavour_server: Server) -> None:
    with flavour_server.connect() as connection, connection.cursor(DictCursor) as cursor:
        cursor.execute("SELECT 2 AS b, 1 AS a UNION SELECT 3, 4")
        assert [row.values for row in ResultSet(cursor)] == [(2, 1), (3, 4)]


def test_a_value_that_the_description_misjudges_is_told(flavour_server: Server) -> None:
    with flavour_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 18446744073709551615 AS big")
        with pytest.raises(ValueRejected, match=r"row 1 of the result, big: .*give the table"):
            list(ResultSet(cursor))
        big = "CREATE TABLE x.t (Big BIGINT UNSIGNED)"
        cursor.execute("SELECT 18446744073709551615 AS big")
        (row,) = ResultSet(cursor, Table.parse(big, flavour=flavour_server.flavour))
        assert row["big"].as_uint64() == 18446744073709551615
        assert row["big"].as_int64() == -1
