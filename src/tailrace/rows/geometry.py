"""GEOMETRY: the SRID (4 bytes, little-endian) and WKB, as ``SELECT`` gives it."""

from __future__ import annotations

import struct
from typing import Any, Final

from tailrace.errors import EventDecodeError, ValueRefused
from tailrace.rows.user_values import given_bytes

HEADER_SIZE: Final = 4 + 1 + 4
"""The SRID, WKB's byte order, WKB's type."""


def load_geometry(data: bytes) -> bytes:
    """The bytes as they are: SRID and WKB. `EventDecodeError` if they cannot be these."""
    if not _is_geometry(data):
        raise EventDecodeError(f"a GEOMETRY of {len(data)} bytes that is no SRID and WKB")
    return data


def dump_geometry(value: Any) -> bytes:
    """SRID and WKB, given as bytes; `ValueRefused` if they cannot be these."""
    data = given_bytes(value)
    if not _is_geometry(data):
        raise ValueRefused(
            f"{len(data)} bytes that are no geometry: give 4 bytes of SRID, little-endian, and WKB"
        )
    return data


def _is_geometry(data: bytes) -> bool:
    return not data or (len(data) >= HEADER_SIZE and data[4] <= 1)


def srid_of(value: bytes) -> int:
    """The spatial reference system of a geometry; 0 if it has none."""
    return int(struct.unpack_from("<I", value)[0]) if len(value) >= HEADER_SIZE else 0


def wkb_of(value: bytes) -> bytes:
    """The geometry's WKB, for any library that reads it."""
    return value[4:]
