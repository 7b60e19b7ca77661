"""What a user gives to be written, before it is known to be a value of its column."""

from __future__ import annotations

from decimal import Decimal
from operator import index
from typing import Any, Final

from tailrace.errors import ValueRefused

_LONGEST: Final = 60
_MOST_DIGITS: Final = 20
"""Digits of the largest number of 64 bits."""
_BYTES: Final = (bytes, bytearray, memoryview)


def shown(value: Any) -> str:
    """A value as an error message shows it: its repr, cut short."""
    try:
        text = repr(value[: _LONGEST + 1] if isinstance(value, (str, bytes, bytearray)) else value)
    except Exception:  # noqa: BLE001  # a repr may fail in any way; the message must not
        return f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


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
        raise ValueRefused(f"{shown(value)} is not a whole number of 64 bits") from None


def given_bytes(value: Any) -> bytes:
    """Bytes out of anything that holds bytes; `ValueRefused` for text and all else."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, _BYTES):
        return bytes(value)
    raise ValueRefused(f"{shown(value)} is not bytes")


def given_text(value: Any) -> str:
    """A str; `ValueRefused` for bytes and all else."""
    if isinstance(value, str):
        return value
    raise ValueRefused(f"{shown(value)} is not text")
