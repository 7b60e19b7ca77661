"""VECTOR: 32-bit floats, little-endian. MySQL has a type for it, MariaDB a kind of VARBINARY."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import ColumnType, Flavour
from tailrace.errors import EventDecodeError, ValueRejected
from tailrace.printable import short_repr
from tailrace.values.family import Declaration, Format, TypeFamily, given_bytes, prefixed
from tailrace.values.floats import float32_json, given_float, pack_float
from tailrace.values.schema import BLOB_TYPES, Logical

if TYPE_CHECKING:
    from tailrace.events.column_metadata import ColumnSpec
    from tailrace.values.family import Declared, Dumper
    from tailrace.values.schema import Column


_DIMENSIONS: Final = 2048
"""Of a column that is declared without a number."""


def load_vector(data: bytes) -> tuple[float, ...]:
    """The vector's numbers; `EventDecodeError` if the bytes are not whole floats."""
    if len(data) % 4:
        raise EventDecodeError(f"a VECTOR of {len(data)} bytes, which is not a multiple of 4")
    return struct.unpack(f"<{len(data) // 4}f", data)


def dump_vector(value: Any) -> bytes:
    """A vector's bytes, from numbers (each to the nearest 32-bit float) or from such bytes.

    `ValueRejected` for anything else, for NaN and infinities, and for bytes that are not floats.
    """
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, memoryview, str)):
        return b"".join([pack_float(given_float(number)) for number in value])
    data = given_bytes(value)
    if len(data) % 4:
        raise ValueRejected(f"{short_repr(value)}: {len(data)} bytes, which are no 32-bit floats")
    return data


def _exact_dumper(column: Column) -> Dumper:
    """MariaDB's VECTOR has exactly the declared number of elements."""
    if column.type in BLOB_TYPES:
        return dump_vector
    size = column.metadata

    def dump_exact_vector(value: Any) -> bytes:
        data = dump_vector(value)
        if len(data) != size:
            raise ValueRejected(f"{len(data) // 4} numbers, the VECTOR has {size // 4}")
        return data

    return dump_exact_vector


def _json(value: tuple[float, ...]) -> str:
    return f"[{','.join(map(float32_json, value))}]"


def _spec(declared: Declared) -> ColumnSpec:
    """MySQL has a type for it; MariaDB logs the bytes of the numbers as a VARBINARY."""
    dimensions = declared.number(_DIMENSIONS, 1, 16383)
    if declared.flavour is Flavour.MARIADB:
        return declared.binary(ColumnType.VARCHAR, 4 * dimensions)
    return replace(declared.binary(ColumnType.VECTOR, 4), dimensions=dimensions)


_FITS: Final = frozenset(
    {
        ColumnType.VECTOR,
        ColumnType.VARCHAR,
        ColumnType.VAR_STRING,
        ColumnType.VARCHAR_COMPRESSED,
    }
)
FAMILY: Final = TypeFamily(
    widths={ColumnType.VECTOR: prefixed},
    formats={
        ColumnType.VECTOR: Format.of(load_vector, dump_vector, _json, bytes),
        Logical.VECTOR: Format(
            lambda _column: load_vector, _exact_dumper, lambda _column: _json, bytes
        ),
    },
    names={"vector": Declaration("vector", _FITS, _spec, Logical.VECTOR, numbers=(_DIMENSIONS,))},
)
