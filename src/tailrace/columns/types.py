"""From a table's columns to Arrow types, and to how the row kernel decodes each.

The types are those that Spark's Python sources and Parquet accept unchanged, so one mapping serves
Arrow, Parquet and Spark: unsigned integers become the next larger type (64-bit ones become
DECIMAL(20,0)), DECIMALs beyond 38 digits become text. ``docs/types.md`` lists them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tailrace.columns.frames import plan as k
from tailrace.constants import ColumnType as T
from tailrace.errors import UnsupportedType
from tailrace.values import compressed
from tailrace.values.registry import key_of, width_of
from tailrace.values.schema import Logical

if TYPE_CHECKING:
    from tailrace.values.family import Key, Width
    from tailrace.values.schema import Column


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
    ``type`` the one after ``finish``; ``skip`` and ``skip_argument`` skip the column. ``least`` is
    the fewest bytes that a value takes in a row, ``most`` the longest text that is made from one (0
    where text is copied).
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
_NETWORK_TEXT: Final = 48
"""Room that the kernel needs before it writes a UUID or an address as text."""
_Planner = Callable[["Column", "Width"], Plan]


def plan_of(column: Column) -> Plan:
    """How a column is decoded. Raises `UnsupportedType` for a type that no log has rows of.

    `tailrace.values.image.check_columns` says which metadata is allowed.
    """
    width = width_of(column)
    return PLANS[key_of(column)](column, width)


def stored_plan_of(column: Column) -> Plan:
    """How a column is decoded to the form in the log: text and documents as their bytes, BINARY
    without the zeros at its end, members as numbers.

    Raises like `plan_of`, and also for MariaDB's compressed columns.
    """
    if column.type in compressed.TYPES:
        raise UnsupportedType(f"column {column.name}: compressed values are not decoded here")
    if column.type in {T.ENUM, T.SET}:
        return plan_of(replace(column, members=None))
    plan = plan_of(column)
    if plan.kind not in {k.STRING, k.PADDED} or plan.finish is Finish.GEOMETRY:
        return plan
    prefix = width_of(column).prefix
    return Plan(pa.binary(), pa.binary(), k.STRING, prefix, k.SKIP_VARIABLE, prefix, prefix)


def _plan(arrow: pa.DataType, kind: int, argument: int, size: int, most: int = 0) -> Plan:
    return Plan(arrow, arrow, kind, argument, k.SKIP_FIXED, size, size, most)


def _fixed(arrow: pa.DataType, kind: int) -> _Planner:
    return lambda _column, width: _plan(arrow, kind, 0, width.size)


def _integer(signed: int, small: pa.DataType, unsigned: int, large: pa.DataType) -> _Planner:
    return lambda column, width: (
        _plan(large, unsigned, 0, width.size)
        if column.unsigned
        else _plan(small, signed, 0, width.size)
    )


def _fractional(arrow: pa.DataType, kind: int) -> _Planner:
    return lambda column, width: _plan(arrow, kind, column.metadata, width.size)


def _decimal(column: Column, width: Width) -> Plan:
    precision, scale = divmod(column.metadata, 256)
    whole = precision - scale
    argument = whole | scale << 8 | width.size << 16 | whole % 9 << 24
    if precision <= 38:
        return _plan(pa.decimal128(precision, scale), k.DECIMAL, argument, width.size)
    return _plan(pa.string(), k.DECIMAL_TEXT, argument, width.size, precision + 3)


def _bit(_column: Column, width: Width) -> Plan:
    if width.size == 8:
        return _plan(_UINT64, k.BITS64, 8, 8)
    return _plan(pa.int64(), k.BITS, width.size, width.size)


def _enum(column: Column, width: Width) -> Plan:
    if column.members is None:
        return _plan(pa.int32(), k.LE_BYTES, width.size, width.size)
    sizes = _sizes(column)
    return _names(k.ENUM_NAME, width.size, sizes, max(sizes, default=0))


def _set(column: Column, width: Width) -> Plan:
    if column.members is not None:
        sizes = _sizes(column)
        return _names(k.SET_NAMES, width.size, sizes, sum(sizes) + len(sizes))
    if width.size == 8:
        return _plan(_UINT64, k.UINT64, 8, 8)
    return _plan(pa.int64(), k.LE_BYTES64, width.size, width.size)


def _sizes(column: Column) -> list[int]:
    return [len(name.encode("utf-8", "surrogatepass")) for name in column.members or ()]


def _names(kind: int, size: int, sizes: list[int], most: int) -> Plan:
    return _plan(pa.string(), kind, size | len(sizes) << 8, size, max(most, 1))


def _string(arrow: pa.DataType, finish: Finish = Finish.NOTHING) -> _Planner:
    """Strings, blobs, and types logged like them: ``finish`` makes ``arrow`` of their bytes."""

    def plan(column: Column, width: Width) -> Plan:
        work = Finish.DECOMPRESS if column.type in compressed.TYPES else finish
        prefix = width.prefix
        return Plan(arrow, pa.binary(), k.STRING, prefix, k.SKIP_VARIABLE, prefix, prefix, 0, work)

    return plan


def _network(kind: int) -> _Planner:
    return lambda _column, width: Plan(
        pa.string(),
        pa.string(),
        kind,
        0,
        k.SKIP_VARIABLE,
        width.prefix,
        width.prefix,
        _NETWORK_TEXT,
    )


def _binary(column: Column, width: Width) -> Plan:
    """BINARY gets the zeros back that the log leaves out."""
    plan = _bytes(column, width)
    if column.type is not T.STRING:
        return plan
    argument = width.prefix | width.most << 8
    return replace(plan, kind=k.PADDED, argument=argument, most=width.most)


_bytes: Final = _string(pa.binary())
_vector: Final = _string(pa.list_(pa.float32()), Finish.VECTOR)
_geometry: Final = _string(pa.binary(), Finish.GEOMETRY)
_text: Final = _string(pa.string(), Finish.CHARSET)
PLANS: Final[dict[Key, _Planner]] = {
    T.NULL: lambda _column, _width: replace(_plan(pa.null(), k.NOTHING, 0, 0), raw=pa.int8()),
    T.TINY: _integer(k.INT8, pa.int8(), k.UINT8, pa.int16()),
    T.SHORT: _integer(k.INT16, pa.int16(), k.UINT16, pa.int32()),
    T.INT24: _integer(k.INT24, pa.int32(), k.UINT24, pa.int32()),
    T.LONG: _integer(k.INT32, pa.int32(), k.UINT32, pa.int64()),
    T.LONGLONG: _integer(k.INT64, pa.int64(), k.UINT64, _UINT64),
    T.FLOAT: _fixed(pa.float32(), k.FLOAT32),
    T.DOUBLE: _fixed(pa.float64(), k.INT64),
    T.NEWDECIMAL: _decimal,
    T.BIT: _bit,
    T.YEAR: _fixed(pa.int16(), k.YEAR),
    T.DATE: _fixed(pa.date32(), k.DATE),
    T.NEWDATE: _fixed(pa.date32(), k.DATE),
    T.TIME: _fractional(_DURATION, k.OLD_TIME),
    T.DATETIME: _fractional(_LOCAL, k.OLD_DATETIME),
    T.TIMESTAMP: _fractional(_UTC, k.OLD_TIMESTAMP),
    T.TIME2: _fractional(_DURATION, k.TIME),
    T.DATETIME2: _fractional(_LOCAL, k.DATETIME),
    T.TIMESTAMP2: _fractional(_UTC, k.TIMESTAMP),
    T.ENUM: _enum,
    T.SET: _set,
    T.JSON: _string(pa.string(), Finish.JSONB),
    T.GEOMETRY: _geometry,
    T.VECTOR: _vector,
    Logical.PLAIN: _binary,
    Logical.BINARY: _binary,
    Logical.TEXT: _text,
    Logical.JSON: _text,
    Logical.UUID: _network(k.UUID),
    Logical.INET4: _network(k.INET4),
    Logical.INET6: _network(k.INET6),
    Logical.GEOMETRY: _geometry,
    Logical.VECTOR: _vector,
}
"""By `tailrace.values.registry.key_of`: how a column of the type is decoded."""
