"""Memory for the kernels' output, reused once nothing holds the batch that it was used for.

Fresh memory costs a page fault for every 4 KiB, as much as decoding into it. So memory is kept and
reused when the last Arrow buffer over it is gone: such a buffer holds a `Lease`, and the end of the
lease returns the memory.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tailrace.columns.frames.plan import PADDING
from tailrace.columns.pages import Pages

_WASTE: Final = 4
"""Memory may be at most this many times as large as the requested size."""

Memory = np.ndarray[Any, Any]


class Pool:
    """Free memory, found by size; ``limit`` bounds the bytes that are kept.

    A block larger than half the limit is not kept: it was for a single large value.
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

        Pages that are not written take no memory. Kept memory is released, to make room.
        """
        with self._lock:
            unused, self._free = self._free, []
        del unused
        return Lease(Pages(size + PADDING).array(), None)

    def give_back(self, memory: Memory) -> None:
        """Keep memory that is not used any more, and release the oldest beyond the limit.

        A lease may end in any thread, at any time: in the garbage collector too, which may run
        while this thread holds the lock. So this never waits for the lock; it frees the memory
        instead.
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
    """The use of ``memory``, as long as something holds the lease or a buffer of it.

    Data that outlives the lease must be read through `buffer`, never through ``memory`` or a view
    of it: these do not prevent the memory from being reused.
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
