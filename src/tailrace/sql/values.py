"""A column's values as literals, and as conditions that find the row.

Every literal has the same meaning in every character set and mode of the session, except for the
settings that `tailrace.sql.settings` makes: the time zone UTC, and an ``sql_mode`` that accepts all
dates. Bytes are kept as logged, with the column's own character set, and never converted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tailrace.columns.frames import sql as s
from tailrace.constants import LARGE, ColumnType, Flavour
from tailrace.errors import LogError, UnsupportedType
from tailrace.schema.tokens import quoted_name
from tailrace.sql.json import changed, document, is_printed
from tailrace.sql.text import (
    Sql,
    bytes_literal,
    plain,
    quoted,
    string_literal,
    text_literal,
)
from tailrace.values import compressed
from tailrace.values.charsets import UTF8, decoder, pieces_of
from tailrace.values.floats import float32_text
from tailrace.values.json_diff import JsonDiffs
from tailrace.values.registry import key_of
from tailrace.values.schema import BLOB_TYPES, Logical

if TYPE_CHECKING:
    from tailrace.values.family import Key
    from tailrace.values.image import Image
    from tailrace.values.schema import Column

_LARGEST_FLOAT: Final = float.fromhex("0x1.fffffep127")

Literal = Callable[["Image"], Sql]
"""The value of one column that is in an image, as SQL."""
_Pieces = Callable[[memoryview], Iterator[tuple[bytes, str]]]
_utf8: Final = decoder("utf8mb4")
_utf8_pieces: Final = pieces_of("utf8mb4")

CLOCKS: Final = frozenset(
    {
        ColumnType.TIMESTAMP,
        ColumnType.TIMESTAMP2,
        ColumnType.DATETIME,
        ColumnType.DATETIME2,
    }
)


class ColumnSql(NamedTuple):
    """How one column is written.

    ``literal`` gives a value. ``exact`` gives a condition that holds for exactly this value (not
    for others that are equal in the column's collation). ``key`` gives one that can use an index.
    """

    name: str
    literal: Literal
    exact: Literal
    key: Literal
    set_by_clock: bool
    """Whether the server may set it automatically in an UPDATE (ON UPDATE CURRENT_TIMESTAMP)."""


def column_sql(column: Column, *, server: Flavour | None = None) -> ColumnSql:
    """The writers of a column, for a server of that flavour (None: of the log's).

    JSON is a type of its own in MySQL, and text in MariaDB.
    """
    name_, index, kind = quoted_name(column.name), column.index, key_of(column)
    of_type = TYPES[kind]
    if server is Flavour.MARIADB and kind is ColumnType.JSON:
        of_type = _JSON_AS_TEXT
    elif server is Flavour.MYSQL and kind is Logical.JSON:
        of_type = _TEXT_AS_JSON
    literal = of_type.literal(column)
    compared = literal if of_type.compared is None else of_type.compared(column)
    by_bytes = None if of_type.by_bytes is None else of_type.by_bytes(column)

    def exact(image: Image) -> Sql:
        if image.peek(index, LARGE) is None:
            return f"{name_} IS NULL"
        if by_bytes is not None:
            return by_bytes(image)
        return f"{name_} = " + compared(image)

    def key(image: Image) -> Sql:
        if image.peek(index, LARGE) is None:
            return f"{name_} IS NULL"
        return f"{name_} = " + compared(image)

    def value(image: Image) -> Sql:
        return "NULL" if image.peek(index, LARGE) is None else literal(image)

    return ColumnSql(name_, value, exact, key, column.type in CLOCKS)


class SqlType(NamedTuple):
    """How the columns of a type are written.

    ``literal`` makes the writer of a value that is not NULL. ``compared`` makes that of the value
    that the column is compared with (None: the same). ``by_bytes`` makes that of a comparison byte
    by byte, for columns whose equality differs from that (None: it does not). ``codes`` are the
    kernel's codes for the three, from ``columns/frames/sql.py``.
    """

    literal: Callable[[Column], Literal]
    codes: Callable[[Column], tuple[int, int, int | None]]
    compared: Callable[[Column], Literal] | None = None
    by_bytes: Callable[[Column], Literal] | None = None


def _written(write: Callable[[Any], Sql]) -> Callable[[Column], Literal]:
    """The writer of values that need nothing of their column."""

    def literal(column: Column) -> Literal:
        index = column.index
        return lambda image: write(image.at(index))

    return literal


def _codes(
    literal: int, compared: int | None = None, by_bytes: int | None = None
) -> Callable[[Column], tuple[int, int, int | None]]:
    codes = (literal, literal if compared is None else compared, by_bytes)
    return lambda _column: codes


def _single(value: float) -> str:
    """A FLOAT's shortest text; the largest in all digits, as rounded up it is out of range."""
    text = float32_text(value)
    return text if abs(float(text)) <= _LARGEST_FLOAT else repr(value)


def _number(value: float, shortest: Callable[[float], str]) -> str:
    """A float; a negative zero keeps its sign only with an exponent."""
    text = shortest(value)
    return "-0e0" if text == "-0.0" else text


def _stored(image: Image, index: int) -> bytes | memoryview:
    """A value's bytes as in the table; large ones are not copied out of the event.

    Raises UnsupportedType if the image does not have the bytes.
    """
    raw = image.logged(index, LARGE)
    if raw is None:
        column = image.schema.columns[index]
        raise UnsupportedType(f"column {column.name}: the row is not from a log")
    column = image.schema.columns[index]
    if column.type not in compressed.TYPES:
        return raw
    return compressed.uncompress(bytes(raw), compressed.longest_uncompressed(column))


def _text(column: Column) -> Literal:
    """Text: in quotes where that is safe, else in hexadecimal with the column's character set."""
    index = column.index
    if column.collation is None:
        return lambda image: _bytes_as_text(_stored(image, index))
    charset = column.charset
    decode, pieces = decoder(charset), pieces_of(charset)
    utf8 = charset in UTF8

    def text(image: Image) -> Sql:
        raw = _stored(image, index)
        if len(raw) > LARGE:
            return large(image, raw)
        seen = _seen(bytes(raw), decode) if utf8 or bytes(raw).isascii() else None
        return bytes_literal(raw, f"_{charset} ") if seen is None else quoted(seen)

    def large(image: Image, raw: bytes | memoryview) -> Sql:
        try:
            seen = _is_seen(raw, pieces, ascii_only=not utf8)
        except LogError:
            image.at(index)  # it raises the error with its position
            raise
        return text_literal(raw) if seen else bytes_literal(raw, f"_{charset} ")

    return text


def _seen(raw: bytes, decode: Callable[[bytes], str]) -> str | None:
    """Text that is safe in quotes, and that is the same bytes in UTF-8; None for any other."""
    try:
        text = decode(raw)
    except LogError:
        return None
    return text if plain(text) and text.encode() == raw else None


def _is_seen(raw: bytes | memoryview, pieces: _Pieces, *, ascii_only: bool) -> bool:
    """The same for large text. Raises EventDecodeError for invalid text: all is read."""
    seen = True
    for data, text in pieces(memoryview(raw)):
        seen = seen and (data.isascii() or not ascii_only) and plain(text) and text.encode() == data
    return seen


def _bytes_as_text(raw: bytes | memoryview) -> Sql:
    """Text of an unknown character set: the column accepts bytes unchanged."""
    return _utf8_as_seen(raw, "", ascii_only=True)


def _utf8_as_seen(raw: bytes | memoryview, prefix: str, *, ascii_only: bool = False) -> Sql:
    """The bytes of a text, in quotes if that is safe in UTF-8."""
    if len(raw) <= LARGE:
        data = bytes(raw)
        seen = _seen(data, _utf8) if data.isascii() or not ascii_only else None
        return bytes_literal(data) if seen is None else prefix + quoted(seen)
    try:
        is_seen = _is_seen(raw, _utf8_pieces, ascii_only=ascii_only)
    except LogError:
        is_seen = False
    return text_literal(raw, prefix) if is_seen else bytes_literal(raw)


def _json(column: Column) -> Literal:
    """A MySQL JSON column: the document, or the result of a partial update."""
    index = column.index

    def json(image: Image) -> Sql:
        diffs = image.diffs(index)
        if diffs is not None:
            return changed(quoted_name(column.name), diffs)
        raw = image.raw(index)
        return string_literal(image.at(index)) if raw is None else _document(image, index, raw)

    return json


def _document(image: Image, index: int, raw: bytes) -> Sql:
    try:
        return document(raw)
    except UnsupportedType:
        raise
    except LogError:
        image.at(index)  # it raises the error with its position
        raise


def _member(column: Column) -> Literal:
    """ENUM and SET: by name if that is unambiguous, else by number."""
    index, single = column.index, column.type is ColumnType.ENUM
    names = [member_name(text) for text in column.members or ()]

    def member(image: Image) -> str:
        number = int.from_bytes(_stored(image, index), "little")
        if single:
            known = names[number - 1] if 0 < number <= len(names) else None
            return str(number) if known is None else quoted(known)
        chosen = [names[bit] for bit in range(len(names)) if number >> bit & 1]
        known_names = [text for text in chosen if text is not None]
        if not chosen or len(known_names) < len(chosen) or number >> len(names):
            return str(number)
        return quoted(",".join(known_names))

    return member


def member_name(text: str) -> str | None:
    """A member's name, None if its number is safer."""
    good = plain(text) and text.strip() == text and text[:1].isalpha() and "?" not in text
    return text if good else None


def _member_number(column: Column) -> Literal:
    """ENUM and SET by number: servers compare them with numbers as signed numbers."""
    index, signed = column.index, column.metadata == 8
    return lambda image: str(int.from_bytes(_stored(image, index), "little", signed=signed))


def _set_codes(column: Column) -> tuple[int, int, int | None]:
    return s.SET, s.SIGNED if column.metadata == 8 else s.PLAIN, None


def _stored_bytes(column: Column) -> Literal:
    index = column.index
    return lambda image: bytes_literal(_stored(image, index))


def bytes_of(column: Column) -> str:
    """An expression of the bytes that the log has of a column.

    The table in which it is evaluated may have another character set than the logged one.
    """
    name_ = quoted_name(column.name)
    if column.type is ColumnType.JSON:
        return f"CAST(CAST({name_} AS CHAR) AS BINARY)"
    if key_of(column) in {Logical.TEXT, Logical.JSON} and column.collation is not None:
        return f"CAST(CONVERT({name_} USING {column.charset}) AS BINARY)"
    return f"CAST({name_} AS BINARY)"


def _same_bytes(literal: Callable[[Column], Literal]) -> Callable[[Column], Literal]:
    """A comparison of the column's bytes."""

    def by_bytes(column: Column) -> Literal:
        found, write = f"{bytes_of(column)} = ", literal(column)
        return lambda image: found + write(image)

    return by_bytes


def _same_document(column: Column) -> Literal:
    """A comparison of a document that MySQL's JSON made of MariaDB's text, as MySQL prints it."""
    text, printed = _text(column), "CAST(CAST({} AS CHAR) AS BINARY)".format
    found = printed(quoted_name(column.name)) + " = "
    return lambda image: found + "CAST(CAST(CAST(" + text(image) + " AS JSON) AS CHAR) AS BINARY)"


def _binary_text(column: Column) -> Literal:
    index = column.index
    return lambda image: _binary(_stored(image, index))


def _binary_codes(column: Column) -> tuple[int, int, int | None]:
    compared = s.PADDED if column.type is ColumnType.STRING else s.AS_BYTES
    return s.AS_BYTES, compared, compared


def _bytes_of(column: Column) -> Literal:
    """Bytes as in the column: BINARY with its trailing zeros, which are not logged."""
    index = column.index
    if column.type in BLOB_TYPES:
        return lambda image: bytes_literal(_stored(image, index))
    return lambda image: bytes_literal(image.at(index))


def _json_by_text(column: Column) -> Literal:
    """A comparison of a document as printed; as JSON if no server can print it."""
    index, name_ = column.index, quoted_name(column.name)
    printed = bytes_of(column)

    def compare(image: Image) -> Sql:
        raw = image.raw(index)
        if raw is None or image.diffs(index) is not None or is_printed(raw):
            return f"{printed} = " + _binary(_printed(image, index))
        return f"{name_} = " + _document(image, index, raw)

    return compare


def _printed(image: Image, index: int) -> bytes:
    """A JSON document as MySQL prints it."""
    value = image.at(index)
    if isinstance(value, JsonDiffs):
        raise UnsupportedType(
            f"column {image.schema.columns[index].name}: the log holds a partial update without "
            "the previous document; log with binlog_row_image=FULL, or leave the table out "
            "(--exclude, exclude=)"
        )
    text: str = value
    return text.encode()


def _printed_text(column: Column) -> Literal:
    index = column.index
    return lambda image: string_literal(_printed(image, index).decode())


def _printed_bytes(column: Column) -> Literal:
    index = column.index
    return lambda image: _binary(_printed(image, index))


def _binary(raw: bytes | memoryview) -> Sql:
    """Bytes of a text, as binary."""
    return _utf8_as_seen(raw, "_binary")


_WHOLE: Final = SqlType(_written(str), _codes(s.PLAIN))
_QUOTED: Final = SqlType(_written(quoted), _codes(s.QUOTED))
"""Dates, times, UUIDs and addresses, which are ASCII text."""
_TEXT: Final = SqlType(
    _text,
    _codes(s.AS_TEXT, by_bytes=s.BINARY_TEXT),
    by_bytes=_same_bytes(_binary_text),
)
_BYTES: Final = SqlType(
    _stored_bytes, _codes(s.AS_BYTES, by_bytes=s.AS_BYTES), by_bytes=_same_bytes(_stored_bytes)
)
_JSON_AS_TEXT: Final = SqlType(
    _printed_text, _codes(s.AS_TEXT, by_bytes=s.BINARY_TEXT), by_bytes=_same_bytes(_printed_bytes)
)
_TEXT_AS_JSON: Final = SqlType(_text, _TEXT.codes, by_bytes=_same_document)
TYPES: Final[dict[Key, SqlType]] = {
    **dict.fromkeys(
        (
            ColumnType.TINY,
            ColumnType.SHORT,
            ColumnType.INT24,
            ColumnType.LONG,
            ColumnType.LONGLONG,
            ColumnType.YEAR,
            ColumnType.BIT,
        ),
        _WHOLE,
    ),
    ColumnType.FLOAT: SqlType(
        _written(lambda value: _number(value, _single)),
        _codes(s.PLAIN, s.ALL_DIGITS),
        compared=_written(lambda value: _number(value, repr)),
    ),
    ColumnType.DOUBLE: SqlType(_written(lambda value: _number(value, repr)), _codes(s.PLAIN)),
    ColumnType.NEWDECIMAL: SqlType(_written(lambda value: f"{value:f}"), _codes(s.PLAIN)),
    **dict.fromkeys((*CLOCKS, ColumnType.TIME, ColumnType.TIME2), _QUOTED),
    **dict.fromkeys((ColumnType.DATE, ColumnType.NEWDATE, ColumnType.NULL), _QUOTED),
    ColumnType.ENUM: SqlType(_member, _codes(s.ENUM, s.PLAIN), compared=_member_number),
    ColumnType.SET: SqlType(_member, _set_codes, compared=_member_number),
    ColumnType.JSON: SqlType(
        _json, _codes(s.DOCUMENT, by_bytes=s.BINARY_DOCUMENT), by_bytes=_json_by_text
    ),
    ColumnType.GEOMETRY: _BYTES,
    ColumnType.VECTOR: _BYTES,
    Logical.PLAIN: _QUOTED,
    Logical.BINARY: SqlType(
        _stored_bytes, _binary_codes, compared=_bytes_of, by_bytes=_same_bytes(_bytes_of)
    ),
    Logical.TEXT: _TEXT,
    Logical.JSON: _TEXT,
    Logical.GEOMETRY: _BYTES,
    Logical.VECTOR: _BYTES,
    Logical.UUID: _QUOTED,
    Logical.INET4: _QUOTED,
    Logical.INET6: _QUOTED,
}
"""By `tailrace.values.registry.key_of`: how a column of the type is written."""
