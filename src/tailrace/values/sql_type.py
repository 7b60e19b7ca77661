"""The type of a logged column as CREATE TABLE has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.constants import ColumnType
from tailrace.values.charsets import BINARY, longest_character
from tailrace.values.schema import BLOB_TYPES, Logical

if TYPE_CHECKING:
    from tailrace.values.schema import Column

_T = ColumnType
_NUMBERS: Final = {
    _T.TINY: "tinyint",
    _T.SHORT: "smallint",
    _T.INT24: "mediumint",
    _T.LONG: "int",
    _T.LONGLONG: "bigint",
    _T.FLOAT: "float",
    _T.DOUBLE: "double",
}
_OTHERS: Final = {
    _T.YEAR: "year",
    _T.DATE: "date",
    _T.NEWDATE: "date",
    _T.JSON: "json",
    _T.GEOMETRY: "geometry",
}
_TIMES: Final = {
    **dict.fromkeys((_T.TIME, _T.TIME2), "time"),
    **dict.fromkeys((_T.DATETIME, _T.DATETIME2), "datetime"),
    **dict.fromkeys((_T.TIMESTAMP, _T.TIMESTAMP2), "timestamp"),
}
_PREFIXES: Final = {1: "tiny", 2: "", 3: "medium", 4: "long"}
_OF_DEFINITIONS: Final = frozenset(
    {Logical.JSON, Logical.UUID, Logical.INET4, Logical.INET6, Logical.GEOMETRY}
)
_COMPRESSED: Final = frozenset({_T.VARCHAR_COMPRESSED, _T.BLOB_COMPRESSED})


def sql_type(column: Column) -> str:
    """The type of a column in SQL (``varchar(20)``, ``int unsigned``), without its character set.

    Of an ENUM or SET whose members are unknown it has none; VECTOR is without its dimensions if the
    log has it as a type of its own. Empty for a type that no row image has.
    """
    kind, size = column.type, column.metadata
    if kind in _NUMBERS:
        return _NUMBERS[kind] + " unsigned" * column.unsigned
    if kind in _TIMES:
        return _TIMES[kind] + (f"({size})" if size else "")
    if kind is _T.NEWDECIMAL:
        return f"decimal({size >> 8},{size & 255})" + " unsigned" * column.unsigned
    if kind is _T.BIT:
        return f"bit({size})"
    if kind in {_T.ENUM, _T.SET}:
        members = ",".join(f"'{_escaped(each)}'" for each in column.members or ())
        return f"{kind.name.lower()}({members})" if members else kind.name.lower()
    if kind in _OTHERS:
        return _OTHERS[kind]
    if kind is _T.VECTOR or column.logical is Logical.VECTOR:
        return "vector" if kind is _T.VECTOR else f"vector({size // 4})"
    if column.logical in _OF_DEFINITIONS:
        return column.logical.value
    return _string(column) + " compressed" * (kind in _COMPRESSED)


def _string(column: Column) -> str:
    kind, size = column.type, column.metadata
    is_binary = column.logical is Logical.BINARY
    if kind in BLOB_TYPES:
        return _PREFIXES.get(size, "") + ("blob" if is_binary else "text")
    size -= kind is _T.VARCHAR_COMPRESSED
    if not is_binary and column.collation not in (None, BINARY):
        size //= longest_character(column.collation)
    if kind is _T.STRING:
        return f"{'binary' if is_binary else 'char'}({size})"
    if kind in {_T.VARCHAR, _T.VAR_STRING, _T.VARCHAR_COMPRESSED}:
        return f"{'varbinary' if is_binary else 'varchar'}({size})"
    return ""


def _escaped(member: str) -> str:
    return member.replace("\\", "\\\\").replace("'", "''")
