"""Bytes in memory."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from tailrace.storage.streams.base import check_cut, check_within

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tailrace.storage.streams.base import Data


class MemoryInput:
    """Bytes being read, while others may append to them.

    They hold ``lock`` then, which this one takes for each read.
    """

    def __init__(self, data: Data, lock: AbstractContextManager[object] | None = None) -> None:
        self._data = data
        self._lock = lock or nullcontext()
        self._at = 0

    def read(self, count: int, /) -> bytes:
        """At most ``count`` bytes; a copy."""
        with self._lock, memoryview(self.stored()) as data:
            piece = bytes(data[self._at : self._at + count])
        self._at += len(piece)
        return piece

    def readinto(self, view: bytearray | memoryview, /) -> int:
        """As `read`, into the given memory."""
        with self._lock, memoryview(self.stored()) as data:
            piece = data[self._at : self._at + len(view)]
            count = len(piece)
            view[:count] = piece
            piece.release()
        self._at += count
        return count

    def seek(self, offset: int, /) -> int:
        """Go to an offset."""
        self._at = offset
        return offset

    def tell(self) -> int:
        """The current offset."""
        return self._at

    def size(self) -> int:
        """The bytes there are by now."""
        with self._lock:
            return len(self.stored())

    def close(self) -> None:
        """Do nothing."""

    def stored(self) -> Data:
        """The bytes."""
        return self._data


class MemoryOutput:
    """Bytes that grow; under ``lock``, where others read them meanwhile. ``data`` are they."""

    def __init__(
        self,
        data: bytearray | None = None,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        self.data = bytearray() if data is None else data
        self._lock = lock or nullcontext()

    @property
    def size(self) -> int:
        """The bytes there are."""
        with self._lock:
            return len(self.stored())

    def write(self, data: Data, /) -> None:
        """Append."""
        with self._lock:
            stored = self.stored()
            stored += data

    def update(self, offset: int, data: Data, /) -> None:
        """Overwrite existing bytes."""
        with self._lock:
            stored = self.stored()
            check_within(offset, len(data), len(stored))
            stored[offset : offset + len(data)] = data

    def truncate(self, size: int, /) -> None:
        """Cut the end off."""
        with self._lock:
            stored = self.stored()
            check_cut(size, len(stored))
            del stored[size:]

    def flush(self) -> None:
        """Nothing: it is all there."""

    def sync(self) -> None:
        """Do nothing: memory cannot be made durable."""

    def input(self) -> MemoryInput:
        """The written bytes, from the beginning."""
        return MemoryInput(self.data, self._lock)

    def close(self) -> None:
        """Do nothing."""

    def stored(self) -> bytearray:
        """The bytes."""
        return self.data
