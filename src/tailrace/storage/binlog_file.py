"""A log file being written, whatever lies below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import StorageError
from tailrace.storage.streams.base import RandomOutput, needs
from tailrace.storage.streams.buffer import BUFFER, BufferRandomOutput

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.storage.output import LogFolder
    from tailrace.storage.streams.base import Data


class BinlogFile:
    """One file of a log in a folder: `create` it or `open` it, write, and `close` it.

    Offsets and positions are those of the plain log: where and how its bytes are kept is the
    folder's affair. What is written gathers in ``buffer`` bytes (0: none) until `flush` or `sync`.
    Raises StorageError where the store refuses; a write that failed is taken back by `truncate` to
    the position that was before it. Nothing can be done with a file that is not open.
    """

    write: Callable[[Data], None]
    """Append. It is the stream's own method: passing bytes on costs nothing."""

    def __init__(self, folder: LogFolder, name: str, *, buffer: int = BUFFER) -> None:
        self.folder = folder
        self.name = name
        self._buffer = buffer
        self._stream: RandomOutput | None = None
        self._end = 0
        self.write = self._refuse

    @property
    def path(self) -> str:
        """What a person would call the file."""
        return self.folder.path(self.name)

    def create(self, head: bytes) -> None:
        """Make the file, with ``head`` in it: it is there with all of that or not at all.

        Raises StorageError where one of its name is there.
        """
        self._check_closed()
        self._begin(self.folder.create(self.name, head))

    def open(self) -> None:
        """Go on in a file that is there. Raises StorageError where another writes it."""
        self._check_closed()
        self._begin(self.folder.reopen(self.name))

    def _begin(self, stream: RandomOutput) -> None:
        try:
            needs(stream, RandomOutput, "BinlogFile")
            if self._buffer:
                stream = BufferRandomOutput(stream, self._buffer)
        except BaseException:
            stream.close()
            raise
        self._stream = stream
        self.write = stream.write

    @property
    def is_open(self) -> bool:
        """Whether it can be written."""
        return self._stream is not None

    @property
    def position(self) -> int:
        """Where the next `write` goes: the file's bytes, those that are held among them.

        Of a file that was closed, where it ended.
        """
        return self._end if self._stream is None else self._stream.size

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in it."""
        return self.position == 0

    def update(self, offset: int, data: Data) -> None:
        """Overwrite bytes that are there. Raises UsageError for others."""
        self._opened().update(offset, data)

    def truncate(self, position: int) -> None:
        """Cut the file back. Raises UsageError where it is shorter."""
        self._opened().truncate(position)

    def flush(self) -> None:
        """Hand over what is held: it outlives the end of this process."""
        self._opened().flush()

    def sync(self) -> None:
        """Return when all that was written would outlive a power cut."""
        self._opened().sync()

    def close(self) -> None:
        """Hand over what is held, and let go of the file; a second time does nothing.

        It is let go of also where that fails.
        """
        stream, self._stream = self._stream, None
        self.write = self._refuse
        if stream is not None:
            self._end = stream.size
            stream.close()

    def _opened(self) -> RandomOutput:
        if self._stream is None:
            raise StorageError(f"{self.path}: it is not open for writing")
        return self._stream

    def _refuse(self, _data: Data) -> None:
        self._opened()

    def _check_closed(self) -> None:
        if self._stream is not None:
            raise StorageError(f"{self.path}: it is open already")
