"""The events of a transaction until it is committed: in memory, past a limit in a temporary file.

The file is created when it is first needed. It is in no folder, and ends with `close` or the
process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.closing import Closing
from tailrace.errors import UsageError
from tailrace.events.walk import whole_events
from tailrace.storage.streams.base import SpillOutput, check_cut, is_number, needs, refuse
from tailrace.storage.streams.file import TemporaryOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tailrace.storage.streams.base import Data, OutputStream, RandomInput

_PIECE: Final = 1 << 20
_ENDED: Final = (
    "write",
    "truncate",
    "reset",
    "read",
    "read_into",
    "copy_to",
    "whole_events",
    "take_events",
)
_MOST_WRITTEN: Final = 4 << 20
"""Bytes that are held for the next write once there is a file: memory that large is reused."""


class BinlogCache(Closing):
    """The events of a transaction: written, cut back to savepoints, and read again.

    It takes any bytes; only `whole_events` and `take_events` expect events.

    It holds at most ``limit`` bytes in memory, and moves them to a temporary file when there are
    more; a larger piece goes there directly. The file is created in ``folder`` (None: where
    `tempfile` creates them). ``wrap`` adds a stream on it: the encryption, if the log is encrypted.
    `truncate` rolls back a write that failed. Use it as a context manager, or `close` it after any
    error. Raises StorageError if the file cannot be created or written, and once it was closed.
    """

    def __init__(
        self,
        limit: int,
        *,
        wrap: Callable[[SpillOutput], SpillOutput] | None = None,
        folder: str | Path | None = None,
    ) -> None:
        if not is_number(limit):
            raise UsageError(f"limit: {limit!r} is not a number of bytes")
        self._limit = limit
        self._wrap = wrap
        self._folder = folder
        self._held = bytearray()
        self._file: SpillOutput | None = None
        self._temporary: TemporaryOutput | None = None
        self._source: RandomInput | None = None
        self._in_file = 0
        self.disk_writes = 0

    disk_writes: int
    """Writes to the temporary file, since the cache was made or `reset`: those of a transaction."""

    @property
    def tmp_file_name(self) -> str | None:
        """The path under which the system shows the temporary file; None without one.

        It is in no folder, so that it ends with the process. On Linux it can be read under this
        path while it is open, by those who may look into the process.
        """
        return None if self._temporary is None else self._temporary.shown_as

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
        try:
            wrapped = file if self._wrap is None else self._wrap(file)
            needs(wrapped, SpillOutput, "BinlogCache")
        except BaseException:
            file.close()
            raise
        self._temporary = file
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
        """Drop everything, and start the next transaction."""
        self._drop()
        self.disk_writes = 0

    def close(self) -> None:
        """Drop everything, also the file, and take nothing more. What was counted remains."""
        refuse(self, _ENDED, "used")
        self._drop()

    def _drop(self) -> None:
        self._held = bytearray()
        self._in_file = 0
        file, self._file, self._source, self._temporary = self._file, None, None, None
        if file is not None:
            file.close()

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
        """Write all of it to an output, which may be another cache. This one is unchanged."""
        for at in range(0, len(self), _PIECE):
            output.write(self.read(at, _PIECE))

    def whole_events(self, block: int, start: int = 0) -> Iterator[memoryview]:
        """The bytes, if they are events, in pieces of whole events of about ``block`` bytes; from
        an event's offset ``start`` on.

        A piece is valid until the next is requested; nothing may be written meanwhile.
        """
        size = len(self) - start
        if not self._in_file and 0 < size <= block:
            return iter((memoryview(self._held)[start:],))
        return whole_events(lambda at, view: self.read_into(start + at, view), size, block)

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
