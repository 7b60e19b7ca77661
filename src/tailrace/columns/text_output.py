"""Writes a kernel's text into Arrow: room that grows, and errors that name the row."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tailrace.columns.frames import text as f
from tailrace.columns.pages import LARGE, Pages
from tailrace.errors import EventDecodeError

if TYPE_CHECKING:
    from collections.abc import Callable

LARGEST: Final = 2**31 - 1 - 64
"""Bytes of text that 32-bit offsets reach, with slack for stores past the end."""

_TROUBLE: Final = {
    f.NOT_UTF8: "text that is not UTF-8",
    f.CUT_SHORT: "a length or an offset points outside of the value",
    f.BAD_TYPE: "a type that the format does not have",
    f.TOO_DEEP: f"nested deeper than {f.DEPTH} levels",
    f.OVERLAP: "parts that overlap",
    f.BAD_NUMBER: "a number that is not one",
    f.BAD_TIME: "a date or time that is not one",
    f.BAD_CODE: "bytes that are not of the character set",
}


class BadRow(EventDecodeError):
    """A value of a batch that cannot be decoded: its ``row`` in the batch, and the ``reason``.

    Callers that know the rows' positions in the log raise an `EventDecodeError` in its place.
    """

    def __init__(self, reason: str, row: int) -> None:
        super().__init__(f"row {row} of a batch: {reason}")
        self.reason = reason
        self.row = row

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason, self.row), {"message": self.message}


class TooLarge(BadRow):
    """A row up to which a column takes more bytes than 32-bit offsets reach."""


def layout(array: pa.Array) -> tuple[int, int, int]:
    """Addresses of a binary or string array's bytes, of their end and of its first row's offset."""
    _, offsets, data = array.buffers()
    start = data.address if data is not None else 0
    end = start + (data.size if data is not None else 0)
    return start, end, offsets.address + 4 * array.offset if offsets is not None else 0


def bits(array: pa.Array) -> tuple[int, int]:
    """Address of an array's validity bitmap, 0 without nulls, and the index of its first bit."""
    bitmap = array.buffers()[0]
    if bitmap is None or array.null_count == 0:
        return 0, 0
    return bitmap.address, array.offset


def write(
    kernel: Callable[[int], int],
    frame: np.ndarray[Any, np.dtype[np.int64]],
    array: pa.Array,
    expected: int,
    what: str,
    by_hand: Callable[[int], bytes] | None = None,
    type_: pa.DataType | None = None,
) -> pa.Array:
    """Let a kernel write a text, or bytes, for each row of ``array`` that is not null.

    ``frame`` holds the kernel's own words; the shared words are set here. ``expected`` is a guess
    of the text's bytes, ``what`` names the values in errors. ``by_hand`` gives the bytes of a row
    that the kernel leaves to Python. ``type_`` is the result's, text if it is None. Raises
    `BadRow`.
    """
    rows = len(array)
    bitmap, bit = bits(array)
    lead = bit & 7 if bitmap else 0
    offsets = pa.allocate_buffer(4 * (lead + rows + 1))
    ends = np.frombuffer(offsets, np.int32)
    ends[: lead + 1] = 0
    room = min(expected + 2 * f.ROOM, LARGEST)
    large = Pages(room) if room > LARGE * max(rows, 1) else None
    text: Any = large or pa.allocate_buffer(room, resizable=True)
    frame[: f.WORDS_SHARED] = 0
    frame[f.ROWS] = rows
    frame[f.OUT_OFFSETS] = offsets.address + 4 * lead
    frame[f.VALID], frame[f.VALID_BIT] = bitmap, bit
    while True:
        frame[f.OUT], frame[f.CAPACITY] = text.address, text.size
        result = kernel(frame.ctypes.data)
        if result == f.DONE:
            break
        row = int(frame[f.ROW])
        used = int(frame[f.USED])
        made = b""
        if result == f.BY_HAND and by_hand is not None:
            made = by_hand(row)
        elif result != f.MORE:
            raise BadRow(f"{what}: {_TROUBLE[result]}", row)
        if result == f.MORE or used + len(made) > text.size:
            if max(text.size, used + len(made)) >= LARGEST:
                raise TooLarge(
                    f"{what} up to this one take more than 2 GiB as text: "
                    "read the log in smaller batches",
                    row,
                )
            text.resize(min(max(2 * text.size, used + len(made) + f.ROOM), LARGEST))
        if result == f.BY_HAND:
            ctypes.memmove(text.address + used, made, len(made))
            frame[f.USED] = ends[lead + row + 1] = used + len(made)
            frame[f.ROW] = row + 1
    used = int(frame[f.USED])
    if large is not None:
        large.resize(used)
        text = large.buffer()
    else:
        text.resize(used, shrink_to_fit=2 * used < text.size)
    valid = None
    if bitmap:
        valid = array.buffers()[0].slice(array.offset >> 3)
    return pa.Array.from_buffers(
        type_ or pa.string(), rows, [valid, offsets, text], array.null_count, lead
    )
