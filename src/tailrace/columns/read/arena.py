"""The memory of one batch while it is made: regions in one piece, cut to the size written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tailrace.columns.frames.plan import PADDING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tailrace.columns.read.pool import Lease, Pool

Array = np.ndarray[Any, Any]


class Layout:
    """The regions of batches that have the same columns, by number: bitmaps, then ``fixed`` sizes
    for each row, then for each text its offsets, then the texts' bytes.

    All that does not depend on the number of rows is computed here, once for many batches.
    """

    def __init__(self, bitmaps: int, fixed: Sequence[int], texts: int) -> None:
        self.bitmaps = bitmaps
        self.offsets = slice(bitmaps + len(fixed), bitmaps + len(fixed) + texts)
        self.texts = slice(self.offsets.stop, self.offsets.stop + texts)
        self._row = np.zeros(self.texts.stop, np.int64)
        self._row[bitmaps : self.offsets.start] = fixed
        self._row[self.offsets] = 4
        self._more = np.zeros(self.texts.stop, np.int64)
        self._more[self.offsets] = 4

    def sizes(self, rows: int) -> Array:
        """The bytes of each region that ``rows`` rows fill; 0 for texts."""
        sizes: Array = self._row * rows + self._more
        sizes[: self.bitmaps] = (rows + 7) >> 3
        return sizes


class Arena:
    """Memory for ``rows`` rows in the regions of a layout; ``rooms`` are the bytes for each text.

    Bitmaps are all ones and offsets begin at 0. A kernel writes, then `close` ends the writing.
    """

    def __init__(self, layout: Layout, rows: int, rooms: Sequence[int] | Array, pool: Pool) -> None:
        self.rows = rows
        self._layout = layout
        sizes = layout.sizes(rows)
        sizes[layout.texts] = rooms
        ends = ((sizes + (PADDING + 63)) & ~63).cumsum()
        self._at = np.zeros_like(ends)
        self._at[1:] = ends[:-1]
        self._size = int(ends[-1])
        lease = pool.take(self._size) if rows > 1 else pool.fresh(self._size)
        self._lease: Lease | None = lease
        self._memory = lease.memory
        self.addresses: Array = self._at + lease.memory.ctypes.data
        """The address of each region."""
        self._memory[: self._at[layout.bitmaps]] = 255
        self._numbers()[self._at[layout.offsets] >> 2] = 0

    def _numbers(self) -> Array:
        """The memory as 32-bit numbers."""
        return self._memory[: self._size].view(np.int32)

    def close(self, rows: int, outside: Collection[int] = ()) -> None:
        """Writing is done. If less than half is used, the data moves to memory of its size.

        The bytes of the texts ``outside`` are not in this memory. A single row's memory is new,
        and its unwritten part takes none.
        """
        layout, old, lease = self._layout, self._memory, self._lease
        used = layout.sizes(rows)
        used[layout.texts] = self._numbers()[(self._at[layout.offsets] >> 2) + rows]
        self.used: list[int] = used.tolist()
        """The bytes of each region that are used, for texts outside too."""
        for region in outside:
            used[region] = 0
        if lease is not None and (self.rows == 1 or 2 * int(used.sum()) >= self._size):
            self._buffer = lease.buffer()
            self._memory = np.frombuffer(self._buffer, np.uint8)  # views hold the buffer
        else:
            ends = ((used + 63) & ~63).cumsum()
            new = np.empty(int(ends[-1]), np.uint8)
            start = 0
            for at, size, end in zip(self._at.tolist(), used.tolist(), ends.tolist(), strict=True):
                new[start : start + size] = old[at : at + size]
                start = end
            self._at[1:] = ends[:-1]
            self._buffer = pa.py_buffer(new)
            self._memory = new
        self._begins: list[int] = self._at.tolist()
        self._lease = None  # if the memory is a lease's, the buffer holds it

    def buffer(self, region: int) -> pa.Buffer:
        """The used part of a region, as an Arrow buffer."""
        return self._buffer.slice(self._begins[region], self.used[region])

    def view(self, region: int) -> Array:
        """The used part of a region, as bytes."""
        begin = self._begins[region]
        return self._memory[begin : begin + self.used[region]]
