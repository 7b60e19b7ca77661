"""Values from a user, before they are checked against their column."""

from __future__ import annotations

from decimal import Decimal
from operator import index
from typing import Any, Final

from tailrace.errors import ValueRejected
from tailrace.printable import short_repr

_MOST_DIGITS: Final = 20
"""Digits of the largest 64-bit number."""
_BYTES: Final = (bytes, bytearray, memoryview)


def whole_number(value: Any) -> int:
    """An int from anything that is a whole number by type, or a Decimal with a whole value.

    (Arrow has unsigned 64-bit columns as decimals.) `ValueRejected` for floats, text and others.
    """
    if isinstance(value, Decimal) and value.is_finite() and value.adjusted() < _MOST_DIGITS:
        whole = value.to_integral_value()
        if whole == value:
            return int(whole)
    try:
        return index(value)
    except TypeError:
        raise ValueRejected(f"{short_repr(value)} is not a whole number of 64 bits") from None


def given_bytes(value: Any) -> bytes:
    """Bytes from any object that holds bytes; `ValueRejected` for text and anything else."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, _BYTES):
        return bytes(value)
    raise ValueRejected(f"{short_repr(value)} is not bytes")


def given_text(value: Any) -> str:
    """A str; `ValueRejected` for bytes and anything else."""
    if isinstance(value, str):
        return value
    raise ValueRejected(f"{short_repr(value)} is not text")
