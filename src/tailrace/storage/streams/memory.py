"""Bytes in memory."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from tailrace.storage.streams.base import check_cut, check_within, end_output
from tailrace.storage.streams.input import OffsetInput

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tailrace.storage.streams.base import Data


class MemoryInput(OffsetInput):
    """Bytes being read, while others may append to them.

    They hold ``lock`` then, which this one takes for each read.
    """

    def __init__(self, data: Data, lock: AbstractContextManager[object] | None = None) -> None:
        self._data = data
        self._lock = lock or nullcontext()

    def _read_at(self, offset: int, count: int) -> bytes:
        with self._lock, memoryview(self.stored()) as data:
            return bytes(data[offset : offset + count])

    def _readinto_at(self, offset: int, view: bytearray | memoryview) -> int:
        with self._lock, memoryview(self.stored()) as data, data[offset : offset + len(view)] as it:
            view[: len(it)] = it
            return len(it)

    def size(self) -> int:
        """The bytes there are by now."""
        with self._lock:
            return len(self.stored())

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
        """Take nothing more; the bytes stay."""
        end_output(self)

    def stored(self) -> bytearray:
        """The bytes."""
        return self.data
