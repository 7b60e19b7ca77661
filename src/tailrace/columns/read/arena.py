"""The memory of one batch while it is made: regions in one piece, cut to the size written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tailrace.columns.frames.plan import PADDING

if TYPE_CHECKING:
    from tailrace.columns.read.pool import Lease, Pool

Array = np.ndarray[Any, Any]


@dataclass(slots=True, eq=False)
class Region:
    """``at`` is where it begins. The part of it that some rows use depends on its kind:
    ``row`` bytes for each row and ``behind`` bytes more (offsets); or one bit for each row (``row``
    0);
    or text, whose size is at the end of its ``offsets``. Text ``elsewhere`` has no bytes here.
    """

    at: int
    row: int = 0
    behind: int = 0
    offsets: Region | None = None
    room: int = 0
    elsewhere: bool = False


class Arena:
    """Regions are reserved first, then `open` gives them memory, then a kernel writes."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._size = 0
        self._regions: list[Region] = []
        self._lease: Lease | None = None
        self._memory: Array = np.empty(0, np.uint8)
        self._address = 0
        self._buffer: pa.Buffer = pa.py_buffer(b"")

    def fixed(self, row: int, behind: int = 0) -> Region:
        """Room for ``row`` bytes for each row, and ``behind`` more."""
        return self._reserve(Region(0, row, behind), self.rows * row + behind)

    def bits(self) -> Region:
        """Room for one bit for each row, all set at first."""
        return self._reserve(Region(0), (self.rows + 7) // 8)

    def text(self, room: int, *, elsewhere: bool = False) -> Region:
        """Room for ``room`` bytes of text and for its offsets; ``elsewhere``: for the offsets
        alone.
        """
        offsets = self.fixed(4, 4)
        region = Region(0, offsets=offsets, room=room, elsewhere=elsewhere)
        return self._reserve(region, 0 if elsewhere else room)

    def _reserve(self, region: Region, size: int) -> Region:
        region.at = self._size
        self._size += (size + PADDING + 63) & ~63
        self._regions.append(region)
        return region

    def open(self, pool: Pool) -> None:
        """Allocate the memory; bits are set and offsets begin at 0."""
        self._lease = pool.take(self._size) if self.rows > 1 else pool.fresh(self._size)
        self._memory = self._lease.memory
        self._address = int(self._memory.ctypes.data)
        for region in self._regions:
            if region.offsets is not None:
                begin = region.offsets.at
                self._memory[begin : begin + 4] = 0
            elif region.row == 0:
                self._memory[region.at : region.at + (self.rows + 7) // 8] = 255

    def address(self, region: Region) -> int:
        """The address of a region in memory."""
        return self._address + region.at

    def used(self, region: Region, rows: int) -> int:
        """Bytes of a region, or of its text elsewhere, that ``rows`` rows fill."""
        if region.offsets is not None:
            at = region.offsets.at + rows * 4
            return int(self._memory[at : at + 4].view(np.int32)[0])
        return rows * region.row + region.behind if region.row else (rows + 7) // 8

    def close(self, rows: int) -> None:
        """Writing is done. If less than half is used, the data moves to memory of its size.

        A single row's memory is new, and its unwritten part takes none.
        """
        sizes = [0 if region.elsewhere else self.used(region, rows) for region in self._regions]
        old, at = self._memory, 0
        lease = self._lease
        if lease is not None and (self.rows == 1 or 2 * sum(sizes) >= self._size):
            self._buffer = lease.buffer()
        else:
            new = np.empty(sum((size + 63) & ~63 for size in sizes), np.uint8)
            for region, size in zip(self._regions, sizes, strict=True):
                new[at : at + size] = old[region.at : region.at + size]
                region.at = at
                at += (size + 63) & ~63
            self._buffer = pa.py_buffer(new)
        self._memory = np.frombuffer(self._buffer, np.uint8)
        self._lease = None  # if the memory is a lease's, the buffer holds it

    def buffer(self, region: Region, rows: int) -> pa.Buffer:
        """The used part of a region, as an Arrow buffer."""
        return self._buffer.slice(region.at, self.used(region, rows))

    def view(self, region: Region, rows: int) -> Array:
        """The used part of a region, as bytes."""
        return self._memory[region.at : region.at + self.used(region, rows)]
