"""A MySQL JSON document as an SQL expression, including values of types that JSON lacks.

JSON text has no dates, no decimals and no bytes, but a document in MySQL may hold them. The
expression creates such a document by functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.constants import ColumnType
from tailrace.errors import UnsupportedType
from tailrace.sql.text import hexadecimal, string, string_literal
from tailrace.values.json_diff import Operation
from tailrace.values.jsonb import TEXT, opaque_text, read_jsonb

if TYPE_CHECKING:
    from tailrace.sql.text import Sql
    from tailrace.values.json_diff import JsonDiffs

_CASTS: Final[dict[int, str]] = {
    ColumnType.DATE: "DATE",
    ColumnType.TIME: "TIME(6)",
    ColumnType.DATETIME: "DATETIME(6)",
    ColumnType.TIMESTAMP: "DATETIME(6)",
}


_MOST_DIGITS, _MOST_SCALE = 65, 30


class _Part(NamedTuple):
    """A part of a document: its JSON text, and its expression if the text is not exact."""

    text: str
    sql: str | None = None


def _whole(part: _Part) -> str:
    return part.sql or f"CAST({string(part.text)} AS JSON)"


class _Expressions:
    """Builds expressions where a part needs one."""

    def leaf(self, text: str) -> _Part:
        return _Part(text)

    def opaque(self, field: int, data: bytes) -> _Part:
        return _Part(opaque_text(field, data), _opaque(field, data))

    def array(self, values: list[_Part]) -> _Part:
        text = TEXT.array([value.text for value in values])
        if all(value.sql is None for value in values):
            return _Part(text)
        return _Part(text, f"JSON_ARRAY({', '.join(map(_whole, values))})")

    def object(self, members: list[tuple[str, _Part]]) -> _Part:
        text = TEXT.object([(key, value.text) for key, value in members])
        if all(value.sql is None for _, value in members):
            return _Part(text)
        pairs = (f"{string(key)}, {_whole(value)}" for key, value in members)
        return _Part(text, f"JSON_OBJECT({', '.join(pairs)})")


_BYTES: Final[dict[int, str]] = {
    ColumnType.TINY_BLOB: "TINYBLOB",
    ColumnType.MEDIUM_BLOB: "MEDIUMBLOB",
    ColumnType.LONG_BLOB: "LONGBLOB",
    ColumnType.BLOB: "BLOB",
    ColumnType.STRING: "BINARY",
}
"""Types of binary strings that only a column can have."""
_SAFE_YEARS: Final = range(1971, 2038)


def _opaque(field: int, data: bytes) -> str:
    """A value that JSON lacks, as SQL that a JSON function stores as that value.

    A value of a type that only columns have is read from a column of JSON_TABLE. Raises
    UnsupportedType for values that no server creates.
    """
    if field == ColumnType.NEWDECIMAL:
        text, precision, scale = opaque_text(field, data), data[0], data[1]
        if precision > _MOST_DIGITS or scale > _MOST_SCALE:
            return text  # a literal may have more digits than a type
        return f"CAST({text} AS DECIMAL({precision},{scale}))"
    if field == ColumnType.TIMESTAMP:
        text = opaque_text(field, data).strip('"')
        if int(text[:4]) in _SAFE_YEARS:
            return _of_column(f"'{text}'", "TIMESTAMP(6)")
    if field in _CASTS:
        text = opaque_text(field, data).strip('"')
        return f"CAST('{text}' AS {_CASTS[field]})"
    if field == ColumnType.VARCHAR:
        return hexadecimal(data)
    if field == ColumnType.VAR_STRING and len(data) % 2 == 0:
        return f"_ucs2 {hexadecimal(data)}"  # text of ucs2, utf16 or utf32: the bytes are kept
    if field == ColumnType.BIT and 1 <= len(data) <= 8:
        return _of_column(str(int.from_bytes(data, "big")), f"BIT({8 * len(data)})")
    if field in _BYTES:
        size = f"({len(data)})" if field == ColumnType.STRING else ""
        return _of_column(hexadecimal(data), f"{_BYTES[field]}{size}")
    known = {int(code): code.name for code in ColumnType}
    raise UnsupportedType(
        f"a JSON document holds {len(data)} bytes of the type {known.get(field, field)}, which no "
        "server stores in one, so no statement can make it; leave the table out (--exclude, "
        "exclude=), or write the log with --as raw"
    )


def _of_column(literal: str, declared: str) -> str:
    """A value read from a column of a type, which JSON then keeps; an error if it does not fit."""
    column = f"v {declared} PATH '$' ERROR ON ERROR"
    rows = f"JSON_TABLE(JSON_ARRAY({literal}), '$[*]' COLUMNS ({column}))"
    return f"(SELECT CAST(v AS JSON) FROM {rows} AS t)"  # noqa: S608 - literals of our own


_EXPRESSIONS: Final = _Expressions()


def document(data: bytes) -> Sql:
    """The expression of a document in JSONB. Raises what `read_jsonb` does, and UnsupportedType."""
    part = read_jsonb(data, _EXPRESSIONS)
    if part.sql is None:
        return string_literal(part.text)
    if part.text[:1] in {"[", "{"}:
        return part.sql
    return f"JSON_EXTRACT(JSON_ARRAY({part.sql}), '$[0]')"  # a column parses text as JSON


class _WideText:
    """Determines whether a document holds text of ucs2, utf16 or utf32."""

    def leaf(self, _text: str) -> bool:
        return False

    def opaque(self, field: int, _data: bytes) -> bool:
        return field == ColumnType.VAR_STRING

    def array(self, values: list[bool]) -> bool:
        return any(values)

    def object(self, members: list[tuple[str, bool]]) -> bool:
        return any(value for _, value in members)


_WIDE_TEXT: Final = _WideText()


def is_printed(data: bytes) -> bool:
    """Whether a server can print a document: it prints bytes of ucs2, utf16, utf32 unconverted.

    Raises the errors of `read_jsonb`.
    """
    return ColumnType.VAR_STRING not in data or not read_jsonb(data, _WIDE_TEXT)


def changed(column: str, diffs: JsonDiffs) -> str:
    """The expression of a column's document after a partial update, based on the column."""
    sql = column
    for diff in diffs:
        parts = [sql, string(diff.path)]
        if diff.operation is not Operation.REMOVE:
            parts.append(_whole(read_jsonb(diff.value, _EXPRESSIONS)))
        sql = f"{diff.function}({', '.join(parts)})"
    return sql
