"""From a table's columns to Arrow types, and to how the row kernel decodes each.

The types are those that Spark's Python sources and Parquet accept unchanged, so one mapping serves
Arrow, Parquet and Spark: unsigned integers become the next larger type (64-bit ones become
DECIMAL(20,0)), DECIMALs beyond 38 digits become text. ``docs/types.md`` lists them all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tailrace.columns.frames import plan as k
from tailrace.constants import ColumnType as T
from tailrace.errors import UnsupportedType
from tailrace.rows.loaders import COMPRESSED_TYPES, width_of
from tailrace.rows.schema import Logical

if TYPE_CHECKING:
    from tailrace.rows.schema import Column


class Finish(Enum):
    """The bulk work left once the kernel has written a column's bytes."""

    NOTHING = auto()
    CHARSET = auto()
    JSONB = auto()
    VECTOR = auto()
    GEOMETRY = auto()
    """A check of the first bytes; the bytes stay unchanged."""
    DECOMPRESS = auto()
    """MariaDB's compressed columns, before the work that their uncompressed bytes need."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How one column is decoded.

    ``kind`` and ``argument`` go to the kernel; ``raw`` is the Arrow type that it writes and
    ``type`` the one after ``finish``; ``skip`` and ``skip_argument`` skip the column.
    ``least`` is the fewest bytes that a value takes in a row, ``most`` the longest text that is
    made
    from one (0 where text is copied).
    """

    type: pa.DataType
    raw: pa.DataType
    kind: int
    argument: int
    skip: int
    skip_argument: int
    least: int
    most: int = 0
    finish: Finish = Finish.NOTHING


_UINT64: Final = pa.decimal128(20, 0)
_LOCAL: Final = pa.timestamp("us")
_UTC: Final = pa.timestamp("us", "UTC")
_DURATION: Final = pa.duration("us")
_DECIMAL_TEXT: Final = 68
"""Room that the kernel needs before it writes a decimal as text."""
_DIGITS: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)

# type: (signed kind, its Arrow type, unsigned kind, its Arrow type, bytes in a row)
_INTEGERS: Final = {
    T.TINY: (k.INT8, pa.int8(), k.UINT8, pa.int16(), 1),
    T.SHORT: (k.INT16, pa.int16(), k.UINT16, pa.int32(), 2),
    T.INT24: (k.INT24, pa.int32(), k.UINT24, pa.int32(), 3),
    T.LONG: (k.INT32, pa.int32(), k.UINT32, pa.int64(), 4),
    T.LONGLONG: (k.INT64, pa.int64(), k.UINT64, _UINT64, 8),
}
_DATES: Final = frozenset({T.DATE, T.NEWDATE})
# type: (kind, Arrow type)
_TEMPORAL: Final = {
    T.TIME: (k.OLD_TIME, _DURATION),
    T.DATETIME: (k.OLD_DATETIME, _LOCAL),
    T.TIMESTAMP: (k.OLD_TIMESTAMP, _UTC),
    T.TIME2: (k.TIME, _DURATION),
    T.DATETIME2: (k.DATETIME, _LOCAL),
    T.TIMESTAMP2: (k.TIMESTAMP, _UTC),
}
_UTF8: Final = frozenset({"utf8mb4", "utf8mb3", "ascii"})
_MADE: Final = {
    Logical.UUID: (k.UUID, 48),
    Logical.INET4: (k.INET4, 48),
    Logical.INET6: (k.INET6, 48),
}


def plan_of(column: Column) -> Plan:
    """How a column is decoded. Raises `UnsupportedType` for a type that no log has rows of.

    `tailrace.rows.image.check_columns` says which metadata is allowed.
    """
    kind = column.type
    if kind in _INTEGERS:
        signed, small, unsigned, large, size = _INTEGERS[kind]
        if column.unsigned:
            return _fixed(large, unsigned, 0, size)
        return _fixed(small, signed, 0, size)
    if kind in _DATES:
        return _fixed(pa.date32(), k.DATE, 0, 3)
    if kind in _TEMPORAL:
        code, arrow = _TEMPORAL[kind]
        return _fixed(arrow, code, column.metadata, width_of(column).size)
    match kind:
        case T.FLOAT:
            return _fixed(pa.float32(), k.FLOAT32, 0, 4)
        case T.DOUBLE:
            return _fixed(pa.float64(), k.INT64, 0, 8)
        case T.YEAR:
            return _fixed(pa.int16(), k.YEAR, 0, 1)
        case T.NULL:
            return Plan(pa.null(), pa.int8(), k.NOTHING, 0, k.SKIP_FIXED, 0, 0)
        case T.NEWDECIMAL:
            return _decimal(column)
        case T.BIT:
            size = (column.metadata + 7) // 8
            if size == 8:
                return _fixed(_UINT64, k.BITS64, 8, 8)
            return _fixed(pa.int64(), k.BITS, size, size)
        case T.ENUM:
            return _members(column, k.ENUM_NAME, k.LE_BYTES, pa.int32())
        case T.SET:
            if column.metadata == 8:
                return _members(column, k.SET_NAMES, k.UINT64, _UINT64)
            return _members(column, k.SET_NAMES, k.LE_BYTES64, pa.int64())
        case _:
            return _bytes(column)


