"""The user variables of a session (``@name``), as the source's side of a connection keeps them."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal
from math import isfinite
from typing import TYPE_CHECKING, Final

from tailrace.errors import UsageError
from tailrace.values.jsonb import double_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Value = int | float | Decimal | str | bytes | None
"""A user variable's value: an integer, a double, a decimal, text, bytes, or NULL."""

_MOST_NAMES: Final = 256
_LONGEST_NAME: Final = 64
_LARGEST: Final = 64 << 10
_NUMBER_SIZE: Final = 8
_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 63) - 1
_INTEGER: Final = re.compile(r"\s*([+-]?\d+)")
_NUMBER: Final = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")


class UserVariables:
    """User variables by name, without ``@``; names are compared without regard to case.

    The getters are the worklog's (WL#4398, part B) and convert as MySQL's ``user_var_entry`` does:
    NULL is None, and a variable that was never set raises KeyError, as in a mapping; ``in`` tells
    whether it was set.

    There may be 256 of them, with names of 64 characters (as in MySQL), and 65536 bytes of values:
    text and decimals count as they are written in UTF-8, numbers as 8. Setting more raises
    UsageError.
    """

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._size = 0

    def __setitem__(self, name: str, value: Value) -> None:
        self.update({name: value})

    def update(self, values: Mapping[str, Value]) -> None:
        """Set all of these, or none: raises UsageError if they are too many or too large."""
        given = {name.lower(): value for name, value in values.items()}
        for name in given:
            if len(name) > _LONGEST_NAME:
                raise UsageError(f"User variable name '{name[:20]}...' is too long")
        known = self._values
        size = self._size - sum(_size(known[name]) for name in given if name in known)
        size += sum(map(_size, given.values()))
        if len(known.keys() | given.keys()) > _MOST_NAMES or size > _LARGEST:
            raise UsageError(
                f"A session has at most {_MOST_NAMES} user variables, of {_LARGEST} bytes in all"
            )
        known.update(given)
        self._size = size

    def __getitem__(self, name: str) -> Value:
        return self._values[name.lower()]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get_user_var_int(self, name: str) -> int | None:
        """As a signed integer of 64 bits; larger ones are the nearest.

        The fraction of a double is cut off, a decimal is rounded half away from zero, and text
        counts up to the end of its leading digits: 0 without any.
        """
        value = self[name]
        if value is None:
            return None
        if isinstance(value, (str, bytes)):
            found = _INTEGER.match(_text(value))
            value = int(found[1]) if found else 0
        elif isinstance(value, Decimal):
            value = int(value.to_integral_value(ROUND_HALF_UP))
        return int(min(max(value, _LEAST), _MOST))

    def get_user_var_real(self, name: str, precision: int | None = None) -> float | None:
        """As a double; ``precision`` is the number of decimals to round to, None for all.

        Text counts up to the end of its leading number: 0 without any.
        """
        value = self[name]
        if value is None:
            return None
        if isinstance(value, (str, bytes)):
            found = _NUMBER.match(_text(value))
            value = found[1] if found else 0
        number = float(value)
        return number if precision is None else round(number, _decimals(precision))

    def get_user_var_str(
        self, name: str, length: int | None = None, precision: int | None = None
    ) -> str | None:
        """As text, at most ``length`` bytes of UTF-8, cut before the character that would exceed
        them; None for all.

        ``precision`` is the number of decimals of a double; None for the shortest text that is the
        same double. Bytes that are no UTF-8 are replaced by U+FFFD. Raises UsageError for a
        negative length or precision.
        """
        value = self[name]
        if value is None:
            return None
        if isinstance(value, float):
            text = _real_text(value, precision)
        elif isinstance(value, (str, bytes)):
            text = _text(value)
        else:
            text = str(value)
        if length is None:
            return text
        if length < 0:
            raise UsageError(f"length: {length} is negative")
        return text.encode("utf-8", "replace")[:length].decode("utf-8", "ignore")


def _size(value: Value) -> int:
    if isinstance(value, (str, Decimal)):
        return len(str(value).encode("utf-8", "replace"))
    return len(value) if isinstance(value, bytes) else _NUMBER_SIZE


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _decimals(precision: int) -> int:
    if precision < 0:
        raise UsageError(f"precision: {precision} is negative")
    return precision


def _real_text(value: float, precision: int | None) -> str:
    if precision is not None:
        return f"{value:.{_decimals(precision)}f}"
    return double_text(value).removesuffix(".0") if isfinite(value) else repr(value)
