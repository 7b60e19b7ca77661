"""Integers and YEAR: 1, 2, 3, 4 or 8 bytes, little-endian. Facts sheet section 3.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import ColumnType
from tailrace.errors import ValueRefused
from tailrace.printable import short_repr
from tailrace.rows.user_values import whole_number

if TYPE_CHECKING:
    from collections.abc import Callable

INTEGER_SIZE: Final = {
    ColumnType.TINY: 1,
    ColumnType.SHORT: 2,
    ColumnType.INT24: 3,
    ColumnType.LONG: 4,
    ColumnType.LONGLONG: 8,
}
"""Bytes of each integer type."""


def integer_loader(*, unsigned: bool) -> Callable[[bytes], int]:
    """The loader of an integer column of any width: converts the bytes of one value to int."""
    from_bytes = int.from_bytes
    if unsigned:
        return lambda data: from_bytes(data, "little")
    return lambda data: from_bytes(data, "little", signed=True)


def load_year(data: bytes) -> int:
    """YEAR: 0, or 1901 to 2155 as one byte from 1900 on."""
    return 1900 + data[0] if data[0] else 0


def integer_dumper(size: int, *, unsigned: bool) -> Callable[[Any], bytes]:
    """The dumper of an integer column of ``size`` bytes: any whole number (``__index__``).

    `ValueRefused` for others, and for numbers beyond the column's range.
    """
    span = 1 << 8 * size
    least, most = (0, span - 1) if unsigned else (-span // 2, span // 2 - 1)
    signed = not unsigned

    def dump_integer(value: Any) -> bytes:
        number = value if type(value) is int else whole_number(value)
        if not least <= number <= most:
            raise ValueRefused(f"{short_repr(number)} is not between {least} and {most}")
        return number.to_bytes(size, "little", signed=signed)

    return dump_integer


def dump_year(value: Any) -> bytes:
    """YEAR: 0, or 1901 to 2155; `ValueRefused` for anything else."""
    number = whole_number(value)
    if number and not 1901 <= number <= 2155:
        raise ValueRefused(f"{short_repr(number)} is no YEAR: 0, or 1901 to 2155")
    return bytes([number - 1900 if number else 0])