def stored_plan_of(column: Column) -> Plan:
    """How a column is decoded to the form in the log: text and documents as their bytes, BINARY
    without
    the zeros at its end, members as numbers. Raises like `plan_of`, and also for MariaDB's
    compressed
    columns.
    """
    if column.type in COMPRESSED_TYPES:
        raise UnsupportedType(f"column {column.name}: compressed values are not decoded here")
    if column.type in {T.ENUM, T.SET}:
        return plan_of(replace(column, members=None))
    plan = plan_of(column)
    if plan.kind not in {k.STRING, k.PADDED} or plan.finish is Finish.GEOMETRY:
        return plan
    prefix = width_of(column).prefix
    return Plan(pa.binary(), pa.binary(), k.STRING, prefix, k.SKIP_VARIABLE, prefix, prefix)


def _fixed(arrow: pa.DataType, kind: int, argument: int, size: int) -> Plan:
    return Plan(arrow, arrow, kind, argument, k.SKIP_FIXED, size, size)


def _decimal(column: Column) -> Plan:
    precision, scale = column.metadata >> 8, column.metadata & 255
    whole = precision - scale
    size = whole // 9 * 4 + _DIGITS[whole % 9] + scale // 9 * 4 + _DIGITS[scale % 9]
    argument = whole | scale << 8 | size << 16 | whole % 9 << 24
    if precision <= 38:
        arrow = pa.decimal128(precision, scale)
        return Plan(arrow, arrow, k.DECIMAL, argument, k.SKIP_FIXED, size, size)
    text = pa.string()
    return Plan(text, text, k.DECIMAL_TEXT, argument, k.SKIP_FIXED, size, size, precision + 3)


def _members(column: Column, named: int, plain: int, number: pa.DataType) -> Plan:
    size = column.metadata
    if column.members is None:
        return Plan(number, number, plain, size, k.SKIP_FIXED, size, size)
    names = [len(name.encode("utf-8", "surrogatepass")) for name in column.members]
    most = max(names, default=0) if named == k.ENUM_NAME else sum(names) + len(names)
    argument = size | len(names) << 8
    return Plan(pa.string(), pa.string(), named, argument, k.SKIP_FIXED, size, size, max(most, 1))


def _bytes(column: Column) -> Plan:
    """Strings, blobs, and types logged like them."""
    compressed = column.type in COMPRESSED_TYPES
    prefix = width_of(column).prefix

    def plan(
        arrow: pa.DataType,
        raw: pa.DataType,
        finish: Finish = Finish.NOTHING,
        kind: int = k.STRING,
        argument: int = prefix,
        most: int = 0,
    ) -> Plan:
        finish = Finish.DECOMPRESS if compressed else finish
        raw = pa.binary() if compressed else raw
        return Plan(arrow, raw, kind, argument, k.SKIP_VARIABLE, prefix, prefix, most, finish)

    logical = column.logical
    if logical in _MADE:
        kind, most = _MADE[logical]
        return plan(pa.string(), pa.string(), kind=kind, argument=0, most=most)
    if logical is Logical.VECTOR:
        return plan(pa.list_(pa.float32()), pa.binary(), Finish.VECTOR)
    if logical is Logical.JSON and column.type is T.JSON:
        return plan(pa.string(), pa.binary(), Finish.JSONB)
    if logical in {Logical.TEXT, Logical.JSON}:
        return plan(pa.string(), pa.binary(), Finish.CHARSET)
    if logical is Logical.GEOMETRY:
        return plan(pa.binary(), pa.binary(), Finish.GEOMETRY)
    if column.type is T.STRING:
        width = column.metadata
        return plan(
            pa.binary(), pa.binary(), kind=k.PADDED, argument=prefix | width << 8, most=width
        )
    return plan(pa.binary(), pa.binary())
