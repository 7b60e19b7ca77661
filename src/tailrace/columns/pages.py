"""Memory of large values, page by page: it grows without copying, and is returned early.

Arrow's allocator may keep memory that it frees; pages mapped here go back to the system at once.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any, Final

import numpy as np
import pyarrow as pa

LARGE: Final = 4 << 20
"""Values of at least this many bytes are large; values of a usual row are never this large."""


class Pages:
    """``size`` bytes; only those that were written take memory. Raises MemoryError."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._memory = _mapped(size)

    @property
    def address(self) -> int:
        """The address of the pages; `resize` may move them."""
        return int(self.array().ctypes.data)

    def resize(self, size: int) -> None:
        """Grow or shrink; what was written stays. Raises MemoryError."""
        try:
            self._memory.resize(max(size, 1))
        except SystemError:  # on a system without mremap
            moved = _mapped(size)
            kept = min(size, self.size)
            moved[:kept] = memoryview(self._memory)[:kept]
            self._memory = moved
        except OSError:
            raise MemoryError from None
        self.size = size

    def array(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The bytes as an array; `resize` is not possible while the array exists."""
        return np.frombuffer(self._memory, np.uint8)[: self.size]

    def buffer(self) -> pa.Buffer:
        """The bytes as an Arrow buffer, which holds them; `resize` is not possible afterwards."""
        return pa.py_buffer(self._memory).slice(0, self.size)


def _mapped(size: int) -> mmap.mmap:
    try:
        return mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        raise MemoryError from None


def give_back(address: int, size: int) -> None:
    """Return to the system the whole pages among these bytes, which are not read any more.

    They must be memory that was allocated, not mapped from a file. They may be written again.
    """
    first = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (address + size) // mmap.PAGESIZE * mmap.PAGESIZE
    advise = getattr(ctypes.CDLL(None), "madvise", None)
    if first < end and advise is not None:
        advise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), mmap.MADV_DONTNEED)
