"""Objects that wait until their use is decided: in memory, and past a limit in a temporary file."""

from __future__ import annotations

import pickle
from bisect import bisect_right
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from tailrace.closing import Closing
from tailrace.storage.binlog_cache import BinlogCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


T = TypeVar("T")

_BLOCK: Final = 1 << 20
"""Bytes of objects that are written together after the limit was passed."""


class _Block(NamedTuple):
    first: int
    offset: int


class SpilledObjects(Closing, Generic[T]):
    """A sequence of objects: it can be truncated, and iterated in both directions.

    Each object is appended with its ``size``. When the sizes exceed ``limit`` bytes, the held
    objects are pickled to a `BinlogCache`'s file, and later ones in blocks of a megabyte. Objects
    of the ``shared`` types are kept in memory, once each, and come back as the same objects.
    Raises StorageError if the file cannot be written.
    """

    def __init__(
        self, limit: int, *, shared: tuple[type, ...] = (), folder: str | Path | None = None
    ) -> None:
        self._limit = limit
        self._shared = shared
        self._file = BinlogCache(0, folder=folder)
        self.clear()

    def clear(self) -> None:
        """Drop all that is held."""
        self._file.reset()
        self._items: list[T] = []
        self._sizes: list[int] = []
        self._size = 0
        self._blocks: list[_Block] = []
        self._count = 0
        self._kept: list[Any] = []
        self._numbers: dict[int, int] = {}

    close = clear

    def __len__(self) -> int:
        return self._count + len(self._items)

    @property
    def in_memory(self) -> int:
        """Bytes of those that are held in memory, as they were appended."""
        return self._size

    @property
    def in_file(self) -> int:
        """How many of them are in the temporary file."""
        return self._count

    def append(self, item: T, size: int) -> None:
        """Hold one more, of so many bytes."""
        self._items.append(item)
        self._sizes.append(size)
        self._size += size
        if self._size > (_BLOCK if self._blocks else self._limit):
            self._write()

    def truncate(self, count: int) -> None:
        """Keep the first ``count`` only."""
        if count >= self._count:
            kept = count - self._count
            self._size -= sum(self._sizes[kept:])
            del self._items[kept:], self._sizes[kept:]
            return
        number = bisect_right(self._blocks, count, key=lambda block: block.first) - 1
        block = self._blocks[number]
        items = self._read(block)[: count - block.first]
        del self._blocks[number:]
        self._file.truncate(block.offset)
        self._count = block.first
        self._items, self._sizes, self._size = items, [], 0
        if items:
            self._write()

    def __iter__(self) -> Iterator[T]:
        """From the first on; nothing may be appended meanwhile."""
        for block in self._blocks:
            yield from self._read(block)
        yield from self._items

    def __reversed__(self) -> Iterator[T]:
        """From the last on; nothing may be appended meanwhile."""
        yield from reversed(self._items)
        for block in reversed(self._blocks):
            yield from reversed(self._read(block))

    def _write(self) -> None:
        block = _Block(self._count, len(self._file))
        _Pickler(_Bytes(self._file), self._number_of).dump(self._items)
        self._blocks.append(block)
        self._count += len(self._items)
        self._items, self._sizes, self._size = [], [], 0

    def _number_of(self, each: Any) -> int | None:
        if not isinstance(each, self._shared):
            return None
        number = self._numbers.get(id(each))
        if number is None:
            number = self._numbers[id(each)] = len(self._kept)
            self._kept.append(each)
        return number

    def _read(self, block: _Block) -> list[T]:
        file: Any = BufferedReader(_Bytes(self._file, block.offset))
        items: list[T] = _Unpickler(file, self._kept).load()
        return items


class _Bytes(RawIOBase):
    """A spill as a file: what is written is appended, what is read begins at an offset."""

    def __init__(self, spill: BinlogCache, offset: int = 0) -> None:
        self._spill = spill
        self._offset = offset

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with memoryview(buffer) as view:
            count = self._spill.read_into(self._offset, view.cast("B"))
        self._offset += count
        return count

    def write(self, data: Any) -> int:
        with memoryview(data) as view:
            self._spill.write(view)
            return view.nbytes


class _Pickler(pickle.Pickler):
    """Writes a number for an object that is kept in memory."""

    def __init__(self, file: RawIOBase, number_of: Callable[[Any], int | None]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._number_of = number_of

    def persistent_id(self, each: Any) -> int | None:
        return self._number_of(each)


class _Unpickler(pickle.Unpickler):
    """`_Pickler`'s mirror."""

    def __init__(self, file: Any, kept: Sequence[Any]) -> None:
        super().__init__(file)
        self._kept = kept

    def persistent_load(self, number: int) -> Any:
        return self._kept[number]
