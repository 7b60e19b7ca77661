"""The optional metadata at a table map's end: signs, collations, names, keys (facts sheet 2.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from tailrace.constants import ColumnType, Flavour
from tailrace.errors import EventDecodeError
from tailrace.events.fields import Cursor, text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_T = ColumnType
SIGNED_OR_NOT: Final = frozenset(
    {
        _T.TINY,
        _T.SHORT,
        _T.INT24,
        _T.LONG,
        _T.LONGLONG,
        _T.DECIMAL,
        _T.NEWDECIMAL,
        _T.FLOAT,
        _T.DOUBLE,
        _T.YEAR,
    }
)
_BLOBS: Final = frozenset({_T.BLOB, _T.TINY_BLOB, _T.MEDIUM_BLOB, _T.LONG_BLOB})
CHARACTER: Final = {
    Flavour.MYSQL: _BLOBS | {_T.STRING, _T.VAR_STRING, _T.VARCHAR, _T.VECTOR},
    Flavour.MARIADB: _BLOBS
    | {
        _T.STRING,
        _T.VAR_STRING,
        _T.VARCHAR,
        _T.GEOMETRY,
        _T.BLOB_COMPRESSED,
        _T.VARCHAR_COMPRESSED,
    },
}
"""The types that the character set fields count, by flavour."""


class OptionalField(IntEnum):
    """Types of optional metadata fields."""

    SIGNEDNESS = 1
    DEFAULT_CHARSET = 2
    COLUMN_CHARSET = 3
    COLUMN_NAME = 4
    SET_STR_VALUE = 5
    ENUM_STR_VALUE = 6
    GEOMETRY_TYPE = 7
    SIMPLE_PRIMARY_KEY = 8
    PRIMARY_KEY_WITH_PREFIX = 9
    ENUM_AND_SET_DEFAULT_CHARSET = 10
    ENUM_AND_SET_COLUMN_CHARSET = 11
    COLUMN_VISIBILITY = 12
    VECTOR_DIMENSIONALITY = 13


@dataclass(slots=True)
class OptionalMetadata:
    """The content of the optional fields, by column index. What no field says is absent.

    ``key`` holds the primary key's column indexes, ``key_prefixes`` for each the number of
    characters in
    the key (0: all); ``unknown`` the types of fields that are not known.
    """

    unsigned: dict[int, bool] = field(default_factory=dict)
    collations: dict[int, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    members: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    geometry_types: dict[int, int] = field(default_factory=dict)
    visible: dict[int, bool] = field(default_factory=dict)
    dimensions: dict[int, int] = field(default_factory=dict)
    key: tuple[int, ...] | None = None
    key_prefixes: tuple[int, ...] | None = None
    unknown: tuple[int, ...] = ()


def read_optional(raw: bytes, types: Sequence[ColumnType], flavour: Flavour) -> OptionalMetadata:
    """Read the fields (type u8, length, value) to the end. Raises EventDecodeError."""
    read = _Reader(types, flavour)
    cursor = Cursor(raw)
    while cursor.remaining:
        code = cursor.u8("a field's type")
        size = cursor.lenenc("a field's length")
        start = cursor.skip(size, "a field")
        parser = read.parsers.get(code)
        if parser is None:
            read.found.unknown += (code,)
            continue
        value = Cursor(raw, start, cursor.pos)
        parser(value)
        value.finish(OptionalField(code).name)
    return read.found


class _Reader:
    def __init__(self, types: Sequence[ColumnType], flavour: Flavour) -> None:
        self.types = types
        self.found = OptionalMetadata()
        self.parsers: dict[int, Callable[[Cursor], None]] = {
            OptionalField.SIGNEDNESS: self._signedness,
            OptionalField.DEFAULT_CHARSET: self._default_charset,
            OptionalField.COLUMN_CHARSET: self._column_charset,
            OptionalField.COLUMN_NAME: self._names,
            OptionalField.SET_STR_VALUE: lambda cursor: self._members(cursor, _T.SET),
            OptionalField.ENUM_STR_VALUE: lambda cursor: self._members(cursor, _T.ENUM),
            OptionalField.GEOMETRY_TYPE: self._geometry_types,
            OptionalField.SIMPLE_PRIMARY_KEY: self._key,
            OptionalField.PRIMARY_KEY_WITH_PREFIX: self._key_with_prefix,
            OptionalField.ENUM_AND_SET_DEFAULT_CHARSET: self._default_enum_charset,
            OptionalField.ENUM_AND_SET_COLUMN_CHARSET: self._enum_charset,
            OptionalField.COLUMN_VISIBILITY: self._visibility,
            OptionalField.VECTOR_DIMENSIONALITY: self._dimensions,
        }
        self._character = CHARACTER[flavour]

    def _columns(self, kinds: frozenset[ColumnType] | set[ColumnType]) -> list[int]:
        return [index for index, kind in enumerate(self.types) if kind in kinds]

    def _bits(self, cursor: Cursor, columns: list[int]) -> dict[int, bool]:
        """One bit for each column, the first column's the highest of the first byte."""
        raw = cursor.take((len(columns) + 7) // 8, "a bit a column")
        return {column: bool(raw[at >> 3] & 0x80 >> (at & 7)) for at, column in enumerate(columns)}

    def _signedness(self, cursor: Cursor) -> None:
        self.found.unsigned = self._bits(cursor, self._columns(SIGNED_OR_NOT))

    def _visibility(self, cursor: Cursor) -> None:
        self.found.visible = self._bits(cursor, list(range(len(self.types))))

    def _collations(self, cursor: Cursor, columns: list[int]) -> None:
        for column in columns:
            self.found.collations[column] = cursor.lenenc("a collation")

    def _default_collation(self, cursor: Cursor, columns: list[int]) -> None:
        default = cursor.lenenc("the default collation")
        self.found.collations.update(dict.fromkeys(columns, default))
        while cursor.remaining:
            at = cursor.lenenc("a column's number")
            if at >= len(columns):
                raise EventDecodeError(f"a collation for column {at} of {len(columns)}")
            self.found.collations[columns[at]] = cursor.lenenc("a collation")

    def _default_charset(self, cursor: Cursor) -> None:
        self._default_collation(cursor, self._columns(self._character))

    def _column_charset(self, cursor: Cursor) -> None:
        self._collations(cursor, self._columns(self._character))

    def _default_enum_charset(self, cursor: Cursor) -> None:
        self._default_collation(cursor, self._columns({_T.ENUM, _T.SET}))

    def _enum_charset(self, cursor: Cursor) -> None:
        self._collations(cursor, self._columns({_T.ENUM, _T.SET}))

    def _names(self, cursor: Cursor) -> None:
        for column in range(len(self.types)):
            raw = cursor.lenenc_bytes("a column's name")
            self.found.names[column] = text(raw, "a column's name")

    def _members(self, cursor: Cursor, kind: ColumnType) -> None:
        for column in self._columns({kind}):
            count = cursor.lenenc("the number of members")
            if count > cursor.remaining:
                raise EventDecodeError(f"{count} members in {cursor.remaining} bytes")
            self.found.members[column] = tuple(
                cursor.lenenc_bytes("a member") for _ in range(count)
            )

    def _geometry_types(self, cursor: Cursor) -> None:
        for column in self._columns({_T.GEOMETRY}):
            self.found.geometry_types[column] = cursor.lenenc("a geometry's type")

    def _dimensions(self, cursor: Cursor) -> None:
        for column in self._columns({_T.VECTOR}):
            self.found.dimensions[column] = cursor.lenenc("a vector's dimensions")

    def _key_column(self, cursor: Cursor) -> int:
        column = cursor.lenenc("a key's column")
        if column >= len(self.types):
            raise EventDecodeError(f"the primary key's column {column} of {len(self.types)}")
        return column

    def _key(self, cursor: Cursor) -> None:
        columns = []
        while cursor.remaining:
            columns.append(self._key_column(cursor))
        self.found.key = tuple(columns)
        self.found.key_prefixes = (0,) * len(columns)

    def _key_with_prefix(self, cursor: Cursor) -> None:
        pairs = []
        while cursor.remaining:
            pairs.append((self._key_column(cursor), cursor.lenenc("a key's prefix")))
        self.found.key = tuple(column for column, _ in pairs)
        self.found.key_prefixes = tuple(prefix for _, prefix in pairs)
