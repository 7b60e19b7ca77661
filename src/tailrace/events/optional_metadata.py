"""The optional metadata at a table map's end: signs, collations, names, keys (facts sheet 2.2)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tailrace.constants import ColumnType, Flavour
from tailrace.errors import EventDecodeError, EventEncodeError
from tailrace.events.fields import Builder, Cursor, binary, integer, made, parts
from tailrace.events.layout import LENENC, Text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from tailrace.events.column_metadata import ColumnSpec
    from tailrace.events.layout import Codec

_T = ColumnType
_SIGNED_OR_NOT: Final = frozenset(
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
_CHARACTER: Final = {
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


_O = OptionalField
_BINARY: Final = 63
_KNOWN: Final = frozenset(_O)
_ENUMS: Final = frozenset({_T.ENUM, _T.SET})
_EVERY: Final = frozenset(_T)

Said = list[tuple[str, Any]]
"""A property of columns: for each what errors call it, and the value."""


class _Bits:
    """One bit for each column, the first column's the highest of the first byte."""

    def read(self, cursor: Cursor, count: int) -> list[bool]:
        raw = cursor.take((count + 7) // 8, "a bit a column")
        return [bool(raw[at >> 3] & 0x80 >> (at & 7)) for at in range(count)]

    def write(self, out: Builder, said: Said, _default: Any) -> None:
        raw = bytearray((len(said) + 7) // 8)
        for at, (what, value) in enumerate(said):
            if made(value, bool, what):
                raw[at >> 3] |= 0x80 >> (at & 7)
        out.data += raw


@dataclass(frozen=True, slots=True)
class _Each:
    """A value for each column."""

    codec: Codec
    what: str

    def read(self, cursor: Cursor, count: int) -> list[Any]:
        return [self.codec.read(cursor, self.what) for _ in range(count)]

    def write(self, out: Builder, said: Said, _default: Any) -> None:
        for what, value in said:
            self.codec.write(out, value, what)


class _Collations:
    """The default collation; then index and collation of each column that has another."""

    def read(self, cursor: Cursor, count: int) -> list[int]:
        found = [cursor.lenenc("the default collation")] * count
        while cursor.remaining:
            at = cursor.lenenc("a column's number")
            if at >= count:
                raise EventDecodeError(f"a collation for column {at} of {count}")
            found[at] = cursor.lenenc("a collation")
        return found

    def write(self, out: Builder, said: Said, default: Any) -> None:
        out.lenenc(default, "columns")
        for at, (what, value) in enumerate(said):
            if value != default:
                out.lenenc(at, what)
                out.lenenc(value, what)


class _Members:
    """The strings of an ENUM or SET after their number."""

    def read(self, cursor: Cursor, what: str) -> tuple[bytes, ...]:
        count = cursor.lenenc("the number of members")
        if count > cursor.remaining:
            raise EventDecodeError(f"{count} members in {cursor.remaining} bytes")
        return tuple(cursor.lenenc_bytes(what) for _ in range(count))

    def write(self, out: Builder, value: Any, what: str) -> None:
        out.lenenc(len(parts(value, None, what)), what)
        for each in value:
            out.lenenc_bytes(each, what)


class _Property(NamedTuple):
    """A property of columns: whose, and its codec. Collations count other types by flavour."""

    name: str
    kinds: AbstractSet[ColumnType] | None
    codec: _Bits | _Each | _Collations

    def columns(self, types: Sequence[ColumnType], flavour: Flavour) -> list[int]:
        """The indexes of the columns that have it."""
        kinds = _CHARACTER[flavour] if self.kinds is None else self.kinds
        return [index for index, kind in enumerate(types) if kind in kinds]


_COLLATIONS: Final = _Collations()
_EACH_COLLATION: Final = _Each(LENENC, "a collation")
_NAMES: Final = _Each(Text(LENENC, "a column's name", 0xFF), "a column's name")
_PROPERTIES: Final[dict[int, _Property]] = {
    _O.SIGNEDNESS: _Property("unsigned", _SIGNED_OR_NOT, _Bits()),
    _O.DEFAULT_CHARSET: _Property("collation", None, _COLLATIONS),
    _O.COLUMN_CHARSET: _Property("collation", None, _EACH_COLLATION),
    _O.GEOMETRY_TYPE: _Property("geometry_type", {_T.GEOMETRY}, _Each(LENENC, "a geometry's type")),
    _O.VECTOR_DIMENSIONALITY: _Property(
        "dimensions", {_T.VECTOR}, _Each(LENENC, "a vector's dimensions")
    ),
    _O.COLUMN_NAME: _Property("name", _EVERY, _NAMES),
    _O.ENUM_AND_SET_DEFAULT_CHARSET: _Property("collation", _ENUMS, _COLLATIONS),
    _O.ENUM_AND_SET_COLUMN_CHARSET: _Property("collation", _ENUMS, _EACH_COLLATION),
    _O.SET_STR_VALUE: _Property("members", {_T.SET}, _Each(_Members(), "a member")),
    _O.ENUM_STR_VALUE: _Property("members", {_T.ENUM}, _Each(_Members(), "a member")),
    _O.COLUMN_VISIBILITY: _Property("visible", _EVERY, _Bits()),
}
"""What the fields say of columns."""
_IN_ORDER: Final = (
    _O.SIGNEDNESS,
    _O.DEFAULT_CHARSET,
    _O.GEOMETRY_TYPE,
    _O.VECTOR_DIMENSIONALITY,
    _O.COLUMN_NAME,
    _O.ENUM_AND_SET_DEFAULT_CHARSET,
    _O.SET_STR_VALUE,
    _O.ENUM_STR_VALUE,
    _O.SIMPLE_PRIMARY_KEY,
    _O.COLUMN_VISIBILITY,
)
"""The order in which both servers write them (tests/corpus)."""
_OTHER_FORM: Final = {
    _O.COLUMN_CHARSET: _O.DEFAULT_CHARSET,
    _O.ENUM_AND_SET_COLUMN_CHARSET: _O.ENUM_AND_SET_DEFAULT_CHARSET,
    _O.PRIMARY_KEY_WITH_PREFIX: _O.SIMPLE_PRIMARY_KEY,
}
"""For the second form of a field, the first form, which says the same."""


@dataclass(slots=True)
class OptionalMetadata:
    """The content of the optional fields.

    ``columns`` holds for each column the properties that are given, by their names in `ColumnSpec`;
    ``key`` the primary key's column indexes, ``key_prefixes`` for each the number of characters in
    the key (0: all); ``unknown`` the types of fields that are not known.
    """

    columns: list[dict[str, Any]]
    key: tuple[int, ...] | None = None
    key_prefixes: tuple[int, ...] | None = None
    unknown: tuple[int, ...] = ()


def read_optional(raw: bytes, types: Sequence[ColumnType], flavour: Flavour) -> OptionalMetadata:
    """Read the fields (type u8, length, value) to the end. Raises EventDecodeError."""
    found = OptionalMetadata([{} for _ in types])
    cursor = Cursor(raw)
    while cursor.remaining:
        code = cursor.u8("a field's type")
        size = cursor.lenenc("a field's length")
        start = cursor.skip(size, "a field")
        value = Cursor(raw, start, cursor.pos)
        if (said := _PROPERTIES.get(code)) is not None:
            columns = said.columns(types, flavour)
            for column, each in zip(columns, said.codec.read(value, len(columns)), strict=True):
                found.columns[column][said.name] = each
        elif code in {_O.SIMPLE_PRIMARY_KEY, _O.PRIMARY_KEY_WITH_PREFIX}:
            pairs = _read_key(value, len(types), prefixes=code == _O.PRIMARY_KEY_WITH_PREFIX)
            found.key = tuple(column for column, _ in pairs)
            found.key_prefixes = tuple(prefix for _, prefix in pairs)
        else:
            found.unknown += (code,)
            continue
        value.finish(OptionalField(code).name)
    return found


def _read_key(cursor: Cursor, columns: int, *, prefixes: bool) -> list[tuple[int, int]]:
    pairs = []
    while cursor.remaining:
        column = cursor.lenenc("a key's column")
        if column >= columns:
            raise EventDecodeError(f"the primary key's column {column} of {columns}")
        pairs.append((column, cursor.lenenc("a key's prefix") if prefixes else 0))
    return pairs


def write_optional(
    columns: Sequence[ColumnSpec],
    key: Sequence[int] | None,
    prefixes: Sequence[int] | None,
    flavour: Flavour,
    like: bytes = b"",
) -> bytes:
    """The optional metadata for what the columns and the key say.

    ``like`` holds optional metadata that was read: fields keep its order and their form in it, and
    unknown fields keep their bytes. If one column has a property, all columns of its kind must have
    it. Raises EventEncodeError.
    """
    key, prefixes = _checked_key(key, prefixes, len(columns))
    left = list(_IN_ORDER)
    fields = [*_fields(binary(like, "optional_metadata")), *((code, None) for code in _IN_ORDER)]
    out = Builder()
    for code, read in fields:
        if code not in _KNOWN:
            _field(out, code, read or b"")
            continue
        first = _OTHER_FORM.get(_O(code), _O(code))
        if first not in left:
            continue
        left.remove(first)
        if first is _O.SIMPLE_PRIMARY_KEY:
            _write_key(out, key, prefixes, simple=code == first)
            continue
        said = _said(_PROPERTIES[first], columns, flavour)
        if said or (said is not None and read is not None):
            _write_property(out, code, said, read)
    return out.done()


def _fields(raw: bytes) -> list[tuple[int, bytes | None]]:
    """Type and bytes of each field. Raises EventEncodeError."""
    cursor = Cursor(raw)
    fields: list[tuple[int, bytes | None]] = []
    try:
        while cursor.remaining:
            fields.append((cursor.u8("a field's type"), cursor.lenenc_bytes("a field")))
    except EventDecodeError as error:
        raise EventEncodeError(f"optional_metadata: {error.message}") from None
    return fields


def _field(out: Builder, code: int, value: bytes) -> None:
    out.u8(code, "optional_metadata")
    out.lenenc_bytes(value, "optional_metadata")


def _said(which: _Property, columns: Sequence[ColumnSpec], flavour: Flavour) -> Said | None:
    """The property of the columns that have it, with a label for each; None if none is given."""
    said = [
        (f"columns: column {index + 1}, {which.name}", getattr(columns[index], which.name))
        for index in which.columns([column.type for column in columns], flavour)
    ]
    silent = [what for what, value in said if value is None]
    if said and len(silent) == len(said):
        return None
    if silent:
        raise EventEncodeError(f"{silent[0]}: it is missing, and other columns have it")
    return said


def _write_property(out: Builder, code: int, said: Said, read: bytes | None) -> None:
    """Write a field; collations in the form that was read, else in the form that servers use."""
    default: int | None = None
    if _PROPERTIES[code].name == "collation":
        counts = Counter(integer(each, what, 0, 0xFFFF) for what, each in said)
        default, most = counts.most_common(1)[0] if counts else (_BINARY, 0)
        if read is None and 2 * (len(said) - most) >= len(said):
            code += 1  # one for each column
        elif read is not None and _PROPERTIES[code].codec is _COLLATIONS:
            first = _first_number(read)
            default = first if first in counts or not counts else default
    value = Builder()
    _PROPERTIES[code].codec.write(value, said, default)
    _field(out, code, value.done())


def _first_number(raw: bytes) -> int:
    try:
        return Cursor(raw).lenenc("a collation")
    except EventDecodeError as error:
        raise EventEncodeError(f"optional_metadata: {error.message}") from None


def _write_key(
    out: Builder, key: Sequence[int] | None, prefixes: Sequence[int], *, simple: bool
) -> None:
    if key is None:
        return
    simple = simple and not any(prefixes)
    value = Builder()
    for column, prefix in zip(key, prefixes, strict=True):
        value.lenenc(column, "primary_key")
        if not simple:
            value.lenenc(prefix, "primary_key_prefixes")
    code = _O.SIMPLE_PRIMARY_KEY if simple else _O.PRIMARY_KEY_WITH_PREFIX
    _field(out, code, value.done())


def _checked_key(
    key: Sequence[int] | None, prefixes: Sequence[int] | None, columns: int
) -> tuple[Sequence[int] | None, Sequence[int]]:
    if key is None:
        if prefixes is not None:
            raise EventEncodeError("primary_key: it is missing, but primary_key_prefixes is given")
        return None, ()
    for numbers, what in ((key, "primary_key"), (prefixes or (), "primary_key_prefixes")):
        parts(numbers, None, what)
    for column in key:
        integer(column, "primary_key", 0, columns - 1)
    if prefixes is None:
        return key, (0,) * len(key)
    if len(prefixes) != len(key):
        raise EventEncodeError(
            f"primary_key_prefixes: {len(prefixes)} where {len(key)} columns make the key"
        )
    for prefix in prefixes:
        integer(prefix, "primary_key_prefixes", 0, (1 << 64) - 1)
    return key, prefixes
