"""A transaction's bytes until it is committed: in memory, and past a limit in a temporary file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.closing import Closing
from tailrace.storage.streams.base import SpillOutput, check_cut, needs
from tailrace.storage.streams.temporary import TemporaryOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tailrace.storage.streams.base import Data, OutputStream

_PIECE: Final = 1 << 20


class BinlogCache(Closing):
    """Bytes that are written, cut back to savepoints, and copied out once.

    It holds at most ``limit`` bytes in memory, and moves them to a temporary file when there are
    more; a larger piece goes there directly. The file is created when it is first needed, in
    ``folder`` (None: where `tempfile` creates them). It has no name, and ends with `reset`,
    `close`, or the process. ``wrap`` adds a stream on it: the encryption, if the log is encrypted.
    `truncate` rolls back a write that failed. Use the cache as a context manager, or `close` it
    after any error. Raises StorageError if the file cannot be created or written.
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
        self._spill: SpillOutput | None = None
        self._spilled = 0
        self.disk_writes = 0

    disk_writes: int
    """Writes to temporary files, from the cache's beginning on."""

    @property
    def length(self) -> int:
        """Bytes in the cache."""
        return self._spilled + len(self._held)

    @property
    def is_empty(self) -> bool:
        """Whether it is empty."""
        return not self.length

    @property
    def in_memory(self) -> int:
        """Bytes in memory; the others are in the temporary file."""
        return len(self._held)

    def write(self, data: Data, /) -> None:
        """Append."""
        if len(self._held) + len(data) > self._limit:
            if self._held:
                self._to_disk(self._held)
                self._held = bytearray()
            if len(data) > self._limit:
                self._to_disk(data)
                return
        self._held += data

    def _to_disk(self, data: Data) -> None:
        spill = self._spill
        if spill is None:
            spill = self._spill = self._file()
        if spill.size != self._spilled:  # some part of a write that failed
            spill.truncate(self._spilled)
        spill.write(data)
        self.disk_writes += 1
        self._spilled += len(data)

    def _file(self) -> SpillOutput:
        file = TemporaryOutput("the transaction's temporary file", self._folder)
        if self._wrap is None:
            return file
        try:
            wrapped = self._wrap(file)
            needs(wrapped, SpillOutput, "BinlogCache")
        except BaseException:
            file.close()
            raise
        return wrapped

    def truncate(self, length: int, /) -> None:
        """Truncate to a savepoint's length. Raises UsageError for one after the end."""
        check_cut(length, self.length)
        if length < self._spilled and self._spill is not None:
            self._spill.truncate(length)
            self._held = bytearray()
            self._spilled = length
        else:
            self._held = self._held[: length - self._spilled]

    def reset(self) -> None:
        """Drop everything, and start again."""
        self._held = bytearray()
        self._spilled = 0
        spill, self._spill = self._spill, None
        if spill is not None:
            spill.close()

    def pieces(self, count: int = _PIECE) -> Iterator[bytes]:
        """The bytes from the first on, in pieces of ``count`` at most. Nothing may be written
        meanwhile.
        """
        if self._spilled and self._spill is not None:
            self._spill.flush()
            source = self._spill.input()
            left = self._spilled
            while left:
                piece = source.read(min(count, left))
                if not piece:
                    break
                left -= len(piece)
                yield piece
        for start in range(0, len(self._held), count):
            yield bytes(self._held[start : start + count])

    def copy_to(self, output: OutputStream) -> None:
        """Write all of it to an output, which may be another cache. The cache is unchanged."""
        for piece in self.pieces():
            output.write(piece)

    close = reset
