"""The column types of a table map and their metadata bytes (facts sheet 2.2, 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace.constants import ColumnType
from tailrace.errors import EventDecodeError, EventEncodeError, UnsupportedType
from tailrace.events.build import Builder, integer, made, member
from tailrace.events.fields import Cursor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_T = ColumnType
_NO_BYTES: Final = frozenset(
    {
        _T.DECIMAL,
        _T.TINY,
        _T.SHORT,
        _T.LONG,
        _T.NULL,
        _T.TIMESTAMP,
        _T.LONGLONG,
        _T.INT24,
        _T.DATE,
        _T.TIME,
        _T.DATETIME,
        _T.YEAR,
        _T.NEWDATE,
    }
)
_FSP: Final = frozenset({_T.TIMESTAMP2, _T.DATETIME2, _T.TIME2})
_LENGTH_PREFIXED: Final = frozenset(
    {
        _T.BLOB,
        _T.TINY_BLOB,
        _T.MEDIUM_BLOB,
        _T.LONG_BLOB,
        _T.JSON,
        _T.GEOMETRY,
        _T.VECTOR,
        _T.BLOB_COMPRESSED,
    }
)
_MAX_BYTES: Final = frozenset({_T.VARCHAR, _T.VAR_STRING, _T.VARCHAR_COMPRESSED})
_STRINGS: Final = frozenset({_T.STRING, _T.ENUM, _T.SET})


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """One column as a table map describes it. None means that the log does not say.

    ``type`` is the real one (ENUM and SET are logged as STRING). ``metadata`` is: for NEWDECIMAL
    ``precision << 8 | scale``; for VARCHAR, VAR_STRING, STRING, VARCHAR_COMPRESSED the maximum
    bytes;
    for ENUM and SET their bytes in a row; for BIT its bits; for TIME2, DATETIME2, TIMESTAMP2 the
    digits of the fraction; for BLOB, JSON, GEOMETRY, VECTOR, BLOB_COMPRESSED the bytes of the
    length
    before a value; for FLOAT and DOUBLE their bytes; else 0. ``collation`` is a collation id (63 is
    binary), ``members`` are ENUM's or SET's strings in the column's character set,
    ``geometry_type``
    is 0 (any) to 7 (collection), ``dimensions`` those of a VECTOR.
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


def read_types(codes: bytes, metadata: bytes) -> Iterator[tuple[ColumnType, int]]:
    """Each column's real type and normalised metadata. Raises EventDecodeError, UnsupportedType."""
    cursor = Cursor(metadata)
    for index, code in enumerate(codes):
        try:
            kind = _T(code)
        except ValueError:
            raise UnsupportedType(f"column {index + 1} has the unknown type {code}") from None
        yield _read_type(kind, cursor, f"column {index + 1} ({kind.name})")
    cursor.finish("the column metadata")


def _read_type(kind: ColumnType, cursor: Cursor, what: str) -> tuple[ColumnType, int]:
    if kind in _NO_BYTES:
        return kind, 0
    if kind in _STRINGS:
        return _read_string(cursor, what)
    if kind in _MAX_BYTES:
        return kind, cursor.u16(what)
    if kind in _FSP:
        return kind, _within(cursor.u8(what), 0, 6, what)
    if kind in _LENGTH_PREFIXED:
        return kind, _within(cursor.u8(what), 1, 4, what)
    if kind is _T.NEWDECIMAL:
        precision = _within(cursor.u8(what), 1, 65, what)
        return kind, precision << 8 | _within(cursor.u8(what), 0, min(precision, 38), what)
    if kind is _T.BIT:
        bits = _within(cursor.u8(what), 0, 7, what)
        return kind, _within(cursor.u8(what) * 8 + bits, 1, 64, what)
    if kind in {_T.FLOAT, _T.DOUBLE}:
        size = 4 if kind is _T.FLOAT else 8
        return kind, _within(cursor.u8(what), size, size, what)
    raise UnsupportedType(f"{what}: no table logs values of this type")


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
        if kind in _NO_BYTES:
            integer(column.metadata, what, 0, 0)
        elif kind in _STRINGS:
            most = 2 if kind is _T.ENUM else 8 if kind is _T.SET else 0x3FF
            size = integer(column.metadata, what, 0 if kind is _T.STRING else 1, most)
            out.u8(kind ^ (size & 0x300) >> 4, what)
            out.u8(size & 0xFF, what)
        elif kind in _MAX_BYTES:
            out.u16(column.metadata, what)
        elif kind in _FSP:
            out.u8(integer(column.metadata, what, 0, 6), what)
        elif kind in _LENGTH_PREFIXED:
            out.u8(integer(column.metadata, what, 1, 4), what)
        elif kind is _T.NEWDECIMAL:
            precision, scale = divmod(integer(column.metadata, what, 0, 0xFFFF), 0x100)
            out.u8(integer(precision, what, 1, 65), what)
            out.u8(integer(scale, what, 0, min(precision, 38)), what)
        elif kind is _T.BIT:
            size, bits = divmod(integer(column.metadata, what, 1, 64), 8)
            out.u8(bits, what)
            out.u8(size, what)
        elif kind in {_T.FLOAT, _T.DOUBLE}:
            size = 4 if kind is _T.FLOAT else 8
            out.u8(integer(column.metadata, what, size, size), what)
        else:
            raise EventEncodeError(f"{what}: no table logs values of this type")
    return bytes(codes), out.done()
