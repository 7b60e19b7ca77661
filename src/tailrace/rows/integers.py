"""Integers and YEAR: 1, 2, 3, 4 or 8 bytes, little-endian. Facts sheet section 3.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.constants import ColumnType

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
    """The loader of an integer column of any width: the bytes of one value to int."""
    from_bytes = int.from_bytes
    if unsigned:
        return lambda data: from_bytes(data, "little")
    return lambda data: from_bytes(data, "little", signed=True)


def load_year(data: bytes) -> int:
    """YEAR: 0, or 1901 to 2155 as one byte from 1900 on."""
    return 1900 + data[0] if data[0] else 0
