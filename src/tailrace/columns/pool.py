"""Memory for the kernels' output that is used again once nobody holds the batch it was made for.

Fresh memory costs a page fault for every 4 KiB, as much as decoding into it. So buffers are kept,
and taken again when the Arrow arrays over them are gone, which their reference count tells.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tailrace.columns.layout import PADDING

_FREE_REFERENCES = 3
"""References to a buffer that only the pool holds: its list, the loop's name, the call's argument."""


class Pool:
    """Buffers by size class; ``limit`` bounds the bytes that are kept while unused."""

    def __init__(self, limit: int = 96 << 20) -> None:
        self._limit = limit
        self._kept = 0
        self._buffers: dict[int, list[np.ndarray[Any, Any]]] = {}

    def take(self, size: int) -> np.ndarray[Any, Any]:
        """A buffer of at least ``size`` bytes (uint8) and `PADDING` more; its content is stale."""
        wanted = size_class(size + PADDING)
        buffers = self._buffers.setdefault(wanted, [])
        for buffer in buffers:
            if sys.getrefcount(buffer) == _FREE_REFERENCES:
                return buffer
        fresh: np.ndarray[Any, Any] = np.empty(wanted, np.uint8)
        if self._kept + wanted <= self._limit:
            self._kept += wanted
            buffers.append(fresh)
        return fresh


def size_class(size: int) -> int:
    """The next of 4 KiB, 5, 6, 7, 8, 10, 12, 14, 16, ...: at most a quarter is wasted."""
    if size <= 4096:
        return 4096
    shift = size.bit_length() - 3
    return ((size + (1 << shift) - 1) >> shift) << shift
