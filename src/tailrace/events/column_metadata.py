"""The column types of a table map and their metadata bytes (facts sheet 2.2, 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace.constants import ColumnType
from tailrace.errors import EventDecodeError, EventEncodeError, UnsupportedType
from tailrace.events.fields import Builder, Cursor, integer, made, member
from tailrace.events.layout import U16

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.events.layout import Codec

_T = ColumnType
_STRINGS: Final = frozenset({_T.STRING, _T.ENUM, _T.SET})


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """One column as a table map describes it. None means that the log does not say.

    ``type`` is the real one (ENUM and SET are logged as STRING). ``metadata`` is: for NEWDECIMAL
    ``precision << 8 | scale``; for VARCHAR, VAR_STRING, STRING, VARCHAR_COMPRESSED the maximum
    bytes; for ENUM and SET their bytes in a row; for BIT its bits; for TIME2, DATETIME2, TIMESTAMP2
    the digits of the fraction; for BLOB, JSON, GEOMETRY, VECTOR, BLOB_COMPRESSED the bytes of the
    length before a value; for FLOAT and DOUBLE their bytes; else 0. ``collation`` is a collation id
    (63 is binary), ``members`` are ENUM's or SET's strings in the column's character set,
    ``geometry_type`` is 0 (any) to 7 (collection), ``dimensions`` those of a VECTOR.
    """

    type: ColumnType
    metadata: int
    nullable: bool
    unsigned: bool | None = None
    collation: int | None = None
    name: str | None = None
    members: tuple[bytes, ...] | None = None
    geometry_type: int | None = None
    visible: bool | None = None
    dimensions: int | None = None


@dataclass(frozen=True, slots=True)
class _Byte:
    """A byte between ``least`` and ``most``."""

    least: int
    most: int

    def read(self, cursor: Cursor, what: str) -> int:
        return _within(cursor.u8(what), self.least, self.most, what)

    def write(self, out: Builder, value: int, what: str) -> None:
        out.u8(integer(value, what, self.least, self.most), what)


class _Nothing:
    """No byte: 0."""

    def read(self, _cursor: Cursor, _what: str) -> int:
        return 0

    def write(self, _out: Builder, value: int, what: str) -> None:
        integer(value, what, 0, 0)


class _Decimal:
    """The precision, and the scale: digits in all and after the point."""

    def read(self, cursor: Cursor, what: str) -> int:
        precision = _within(cursor.u8(what), 1, 65, what)
        return precision << 8 | _within(cursor.u8(what), 0, min(precision, 38), what)

    def write(self, out: Builder, value: int, what: str) -> None:
        precision, scale = divmod(integer(value, what, 0, 0xFFFF), 0x100)
        out.u8(integer(precision, what, 1, 65), what)
        out.u8(integer(scale, what, 0, min(precision, 38)), what)


class _Bit:
    """Bits modulo 8, then whole bytes."""

    def read(self, cursor: Cursor, what: str) -> int:
        bits = _within(cursor.u8(what), 0, 7, what)
        return _within(cursor.u8(what) * 8 + bits, 1, 64, what)

    def write(self, out: Builder, value: int, what: str) -> None:
        size, bits = divmod(integer(value, what, 1, 64), 8)
        out.u8(bits, what)
        out.u8(size, what)


_NOTHING, _FSP, _LENGTH_SIZE = _Nothing(), _Byte(0, 6), _Byte(1, 4)
_METADATA: Final[dict[ColumnType, Codec]] = {
    _T.DECIMAL: _NOTHING,
    _T.TINY: _NOTHING,
    _T.SHORT: _NOTHING,
    _T.LONG: _NOTHING,
    _T.NULL: _NOTHING,
    _T.TIMESTAMP: _NOTHING,
    _T.LONGLONG: _NOTHING,
    _T.INT24: _NOTHING,
    _T.DATE: _NOTHING,
    _T.TIME: _NOTHING,
    _T.DATETIME: _NOTHING,
    _T.YEAR: _NOTHING,
    _T.NEWDATE: _NOTHING,
    _T.FLOAT: _Byte(4, 4),
    _T.DOUBLE: _Byte(8, 8),
    _T.NEWDECIMAL: _Decimal(),
    _T.BIT: _Bit(),
    _T.TIMESTAMP2: _FSP,
    _T.DATETIME2: _FSP,
    _T.TIME2: _FSP,
    _T.VARCHAR: U16,
    _T.VAR_STRING: U16,
    _T.VARCHAR_COMPRESSED: U16,
    _T.BLOB: _LENGTH_SIZE,
    _T.TINY_BLOB: _LENGTH_SIZE,
    _T.MEDIUM_BLOB: _LENGTH_SIZE,
    _T.LONG_BLOB: _LENGTH_SIZE,
    _T.BLOB_COMPRESSED: _LENGTH_SIZE,
    _T.JSON: _LENGTH_SIZE,
    _T.GEOMETRY: _LENGTH_SIZE,
    _T.VECTOR: _LENGTH_SIZE,
}
"""The metadata of each type that tables log; ENUM and SET are in STRING's."""


