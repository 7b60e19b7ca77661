"""Table maps of random tables on real servers, compared with their information_schema."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

import pytest

from tailrace.constants import ColumnType as T
from tailrace.events import TableMapEvent
from tailrace.log import open as open_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.servers import Server

CHARSETS = ["latin1", "utf8mb4", "gbk", "utf16", "ascii", "binary", "utf8mb4 COLLATE utf8mb4_bin"]
NUMBERS = ["TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "DECIMAL(20,5)", "FLOAT", "DOUBLE"]
TEMPORAL = ["DATE", "YEAR", "TIME", "TIME(3)", "DATETIME", "DATETIME(6)", "TIMESTAMP(2) NULL"]
TEXTS = ["CHAR(9)", "CHAR(255)", "VARCHAR(20)", "VARCHAR(300)", "TINYTEXT", "TEXT", "LONGTEXT"]
BYTES = ["BINARY(3)", "VARBINARY(300)", "BLOB", "MEDIUMBLOB"]
SHAPES = ["GEOMETRY", "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "GEOMETRYCOLLECTION"]
SHAPE_NUMBERS = {
    "geometry": 0,
    "point": 1,
    "linestring": 2,
    "polygon": 3,
    "multipoint": 4,
    "geometrycollection": 7,
    "geomcollection": 7,
}
TYPES = {
    "tinyint": T.TINY,
    "smallint": T.SHORT,
    "mediumint": T.INT24,
    "int": T.LONG,
    "bigint": T.LONGLONG,
    "decimal": T.NEWDECIMAL,
    "float": T.FLOAT,
    "double": T.DOUBLE,
    "year": T.YEAR,
    "date": T.DATE,
    "time": T.TIME2,
    "datetime": T.DATETIME2,
    "timestamp": T.TIMESTAMP2,
    "char": T.STRING,
    "binary": T.STRING,
    "varchar": T.VARCHAR,
    "varbinary": T.VARCHAR,
    "enum": T.ENUM,
    "set": T.SET,
    "bit": T.BIT,
    "json": T.JSON,
    "vector": T.VECTOR,
    **dict.fromkeys(SHAPE_NUMBERS, T.GEOMETRY),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), T.BLOB),
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext"), T.BLOB),
}
SIGNED_OR_NOT = {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double"}


def random_column(mysql: bool) -> str:
    kind = random.choice(
        ["number", "number", "text", "text", "temporal", "bytes", "other", "shape"]
    )
    if kind == "number":
        return random.choice(NUMBERS) + random.choice(["", " UNSIGNED"])
    if kind == "text":
        # (x CHARACTER SET binary turns text types into byte types)
        return f"{random.choice(TEXTS)} CHARACTER SET {random.choice(CHARSETS)}"
    if kind == "temporal":
        return random.choice(TEMPORAL)
    if kind == "bytes":
        return random.choice(BYTES)
    if kind == "shape":
        return random.choice(SHAPES)
    members = ",".join(f"'m{number}é'" for number in range(random.choice([1, 3, 9, 40])))
    charset = random.choice(["utf8mb4", "latin1", "utf16"])
    return random.choice(
        [
            f"BIT({random.randint(1, 64)})",
            f"ENUM({members}) CHARACTER SET {charset}",
            f"SET({members}) CHARACTER SET {charset}",
            "JSON",
            "VECTOR(5)" if mysql else "TEXT COMPRESSED",
        ]
    )


def random_table(name: str, mysql: bool) -> str:
    columns = [
        f"k INT UNSIGNED NOT NULL, kt VARCHAR(50) CHARACTER SET {random.choice(CHARSETS)} NOT NULL"
    ]
    for number in range(random.randint(0, 30)):
        hidden = random.choice(["", "", "", " INVISIBLE"])
        columns.append(f"`c{number} é` {random_column(mysql)}{hidden}")
    columns.append(random.choice(["PRIMARY KEY (k)", "PRIMARY KEY (kt(7), k)", "KEY (k)"]))
    return f"CREATE TABLE {name} ({', '.join(columns)})"


@pytest.fixture
def full_metadata(server: Server) -> Iterator[Server]:
    (before,) = server.query("SELECT @@GLOBAL.binlog_row_metadata")[0]
    server.execute("SET GLOBAL binlog_row_metadata = FULL")
    server.execute("CREATE DATABASE table_maps")
    server.rotate()
    yield server
    server.execute("DROP DATABASE table_maps")
    server.execute(f"SET GLOBAL binlog_row_metadata = {before}")


def test_random_tables(full_metadata: Server) -> None:
    server = full_metadata
    random.seed(7)
    tables = [f"t{number}" for number in range(40)]
    for table in tables:
        server.execute(random_table(f"table_maps.{table}", server.flavour == "mysql"))
        server.execute(f"INSERT INTO table_maps.{table} (k, kt) VALUES (1, 'a')")
    maps = {
        event.table: event
        for event in open_log(server.rotate())
        if isinstance(event, TableMapEvent) and event.database == "table_maps"
    }
    assert list(maps) == tables
    collations = {name: number for number, name in collation_ids(server)}
    for table in tables:
        compare(server, maps[table], collations)


def collation_ids(server: Server) -> list[tuple[int, str]]:
    if server.flavour == "mysql":
        return server.query("SELECT ID, COLLATION_NAME FROM information_schema.COLLATIONS")
    return server.query(
        "SELECT ID, FULL_COLLATION_NAME FROM"
        " information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
    )


def compare(server: Server, event: TableMapEvent, collations: dict[str, int]) -> None:
    described = server.query(
        "SELECT COLUMN_NAME, IS_NULLABLE, DATA_TYPE, COLUMN_TYPE, COLLATION_NAME, EXTRA"
        " FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'table_maps' AND TABLE_NAME = %s"
        " ORDER BY ORDINAL_POSITION",
        [event.table],
    )
    assert event.layout.unknown_fields == ()
    assert [spec.name for spec in event.columns] == [row[0] for row in described]
    for spec, (_, nullable, data_type, column_type, collation, extra) in zip(
        event.columns, described, strict=True
    ):
        kind = data_type.lower()
        what = f"{event.table}: {column_type} {collation}"
        assert spec.nullable == (nullable == "YES"), what
        compressed = "COMPRESSED" in column_type
        assert spec.type == (T.BLOB_COMPRESSED if compressed else TYPES[kind]), what
        if kind in SIGNED_OR_NOT:
            assert spec.unsigned == ("unsigned" in column_type), what
        else:
            assert spec.unsigned == (True if kind == "year" else None), what
        binary = binary_types(server)
        expected = 63 if kind in binary else collations[collation] if collation else None
        assert spec.collation == expected, what
        if kind in {"enum", "set"}:
            codec = {"utf8mb4": "utf-8", "latin1": "cp1252", "utf16": "utf-16-be"}
            charset = str(collation).split("_")[0]
            assert spec.members is not None
            names = [member.decode(codec[charset]) for member in spec.members]
            assert names == re.findall(r"'(.*?)'", column_type), what
        else:
            assert spec.members is None
        assert spec.geometry_type == SHAPE_NUMBERS.get(kind), what
        if server.flavour == "mysql":
            assert spec.visible == ("INVISIBLE" not in extra), what
            assert spec.dimensions == (5 if kind == "vector" else None)
    keys = server.query(
        "SELECT COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS"
        " WHERE TABLE_SCHEMA = 'table_maps' AND TABLE_NAME = %s AND INDEX_NAME = 'PRIMARY'"
        " ORDER BY SEQ_IN_INDEX",
        [event.table],
    )
    names = [row[0] for row in described]
    assert [names[index] for index in event.primary_key or ()] == [name for name, _ in keys]
    assert [prefix or None for prefix in event.primary_key_prefixes or ()] == [
        part for _, part in keys
    ]


def binary_types(server: Server) -> set[str]:
    """The types without a collation of their own for which the log says binary."""
    types = {"binary", "varbinary", "vector", "tinyblob", "blob", "mediumblob", "longblob"}
    return types | (set(SHAPE_NUMBERS) if server.flavour == "mariadb" else set())
