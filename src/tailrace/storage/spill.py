"""What waits until its use is decided: in memory, and past a limit in a temporary file.

`Spill` holds bytes, `SpilledObjects` objects. The file is created when it is first needed. It has
no name, and ends with `close` or the process.
"""

from __future__ import annotations

import pickle
from bisect import bisect_right
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from tailrace.closing import Closing
from tailrace.events.walk import whole_events
from tailrace.storage.streams.base import SpillOutput, check_cut, needs
from tailrace.storage.streams.file import TemporaryOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tailrace.storage.streams.base import Data, OutputStream, RandomInput

T = TypeVar("T")

_PIECE: Final = 1 << 20
_MOST_WRITTEN: Final = 4 << 20
"""Bytes that are held for the next write once there is a file: memory that large is reused."""
_BLOCK: Final = 1 << 20
"""Bytes of objects that are written together after the limit was passed."""


class Spill(Closing):
    """Bytes that are written, cut back to savepoints, and read again.

    It holds at most ``limit`` bytes in memory, and moves them to a temporary file when there are
    more; a larger piece goes there directly. The file is created in ``folder`` (None: where
    `tempfile` creates them). ``wrap`` adds a stream on it: the encryption, if the log is encrypted.
    `truncate` rolls back a write that failed. Use it as a context manager, or `close` it after any
    error. Raises StorageError if the file cannot be created or written.
    """

    def __init__(
        self,
        limit: int,
        *,
        wrap: Callable[[SpillOutput], SpillOutput] | None = None,
        folder: str | Path | None = None,
    ) -> None:
        self._limit = limit
        self._wrap = wrap
        self._folder = folder
        self._held = bytearray()
        self._file: SpillOutput | None = None
        self._source: RandomInput | None = None
        self._in_file = 0
        self.disk_writes = 0

    disk_writes: int
    """Writes to temporary files, from the beginning on."""

    def __len__(self) -> int:
        return self._in_file + len(self._held)

    @property
    def in_memory(self) -> int:
        """Bytes in memory; the others are in the temporary file."""
        return len(self._held)

    def write(self, data: Data, /) -> None:
        """Append."""
        limit = self._limit if self._file is None else min(self._limit, _MOST_WRITTEN)
        if len(self._held) + len(data) > limit:
            if self._held:
                self._to_disk(self._held)
                self._held = bytearray()
            if len(data) > limit:
                self._to_disk(data)
                return
        self._held += data

    def _to_disk(self, data: Data) -> None:
        file = self._file
        if file is None:
            file = self._file = self._created()
        if file.size != self._in_file:  # some part of a write that failed
            file.truncate(self._in_file)
        file.write(data)
        self.disk_writes += 1
        self._in_file += len(data)

    def _created(self) -> SpillOutput:
        file = TemporaryOutput("the transaction's temporary file", self._folder)
        if self._wrap is None:
            return file
        try:
            wrapped = self._wrap(file)
            needs(wrapped, SpillOutput, "Spill")
        except BaseException:
            file.close()
            raise
        return wrapped

    def truncate(self, length: int, /) -> None:
        """Truncate to a savepoint's length. Raises UsageError for one after the end."""
        check_cut(length, len(self))
        if length < self._in_file and self._file is not None:
            self._file.truncate(length)
            self._held = bytearray()
            self._in_file = length
        else:
            self._held = self._held[: length - self._in_file]

    def reset(self) -> None:
        """Drop everything, and start again."""
        self._held = bytearray()
        self._in_file = 0
        file, self._file, self._source = self._file, None, None
        if file is not None:
            file.close()

    close = reset

    def read_into(self, offset: int, view: memoryview, /) -> int:
        """Read bytes from an offset on into memory: how many, 0 only at the end."""
        if offset < self._in_file and self._file is not None:
            self._file.flush()
            if self._source is None:
                self._source = self._file.input()
            self._source.seek(offset)
            return self._source.readinto(view[: self._in_file - offset])
        start = offset - self._in_file
        with memoryview(self._held) as held:
            count = min(len(view), len(held) - start)
            view[:count] = held[start : start + count]
        return count

    def read(self, offset: int, count: int, /) -> bytearray:
        """``count`` bytes from an offset on, fewer only at the end."""
        data = bytearray(max(min(count, len(self) - offset), 0))
        at = 0
        with memoryview(data) as view:
            while at < len(data) and (more := self.read_into(offset + at, view[at:])):
                at += more
        return data

    def copy_to(self, output: OutputStream) -> None:
        """Write all of it to an output, which may be another spill. This one is unchanged."""
        for at in range(0, len(self), _PIECE):
            output.write(self.read(at, _PIECE))

    def whole_events(self, block: int) -> Iterator[memoryview]:
        """The bytes, if they are events, in pieces of whole events of about ``block`` bytes.

        A piece is valid until the next is requested; nothing may be written meanwhile.
        """
        if not self._in_file and 0 < len(self._held) <= block:
            return iter((memoryview(self._held),))
        return whole_events(self.read_into, len(self), block)

    def take_events(self, block: int, padding: int) -> Iterator[memoryview]:
        """As `whole_events`, once: then it is empty. What is in memory comes as one piece, not
        copied. ``padding`` bytes after each piece may be read.
        """
        if self._in_file:
            yield from whole_events(self.read_into, len(self), block, padding)
        elif self._held:
            held, self._held = self._held, bytearray()
            held += bytes(padding)
            yield memoryview(held)[: len(held) - padding]
        self.reset()


class _Block(NamedTuple):
    first: int
    offset: int


class SpilledObjects(Closing, Generic[T]):
    """A sequence of objects: it can be truncated, and iterated in both directions.

    Each object is appended with its ``size``. When the sizes exceed ``limit`` bytes, the held
    objects are pickled to a `Spill`'s file, and later ones in blocks of a megabyte. Objects of the
    ``shared`` types are kept in memory, once each, and come back as the same objects. Raises
    StorageError if the file cannot be written.
    """

    def __init__(
        self, limit: int, *, shared: tuple[type, ...] = (), folder: str | Path | None = None
    ) -> None:
        self._limit = limit
        self._shared = shared
        self._file = Spill(0, folder=folder)
        self.clear()

    def clear(self) -> None:
        """Drop all that is held."""
        self._file.close()
        self._items: list[T] = []
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
        self._size += size
        if self._size > (_BLOCK if self._blocks else self._limit):
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
        self._file.truncate(block.offset)
        self._count = block.first
        self._items, self._size = items, 0
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
        file: Any = BufferedReader(_Bytes(self._file, block.offset))
        items: list[T] = _Unpickler(file, self._kept).load()
        return items


class _Bytes(RawIOBase):
    """A spill as a file: what is written is appended, what is read begins at an offset."""

    def __init__(self, spill: Spill, offset: int = 0) -> None:
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
