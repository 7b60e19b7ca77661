"""Memory that ends at a page which may be neither read nor written."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pyarrow as pa
import pytest

PAGE = mmap.PAGESIZE


class Guarded:
    """Some pages of memory, then one that no access survives."""

    def __init__(self, pages: int = 1) -> None:
        self.size = pages * PAGE
        self.memory = mmap.mmap(-1, self.size + PAGE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(self.address + self.size), PAGE, 0):
            pytest.skip("memory cannot be protected here")

    def buffer(self, data: bytes) -> pa.Buffer:
        """These bytes, the last of which is the last byte that may be read."""
        start = self.size - len(data)
        self.memory[start : self.size] = data
        return pa.foreign_buffer(self.address + start, len(data), self.memory)

    def array(self, values: list[bytes], kind: pa.DataType) -> pa.Array:
        """Values whose last byte is the last that may be read."""
        offsets = pa.py_buffer(np.cumsum([0, *map(len, values)], dtype=np.int32))
        return pa.Array.from_buffers(
            kind, len(values), [None, offsets, self.buffer(b"".join(values))]
        )


class Room:
    """What a kernel writes into: it begins small, grows a little, and ends where the pages do."""

    def __init__(self, guarded: Guarded, size: int) -> None:
        self.guarded, self.size = guarded, size

    @property
    def address(self) -> int:
        return self.guarded.address + self.guarded.size - self.size

    def bytes(self) -> bytes:
        return self.guarded.memory[self.guarded.size - self.size : self.guarded.size]

    def resize(self, size: int, *, shrink_to_fit: bool | None = None) -> None:
        del shrink_to_fit
        held = self.bytes()[:size]
        self.size = size
        start = self.guarded.size - size
        self.guarded.memory[start : start + len(held)] = held
