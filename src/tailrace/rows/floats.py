"""FLOAT and DOUBLE: IEEE 754, little-endian."""

from __future__ import annotations

import struct
from typing import Final

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


def load_float(data: bytes) -> float:
    """FLOAT, 4 bytes, as the Python float of the same value."""
    return float(_FLOAT.unpack(data)[0])


def load_double(data: bytes) -> float:
    """DOUBLE, 8 bytes."""
    return float(_DOUBLE.unpack(data)[0])


def float32_text(value: float) -> str:
    """The shortest decimal text that is this 32-bit float and no other (as repr does for 64)."""
    packed = _FLOAT.pack(value)
    for digits in range(6, 10):  # 9 digits tell any two apart
        text = f"{value:.{digits}g}"
        if _FLOAT.pack(float(text)) == packed:
            break
    return repr(float(text))
