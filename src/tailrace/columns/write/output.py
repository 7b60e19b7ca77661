"""Bytes that a kernel makes from texts, a whole column at once: the inverse of `text_output`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tailrace.columns.frames import text as f
from tailrace.columns.text_output import bits, layout
from tailrace.columns.write.types import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable

_LARGEST: Final = 2**31 - 1 - 64
"""Bytes that 32-bit offsets reach, with slack for stores past the end."""


def write_bytes(
    kernel: Callable[[int], int],
    frame: np.ndarray[Any, np.dtype[np.int64]],
    array: pa.StringArray,
    expected: int,
    by_hand: Callable[[int], bytes],
) -> pa.BinaryArray:
    """Let a kernel write bytes for each row of ``array`` that is not null.

    ``frame`` holds the kernel's own words; the shared words are set here. ``expected`` is a
    guess of the bytes. ``by_hand`` encodes a row that the kernel cannot, or raises.
    """
    rows = len(array)
    bitmap, bit = bits(array)
    lead = bit & 7 if bitmap else 0
    offsets = pa.allocate_buffer(4 * (lead + rows + 1))
    ends = np.frombuffer(offsets, np.int32)
    ends[: lead + 1] = 0
    out = pa.allocate_buffer(min(expected + 2 * f.ROOM, _LARGEST), resizable=True)
    frame[: f.WORDS_SHARED] = 0
    frame[f.ROWS] = rows
    frame[f.OUT_OFFSETS] = offsets.address + 4 * lead
    frame[f.VALID], frame[f.VALID_BIT] = bitmap, bit
    frame[f.DATA], frame[f.DATA_END], frame[f.OFFSETS] = layout(array)
    while True:
        frame[f.OUT], frame[f.CAPACITY] = out.address, out.size
        result = kernel(frame.ctypes.data)
        if result == f.DONE:
            break
        row = int(frame[f.ROW])
        more = b"" if result == f.MORE else by_hand(row)
        used = int(frame[f.USED])
        if result == f.MORE or used + len(more) > out.size:
            if out.size >= _LARGEST or used + len(more) > _LARGEST:
                raise Rejected("the column takes more than 2 GiB: write it in smaller tables", row)
            out.resize(min(max(2 * out.size, used + len(more)), _LARGEST))
        if result != f.MORE:
            np.frombuffer(out, np.uint8)[used : used + len(more)] = np.frombuffer(more, np.uint8)
            frame[f.USED] = ends[lead + row + 1] = used + len(more)
            frame[f.ROW] = row + 1
    used = int(frame[f.USED])
    out.resize(used, shrink_to_fit=2 * used < out.size)
    valid = array.buffers()[0].slice(array.offset >> 3) if bitmap else None
    return pa.Array.from_buffers(pa.binary(), rows, [valid, offsets, out], array.null_count, lead)


def short_offsets(array: pa.Array) -> pa.StringArray:
    """The texts with 32-bit offsets, which kernels need."""
    if pa.types.is_string(array.type):
        return array
    try:
        return array.cast(pa.string())
    except pa.ArrowException:
        raise Rejected("the column takes more than 2 GiB: write it in smaller tables") from None
