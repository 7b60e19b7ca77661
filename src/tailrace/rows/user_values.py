"""What a user gives to be written, before it is known to be a value of its column."""

from __future__ import annotations

from decimal import Decimal
from operator import index
from typing import Any, Final

from tailrace.errors import ValueRefused
from tailrace.printable import short_repr

_MOST_DIGITS: Final = 20
"""Digits of the largest number of 64 bits."""
_BYTES: Final = (bytes, bytearray, memoryview)


def whole_number(value: Any) -> int:
    """An int out of anything that is a whole number by type, or a Decimal that is one.

    (Arrow has unsigned 64-bit columns as decimals.) `ValueRefused` for floats, text and all else.
    """
    if isinstance(value, Decimal) and value.is_finite() and value.adjusted() < _MOST_DIGITS:
        whole = value.to_integral_value()
        if whole == value:
            return int(whole)
    try:
        return index(value)
    except TypeError:
        raise ValueRefused(f"{short_repr(value)} is not a whole number of 64 bits") from None


def given_bytes(value: Any) -> bytes:
    """Bytes out of anything that holds bytes; `ValueRefused` for text and all else."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, _BYTES):
        return bytes(value)
    raise ValueRefused(f"{short_repr(value)} is not bytes")


def given_text(value: Any) -> str:
    """A str; `ValueRefused` for bytes and all else."""
    if isinstance(value, str):
        return value
    raise ValueRefused(f"{short_repr(value)} is not text")
