"""What a server's SELECT gives, as JSON: the answer that decoded logs are compared with."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, TypedDict

from pymysql.constants import FIELD_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tools.servers import Server

_VECTOR = 242
_BYTE_STRINGS = {
    FIELD_TYPE.BIT,
    FIELD_TYPE.TINY_BLOB,
    FIELD_TYPE.MEDIUM_BLOB,
    FIELD_TYPE.LONG_BLOB,
    FIELD_TYPE.BLOB,
    FIELD_TYPE.STRING,
    FIELD_TYPE.VAR_STRING,
    FIELD_TYPE.VARCHAR,
    FIELD_TYPE.GEOMETRY,
    _VECTOR,
}
_BINARY_COLLATION = 63


class TableDump(TypedDict):
    """A table's rows: values as SELECT's text, those of the columns in `binary` as base64."""

    columns: list[str]
    types: list[str]
    binary: list[str]
    key: list[str]
    rows: list[list[str | None]]


def tables(server: Server, *databases: str) -> list[tuple[str, str]]:
    """The base tables of these databases."""
    marks = ", ".join(["%s"] * len(databases))
    found = server.query(
        "SELECT table_schema, table_name FROM information_schema.tables "
        f"WHERE table_type = 'BASE TABLE' AND table_schema IN ({marks}) ORDER BY 1, 2",
        databases,
    )
    return [(str(database), str(table)) for database, table in found]


def dump_table(server: Server, database: str, table: str) -> TableDump:
    """All rows in the order of the primary key (of all columns where there is none)."""
    described = server.query(
        "SELECT column_name, column_type FROM information_schema.columns "
        "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
        (database, table),
    )
    key = [
        str(column)
        for (column,) in server.query(
            "SELECT column_name FROM information_schema.key_column_usage WHERE table_schema = %s "
            "AND table_name = %s AND constraint_name = 'PRIMARY' ORDER BY ordinal_position",
            (database, table),
        )
    ]
    columns = [str(column) for column, _ in described]
    order = ", ".join(map(quoted, key)) or ", ".join(
        str(place) for place in range(1, len(columns) + 1)
    )
    names = ", ".join(map(quoted, columns))
    sql = f"SELECT {names} FROM {quoted(database)}.{quoted(table)} ORDER BY {order}"
    rows, binary = raw_rows(server, sql)
    return TableDump(
        columns=columns,
        types=[str(column_type) for _, column_type in described],
        binary=[column for column, is_binary in zip(columns, binary, strict=True) if is_binary],
        key=key,
        rows=rows,
    )


def quoted(name: str) -> str:
    """An identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"


def raw_rows(server: Server, sql: str) -> tuple[list[list[str | None]], list[bool]]:
    """The rows of a query in text, and which of its columns are binary and so in base64."""
    connection = server.connect(use_unicode=False, conv={})
    with connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute(sql)
        result: Any = vars(cursor)["_result"]  # cursor.description lacks the collation
        binary = [
            field.type_code in _BYTE_STRINGS
            and (field.charsetnr == _BINARY_COLLATION or field.type_code == _VECTOR)
            for field in result.fields
        ]
        rows = [[_text(*cell) for cell in zip(row, binary, strict=True)] for row in cursor]
    return rows, binary


def definitions(server: Server, database: str, tables: Iterable[str] | None = None) -> str:
    """The CREATE TABLEs of a database, or of some tables, as mysqldump --no-data gives them."""
    names = tables
    if names is None:
        names = [str(row[0]) for row in server.query(f"SHOW TABLES FROM {quoted(database)}")]
    header = "-- MariaDB dump\n" if server.flavour == "mariadb" else ""
    parts = [f"{header}USE {quoted(database)};"]
    for table in names:
        rows, _ = raw_rows(server, f"SHOW CREATE TABLE {quoted(database)}.{quoted(table)}")
        parts.append(f"{rows[0][1]};")
    return "\n".join(parts)


def _text(value: bytes | None, binary: bool) -> str | None:
    if value is None:
        return None
    return base64.b64encode(value).decode() if binary else value.decode("utf-8")


def dump_databases(server: Server, *databases: str) -> dict[str, TableDump]:
    """Every table of these databases, by `database.table`."""
    found = tables(server, *databases)
    return {f"{database}.{table}": dump_table(server, database, table) for database, table in found}


def write(path: Path, content: object) -> None:
    """Write JSON with a row a line, so that a person and a diff can read it."""
    path.write_text(_json(content, 0) + "\n", encoding="utf-8")


def _json(value: object, depth: int) -> str:
    """Objects and lists of lists are indented; everything else is on one line."""
    pad = " " * (depth + 1)
    if isinstance(value, dict) and value:
        parts = [f"{pad}{json.dumps(key)}: {_json(item, depth + 1)}" for key, item in value.items()]
    elif isinstance(value, list) and value and isinstance(value[0], list | dict):
        parts = [f"{pad}{_json(item, depth + 1)}" for item in value]
    else:
        return json.dumps(value, ensure_ascii=False)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + "\n" + ",\n".join(parts) + "\n" + " " * depth + closing
