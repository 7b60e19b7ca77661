"""Memory for the kernels' output that is used again once nobody holds the batch it was made for.

Fresh memory costs a page fault for every 4 KiB, as much as decoding into it. So memory is kept, and
taken again when the last Arrow buffer over it is gone: such a buffer holds a `Lease`, and the end
of the lease gives the memory back.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tailrace.columns.frames.plan import PADDING
from tailrace.columns.pages import Pages

_WASTE: Final = 4
"""Memory may be so many times as large as what was asked for."""

Memory = np.ndarray[Any, Any]


class Pool:
    """Memory that is free, found again by size; ``limit`` bounds the bytes that are kept.

    Memory of more than half of it is not kept: it was for a single large value.
    """

    def __init__(self, limit: int = 96 << 20) -> None:
        self._limit = limit
        self._free: list[Memory] = []
        self._lock = Lock()

    def take(self, size: int) -> Lease:
        """Memory of at least ``size`` bytes (uint8) and `PADDING` more; its content is stale."""
        size += PADDING
        with self._lock:
            for index, memory in enumerate(self._free):
                if size <= len(memory) <= _WASTE * size:
                    return Lease(self._free.pop(index), self)
        return Lease(np.empty(size + size // 4, np.uint8), self)

    def fresh(self, size: int) -> Lease:
        """New memory of ``size`` bytes that is not kept: for a single large row.

        What is not written of it takes none. What was kept is let go of, to make room.
        """
        with self._lock:
            unused, self._free = self._free, []
        del unused
        return Lease(Pages(size + PADDING).array(), None)

    def give_back(self, memory: Memory) -> None:
        """Keep memory that nobody uses any more, and let go of the oldest beyond the limit.

        A lease may end in any thread, at any time: in the garbage collector too, which may run
        while this thread holds the lock. So it never waits for it; the memory is freed then.
        """
        if len(memory) > self._limit // 2 or not self._lock.acquire(blocking=False):
            return
        try:
            self._free.append(memory)
            kept = sum(map(len, self._free))
            while kept > self._limit:
                kept -= len(self._free.pop(0))
        finally:
            self._lock.release()


class Lease:
    """The use of ``memory``, until nobody holds the lease or a buffer of it.

    What outlives the lease is read through `buffer`, never through ``memory`` or a view of it:
    these do not keep the memory from being given to the next who asks.
    """

    __slots__ = ("_pool", "memory")

    def __init__(self, memory: Memory, pool: Pool | None) -> None:
        self.memory = memory
        self._pool = pool

    def buffer(self) -> pa.Buffer:
        """All of the memory as an Arrow buffer, which holds the lease, as its slices do."""
        return pa.foreign_buffer(int(self.memory.ctypes.data), len(self.memory), self)

    def __del__(self) -> None:
        if self._pool is not None:
            self._pool.give_back(self.memory)