def read_types(codes: bytes, metadata: bytes) -> Iterator[tuple[ColumnType, int]]:
    """Each column's real type and normalised metadata. Raises EventDecodeError, UnsupportedType."""
    cursor = Cursor(metadata)
    for index, code in enumerate(codes):
        try:
            kind = _T(code)
        except ValueError:
            raise UnsupportedType(f"column {index + 1} has the unknown type {code}") from None
        what = f"column {index + 1} ({kind.name})"
        if kind in _STRINGS:
            yield _read_string(cursor, what)
        elif (codec := _METADATA.get(kind)) is not None:
            yield kind, codec.read(cursor, what)
        else:
            raise UnsupportedType(f"{what}: no table logs values of this type")
    cursor.finish("the column metadata")


def _read_string(cursor: Cursor, what: str) -> tuple[ColumnType, int]:
    """Split the two bytes of STRING into the real type and a length of up to 10 bits."""
    first, second = cursor.u8(what), cursor.u8(what)
    if first & 0x30 != 0x30:  # length bits 8 and 9, inverted
        return _real_string(first | 0x30, second | ((first & 0x30) ^ 0x30) << 4, what)
    return _real_string(first, second, what)


def _real_string(code: int, size: int, what: str) -> tuple[ColumnType, int]:
    if code == _T.ENUM:
        return _T.ENUM, _within(size, 1, 2, what)
    if code == _T.SET:
        return _T.SET, _within(size, 1, 8, what)
    if code in {_T.STRING, _T.VAR_STRING}:
        return _T(code), size
    raise EventDecodeError(f"{what}: real type {code}")


def _within(value: int, least: int, most: int, what: str) -> int:
    if not least <= value <= most:
        raise EventDecodeError(f"{what}: metadata {value} is not between {least} and {most}")
    return value


def write_types(columns: Sequence[ColumnSpec]) -> tuple[bytes, bytes]:
    """The type codes and metadata bytes of columns: the inverse of `read_types`.

    Raises EventEncodeError, which names the column.
    """
    codes = bytearray()
    out = Builder()
    for index, column in enumerate(columns):
        what = f"columns: column {index + 1}"
        kind = member(_T, made(column, ColumnSpec, what).type, what)
        what = f"{what} ({kind.name})"
        codes.append(_T.STRING if kind in _STRINGS else kind)
        if kind in _STRINGS:
            most = 2 if kind is _T.ENUM else 8 if kind is _T.SET else 0x3FF
            size = integer(column.metadata, what, 0 if kind is _T.STRING else 1, most)
            out.u8(kind ^ (size & 0x300) >> 4, what)
            out.u8(size & 0xFF, what)
        elif (codec := _METADATA.get(kind)) is not None:
            codec.write(out, column.metadata, what)
        else:
            raise EventEncodeError(f"{what}: no table logs values of this type")
    return bytes(codes), out.done()
