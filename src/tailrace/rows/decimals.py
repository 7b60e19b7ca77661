"""DECIMAL: packed groups of nine digits. Facts sheet section 3.1, "Decimal"."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tailrace.errors import EventDecodeError

if TYPE_CHECKING:
    from collections.abc import Callable

_LEFTOVER_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes of a group of 0 to 9 digits."""

_MAX_PRECISION: Final = 65
_MAX_SCALE: Final = 38  # MariaDB's; MySQL's is 30


def decimal_size(precision: int, scale: int) -> int:
    """Bytes of a DECIMAL(precision, scale); `EventDecodeError` if there is no such type."""
    whole = precision - scale
    if not (0 < precision <= _MAX_PRECISION and 0 <= scale <= _MAX_SCALE and whole >= 0):
        raise EventDecodeError(f"DECIMAL({precision},{scale}) does not exist")
    full = (whole // 9 + scale // 9) * 4
    return full + _LEFTOVER_BYTES[whole % 9] + _LEFTOVER_BYTES[scale % 9]


def decimal_text(data: bytes, precision: int, scale: int) -> str:
    """The value as ``SELECT`` prints it, all digits of its scale kept.

    ``data`` holds exactly `decimal_size` bytes. Raises `EventDecodeError` for any other length and
    for groups that hold more digits than they have.
    """
    return _texts(precision, scale)(data)


def decimal_loader(precision: int, scale: int) -> Callable[[bytes], Decimal]:
    """The loader of a DECIMAL(precision, scale) column."""
    text = _texts(precision, scale)
    return lambda data: Decimal(text(data))


@lru_cache(maxsize=256)
def _texts(precision: int, scale: int) -> Callable[[bytes], str]:
    """The function from packed bytes to text of one DECIMAL type."""
    size = decimal_size(precision, scale)
    whole = precision - scale
    # Leftover digits come first in the whole part, last in the fraction.
    digits = [whole % 9, *(9,) * (whole // 9), *(9,) * (scale // 9), scale % 9]
    groups, at = [], 0
    for count in filter(None, digits):
        end = at + _LEFTOVER_BYTES[count]
        groups.append((at, end, 10**count))
        at = end
    top, all_ones = 1 << (8 * size - 1), (1 << (8 * size)) - 1
    width = scale + 1

    def text(data: bytes) -> str:
        if len(data) != size:
            raise EventDecodeError(f"a DECIMAL of {size} bytes has {len(data)}")
        from_bytes = int.from_bytes
        sign = ""
        number = from_bytes(data, "big") ^ top  # turned, so that bytes sort as numbers do
        if number & top:
            sign = "-"
            number ^= all_ones
        packed = number.to_bytes(size, "big")
        value = 0
        for start, end, limit in groups:
            group = from_bytes(packed[start:end], "big")
            if group >= limit:
                raise EventDecodeError(f"a DECIMAL's group of digits below {limit} holds {group}")
            value = value * limit + group
        if not scale:
            return f"{sign}{value}"
        plain = str(value).zfill(width)
        return f"{sign}{plain[:-scale]}.{plain[-scale:]}"

    return text
