"""Objects that are held until their use is decided: in memory, and past a limit in a temporary
file.
"""

from __future__ import annotations

import pickle
from bisect import bisect_right
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from tailrace.storage.streams.temporary import TemporaryOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

T = TypeVar("T")

_BLOCK: Final = 1 << 20
"""Bytes of objects that are written together after the limit was passed."""


class _Block(NamedTuple):
    first: int
    offset: int
    length: int


class Spill(Generic[T]):
    """A sequence of objects: it can be truncated, and iterated from the first on.

    Each object is appended with its ``size``. When the sizes exceed ``limit`` bytes, the held
    objects are pickled to a temporary file, and later ones in blocks of a megabyte. The file has no
    name, and ends with `clear` or the process. Objects of the ``shared`` types are kept in memory,
    once each, and come back as the same objects. Raises StorageError if the file cannot be written.
    """

    def __init__(
        self, limit: int, *, shared: tuple[type, ...] = (), folder: str | Path | None = None
    ) -> None:
        self._limit = limit
        self._shared = shared
        self._folder = folder
        self._file: TemporaryOutput | None = None
        self.clear()

    def clear(self) -> None:
        """Drop all that is held."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._items: list[T] = []
        self._size = 0
        self._blocks: list[_Block] = []
        self._written = 0
        self._count = 0
        self._kept: list[Any] = []
        self._numbers: dict[int, int] = {}

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
        self._size += size
        if self._size > (_BLOCK if self._file is not None else self._limit):
            self._write()

    def truncate(self, count: int) -> None:
        """Keep the first ``count`` only."""
        if count >= self._count:
            del self._items[count - self._count :]
            return
        number = bisect_right(self._blocks, count, key=lambda block: block.first) - 1
        block = self._blocks[number]
        items = self._read(block)[: count - block.first]
        del self._blocks[number:]
        self._written, self._count = block.offset, block.first
        self._items, self._size = items, 0
        if items:
            self._write()

    def __iter__(self) -> Iterator[T]:
        """From the first on; nothing may be appended meanwhile."""
        for block in self._blocks:
            yield from self._read(block)
        yield from self._items

    def _write(self) -> None:
        file = self._file
        if file is None:
            file = self._file = TemporaryOutput("the transaction's temporary file", self._folder)
        file.truncate(self._written)
        buffer = BytesIO()
        _Pickler(buffer, self._number_of).dump(self._items)
        data = buffer.getbuffer()
        file.write(data)
        self._blocks.append(_Block(self._count, self._written, len(data)))
        self._written += len(data)
        self._count += len(self._items)
        self._items, self._size = [], 0

    def _number_of(self, each: Any) -> int | None:
        if not isinstance(each, self._shared):
            return None
        number = self._numbers.get(id(each))
        if number is None:
            number = self._numbers[id(each)] = len(self._kept)
            self._kept.append(each)
        return number

    def _read(self, block: _Block) -> list[T]:
        if self._file is None:
            return []
        source = self._file.input()
        source.seek(block.offset)
        data = bytearray()
        while piece := source.read(block.length - len(data)):
            data += piece
        items: list[T] = _Unpickler(BytesIO(data), self._kept).load()
        return items


class _Pickler(pickle.Pickler):
    """Writes a number for an object that is kept in memory."""

    def __init__(self, file: BytesIO, number_of: Callable[[Any], int | None]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._number_of = number_of

    def persistent_id(self, each: Any) -> int | None:
        return self._number_of(each)


class _Unpickler(pickle.Unpickler):
    """`_Pickler`'s mirror."""

    def __init__(self, file: BytesIO, kept: Sequence[Any]) -> None:
        super().__init__(file)
        self._kept = kept

    def persistent_load(self, number: int) -> Any:
        return self._kept[number]
