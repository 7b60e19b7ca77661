"""Memory for the kernels' output that is used again once nobody holds the batch it was made for.

Fresh memory costs a page fault for every 4 KiB, as much as decoding into it. So buffers are kept,
and taken again when the Arrow arrays over them are gone, which their reference count tells.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

from tailrace.columns.layout import PADDING

_FREE_REFERENCES: Final = 3
"""References to a buffer that only the pool holds: its list, the loop's name, the argument."""
_WASTE: Final = 4
"""A buffer may be so many times as large as what was asked for."""


class Pool:
    """Buffers, found again by size; ``limit`` bounds the bytes that are kept."""

    def __init__(self, limit: int = 96 << 20) -> None:
        self._limit = limit
        self._buffers: list[np.ndarray[Any, Any]] = []

    def take(self, size: int) -> np.ndarray[Any, Any]:
        """A buffer of at least ``size`` bytes (uint8) and `PADDING` more; its content is stale."""
        size += PADDING
        for buffer in self._buffers:
            if size <= len(buffer) <= _WASTE * size and sys.getrefcount(buffer) == _FREE_REFERENCES:
                return buffer
        fresh: np.ndarray[Any, Any] = np.empty(size + size // 4, np.uint8)
        self._make_room(len(fresh))
        self._buffers.append(fresh)
        return fresh

    def _make_room(self, size: int) -> None:
        """Let go of buffers, the oldest first; those in use are freed by their last user."""
        kept = sum(map(len, self._buffers)) + size
        while self._buffers and kept > self._limit:
            kept -= len(self._buffers.pop(0))
