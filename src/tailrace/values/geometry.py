"""GEOMETRY: the SRID (4 bytes, little-endian) and WKB, as ``SELECT`` gives it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import ColumnType, Flavour
from tailrace.errors import EventDecodeError, ValueRejected
from tailrace.values.charsets import BINARY
from tailrace.values.family import (
    Declaration,
    Format,
    TypeFamily,
    base64_json,
    given_bytes,
    prefixed,
)
from tailrace.values.schema import Logical

if TYPE_CHECKING:
    from tailrace.events.column_metadata import ColumnSpec
    from tailrace.values.family import Declared

HEADER_SIZE: Final = 4 + 1 + 4
"""The SRID, WKB's byte order, WKB's type."""


def load_geometry(data: bytes) -> bytes:
    """The bytes as they are: SRID and WKB. `EventDecodeError` if they cannot be these."""
    if not _is_geometry(data):
        raise EventDecodeError(f"a GEOMETRY of {len(data)} bytes that is no SRID and WKB")
    return data


def dump_geometry(value: Any) -> bytes:
    """SRID and WKB, given as bytes; `ValueRejected` if they cannot be these."""
    data = given_bytes(value)
    if not _is_geometry(data):
        raise ValueRejected(
            f"{len(data)} bytes that are no geometry: give 4 bytes of SRID, little-endian, and WKB"
        )
    return data


def _is_geometry(data: bytes) -> bool:
    return not data or (len(data) >= HEADER_SIZE and data[4] <= 1)


_SHAPES: Final = (
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
)


def _declared(shape: int, name: str) -> Declaration:
    def spec(declared: Declared) -> ColumnSpec:
        made = replace(declared.spec(ColumnType.GEOMETRY, 4), geometry_type=shape)
        return made if declared.flavour is Flavour.MYSQL else replace(made, collation=BINARY)

    return Declaration(name, frozenset({ColumnType.GEOMETRY}), spec, Logical.GEOMETRY)


_FORMAT: Final = Format.of(load_geometry, dump_geometry, base64_json)
FAMILY: Final = TypeFamily(
    widths={ColumnType.GEOMETRY: prefixed},
    formats={ColumnType.GEOMETRY: _FORMAT, Logical.GEOMETRY: _FORMAT},
    names={
        **{name: _declared(shape, name) for shape, name in enumerate(_SHAPES)},
        "geomcollection": _declared(len(_SHAPES) - 1, _SHAPES[-1]),
    },
)
