"""VECTOR: 32-bit floats, little-endian. MySQL has a type for it, MariaDB a kind of VARBINARY."""

from __future__ import annotations

import struct

from tailrace.errors import EventDecodeError


def load_vector(data: bytes) -> tuple[float, ...]:
    """The vector's numbers; `EventDecodeError` if the bytes are not whole floats."""
    if len(data) % 4:
        raise EventDecodeError(f"a VECTOR of {len(data)} bytes, which is no multiple of 4")
    return struct.unpack(f"<{len(data) // 4}f", data)
