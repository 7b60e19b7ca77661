"""Lookup tables of the kernels: the calendar, the powers of ten, and CRC-32's."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

_YEARS = 1 << 14
"""Years that the bytes of a DATE can hold; MySQL's years end with 9999."""


def _once(make: Callable[[], np.ndarray[Any, Any]]) -> Callable[[], np.ndarray[Any, Any]]:
    """Make a table at the first call, whichever threads call, and keep that one object.

    Kernels hold its address. `functools.cache` lets two threads make it, and drops one of the two.
    """
    lock = threading.Lock()
    made: list[np.ndarray[Any, Any]] = []

    @functools.wraps(make)
    def table() -> np.ndarray[Any, Any]:
        if not made:
            with lock:
                if not made:
                    made.append(make())
        return made[0]

    return table


@_once
def calendar() -> np.ndarray[Any, Any]:
    """For year * 13 + month: days from 1970-01-01 to the month's first << 5 | the month's length.

    The length is 0 for month 0 and year 0, which no calendar has (int32; proleptic Gregorian).
    """
    months = np.arange(_YEARS * 12)
    first = np.datetime64("0000-01-01", "M") + months
    begin = first.astype("datetime64[D]").astype(np.int64)
    length = (first + np.timedelta64(1, "M")).astype("datetime64[D]").astype(np.int64) - begin
    table = np.zeros((_YEARS, 13), np.int32)
    table[:, 1:] = (begin << 5 | length).reshape(_YEARS, 12)
    table[0] = 0
    # A DATE has four bits for the month: 13 to 15 read into the next year, so they need a mask.
    return np.concatenate([table.reshape(-1), np.zeros(64, np.int32)])


@_once
def powers_of_ten() -> np.ndarray[Any, Any]:
    """10 ** 0 to 10 ** 18 (int64)."""
    return 10 ** np.arange(19, dtype=np.int64)


@_once
def crc_tables() -> np.ndarray[Any, Any]:
    """CRC-32's eight tables of 256 entries, one after the other (uint32)."""
    tables = np.zeros((8, 256), np.uint32)
    value = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        value = np.where(value & 1, (value >> 1) ^ np.uint32(0xEDB88320), value >> 1)
    tables[0] = value
    for step in range(1, 8):
        tables[step] = (tables[step - 1] >> 8) ^ tables[0][tables[step - 1] & 255]
    return tables
