"""FLOAT and DOUBLE: IEEE 754, little-endian."""

from __future__ import annotations

import struct
from decimal import ROUND_HALF_EVEN, ROUND_UP, Context, Decimal
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
    bits = int.from_bytes(packed, "little") & 0x7FFFFFFF
    if bits and (bits < 1 << 23 or bits & 0x7FFFFF == 0):
        # Denormal: fewer than 6 digits may do. A power of two: the floats below lie nearer.
        exact = Decimal(value)
        for digits in range(1, 10):
            for rounding in (ROUND_HALF_EVEN, ROUND_UP):
                number = float(Context(prec=digits, rounding=rounding).plus(exact))
                if _FLOAT.pack(number) == packed:
                    return repr(number)
    for digits in range(6, 10):  # 9 digits tell any two apart
        text = f"{value:.{digits}g}"
        if _FLOAT.pack(float(text)) == packed:
            break
    return repr(float(text))
