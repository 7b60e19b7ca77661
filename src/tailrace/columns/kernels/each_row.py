"""The loop that the kernels of `text_frames` share: one text for each row that counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

from tailrace.columns.frames.text import (
    CAPACITY,
    DONE,
    OUT,
    OUT_OFFSETS,
    ROOM,
    ROW,
    ROWS,
    USED,
    VALID,
    VALID_BIT,
)
from tailrace.columns.kernels.memory import get, put, put32, u8

if TYPE_CHECKING:
    from collections.abc import Callable


def each_row(write: Callable[[int, int, int, int], int]) -> Callable[[int], int]:
    """Make a kernel from ``write(out, row, frame, limit)``.

    ``write`` writes one row's text at ``out`` and returns the address after it, or a code <= 0,
    with which the kernel then stops.
    """
    one = njit(error_model="numpy", inline="always")(write)  # saves LLVM a pass over all of it

    def kernel(frame: int) -> int:
        start = get(frame, OUT)
        limit = start + get(frame, CAPACITY) - ROOM
        out_offsets = get(frame, OUT_OFFSETS)
        valid = get(frame, VALID)
        rows = get(frame, ROWS)
        row = get(frame, ROW)
        out = start + get(frame, USED)
        result = DONE
        while row < rows:
            bit = get(frame, VALID_BIT) + row
            if valid == 0 or u8(valid + (bit >> 3)) >> (bit & 7) & 1:
                wrote = one(out, row, frame, limit)
                if wrote <= 0:
                    result = wrote
                    break
                out = wrote
            row += 1
            put32(out_offsets + 4 * row, out - start)
        put(frame, ROW, row)
        put(frame, USED, out - start)
        return result

    return kernel
