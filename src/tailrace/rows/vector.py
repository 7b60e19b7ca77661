"""VECTOR: 32-bit floats, little-endian. MySQL has a type for it, MariaDB a kind of VARBINARY."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from tailrace.errors import EventDecodeError, ValueRefused
from tailrace.printable import short_repr
from tailrace.rows.floats import given_float, pack_float
from tailrace.rows.user_values import given_bytes


def load_vector(data: bytes) -> tuple[float, ...]:
    """The vector's numbers; `EventDecodeError` if the bytes are not whole floats."""
    if len(data) % 4:
        raise EventDecodeError(f"a VECTOR of {len(data)} bytes, which is not a multiple of 4")
    return struct.unpack(f"<{len(data) // 4}f", data)


def dump_vector(value: Any) -> bytes:
    """A vector's bytes, from numbers (each to the nearest 32-bit float) or from such bytes.

    `ValueRefused` for anything else, for NaN and infinities, and for bytes that are not floats.
    """
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, memoryview, str)):
        return b"".join([pack_float(given_float(number)) for number in value])
    data = given_bytes(value)
    if len(data) % 4:
        raise ValueRefused(f"{short_repr(value)}: {len(data)} bytes, which are no 32-bit floats")
    return data
