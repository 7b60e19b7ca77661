"""Memory that ends at a page nobody may touch, in place of what the kernels read and write.

A kernel that goes one step too far then ends the process with a signal instead of reading on.
Sizes are rounded up to 8 bytes, which is as exact as the guard is.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrace.columns.frames.plan import PADDING
from tailrace.columns.read import arena, blocks, pool, table, walk

if TYPE_CHECKING:
    from tailrace.columns.read.walk import Walker

Array = np.ndarray[Any, Any]

_libc = ctypes.CDLL(None, use_errno=True)
_NO_ACCESS = 0


def guarded(size: int) -> Array:
    """``size`` bytes, the last of them (to 8) before a page that cannot be read or written."""
    size = (size + 7) & ~7
    page = mmap.PAGESIZE
    room = (size + page - 1) // page * page
    memory = mmap.mmap(-1, room + page)
    data = np.frombuffer(memory, np.uint8)
    behind = ctypes.c_void_p(int(data.ctypes.data) + room)
    if _libc.mprotect(behind, ctypes.c_size_t(page), _NO_ACCESS):
        raise OSError(ctypes.get_errno(), "mprotect")
    return data[room - size : room]


class _Numpy:
    """Numpy, but for `empty`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def empty(shape: int | tuple[int, ...], dtype: Any = np.float64) -> Array:
        """`numpy.empty`, guarded."""
        sizes = (shape,) if isinstance(shape, int) else shape
        count = math.prod(int(size) for size in sizes)
        data = guarded(count * np.dtype(dtype).itemsize)
        array: Array = data.view(dtype)[:count].reshape(sizes)
        return array


def _take(self: pool.Pool, size: int) -> pool.Lease:
    return pool.Lease(guarded(size + PADDING), self)


def _give_back(self: pool.Pool, memory: Array) -> None:
    """Nothing is used again: memory that is freed cannot be touched in silence."""


def _keep(self: Walker, plain: bytes | bytearray) -> Array:
    data = guarded(len(plain) + PADDING)
    data[: len(plain)] = np.frombuffer(plain, np.uint8)
    self._kept.append(data)
    self._kept_bytes += len(data)
    return data


def install() -> None:
    """Guard, in this process and for good, the kernels' input and output."""
    for module in (arena, blocks, table):
        module.np = _Numpy()  # type: ignore[attr-defined]
    pool.Pool.take = _take  # type: ignore[method-assign]
    pool.Pool.give_back = _give_back  # type: ignore[method-assign]
    walk.Walker._keep = _keep  # type: ignore[method-assign]  # noqa: SLF001
