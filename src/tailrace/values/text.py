"""Values as text for people: the command line's text, and notebooks."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import ColumnType
from tailrace.printable import size
from tailrace.values.floats import float32_text
from tailrace.values.image import ABSENT
from tailrace.values.json_diff import JsonDiffs
from tailrace.values.jsonb import JsonText

if TYPE_CHECKING:
    from tailrace.values.schema import Column

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
