"""Values, rows and statements as readable text."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from tailrace.cli.lines import size
from tailrace.constants import ColumnType
from tailrace.values.floats import float32_text
from tailrace.values.image import ABSENT
from tailrace.values.json_diff import JsonDiffs
from tailrace.values.jsonb import JsonText

if TYPE_CHECKING:
    from tailrace.cli.lines import Piece
    from tailrace.values.image import Image
    from tailrace.values.row import Row
    from tailrace.values.schema import Column, TableSchema

_LONGEST: Final = 200
"""Maximum characters shown of a value; the rest is counted. (JSON output has all of it.)"""


def value_text(value: Any, column: Column) -> str:
    """A value of a column: numbers bare, text quoted, bytes in hexadecimal."""
    if value is None:
        return "NULL"
    if value is ABSENT:
        return "?"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        return float32_text(value) if column.type is ColumnType.FLOAT else repr(value)
    if isinstance(value, bytes):
        cut = value[: _LONGEST // 2]
        return f"0x{cut.hex()}{_rest(len(value) - len(cut))}" if value else "''"
    if isinstance(value, JsonDiffs):
        return _cut(value.shown(column.name).replace("\n", " "))
    if isinstance(value, tuple):
        shown = value[: _LONGEST // 10]
        return f"[{','.join(map(float32_text, shown))}]{_rest(len(value) - len(shown), 'numbers')}"
    if isinstance(value, JsonText):
        return _cut(value.replace("\n", " "))
    if isinstance(value, str):
        return _quoted(value)
    return _cut(str(value))


def _quoted(text: str) -> str:
    cut = text[:_LONGEST]
    shown = cut.replace("\\", "\\\\").replace("'", "''")
    shown = shown.replace("\n", "\\n").replace("\t", "\\t")
    return f"'{shown}'{_rest(len(text) - len(cut), 'characters')}"


def _cut(text: str) -> str:
    return text[:_LONGEST] + _rest(len(text) - _LONGEST, "characters")


def _rest(count: int, unit: str | None = None) -> str:
    if count <= 0:
        return ""
    return f"… {count:,} {unit} more" if unit else f"… {size(count)} more"


def row_pieces(row: Row, schema: TableSchema) -> list[Piece]:
    """A row on one line: all columns, or for an update its key and what it changed."""
    pieces: list[Piece] = [
        ("  ", ""),
        (row.kind, row.kind),
        (f" {schema.database}.{schema.table} ", ""),
    ]
    if row.before is not None and row.after is not None:
        return pieces + _update(row.before, row.after, schema)
    image = row.after if row.after is not None else row.before
    if image is not None:
        values = image.as_tuple()
        for column in schema.columns:
            if values[column.index] is not ABSENT:
                pieces += _assigned(column, values[column.index])
    return pieces


def _update(before: Image, after: Image, schema: TableSchema) -> list[Piece]:
    old, new = before.as_tuple(), after.as_tuple()
    pieces: list[Piece] = []
    key = schema.primary_key or tuple(range(len(schema.columns)))
    for index in key:
        if old[index] is not ABSENT:
            pieces += _assigned(schema.columns[index], old[index])
    changed = [
        column
        for column in schema.columns
        if new[column.index] is not ABSENT and not _same(old[column.index], new[column.index])
    ]
    pieces.append((" ", ""))
    for number, column in enumerate(changed):
        was = value_text(old[column.index], column)
        now = value_text(new[column.index], column)
        pieces += [
            (", " if number else " ", ""),
            (column.name, "column"),
            (f": {was} → {now}", ""),
        ]
    if not changed:
        pieces.append((" (no change)", "quiet"))
    return pieces


def _same(old: Any, new: Any) -> bool:
    return type(old) is type(new) and bool(old == new)


def _assigned(column: Column, value: Any) -> list[Piece]:
    return [(f" {column.name}", "column"), (f"={value_text(value, column)}", "")]


def statement_lines(sql: str) -> list[str]:
    """A statement, indented like the other lines of a transaction."""
    return [f"  {line}" for line in sql.strip().split("\n")]
