"""A log file that is being written, in any folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.constants import FILE_FLAGS_AT
from tailrace.errors import StorageError, UsageError
from tailrace.events.format_description import with_in_use
from tailrace.storage.store import WritableStore
from tailrace.storage.streams.base import RandomOutput, needs
from tailrace.storage.streams.buffer import BUFFER, BufferRandomOutput

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.storage.streams.base import Data


class BinlogFile:
    """One file of a log in a folder: `create` it or `open` it, write, and `close` it.

    Offsets and positions are those of the plain log; the folder decides where and how the bytes are
    stored. Written bytes gather in a buffer of ``buffer`` bytes (0: none) until `flush` or `sync`.
    Raises StorageError if the store fails; `truncate` to the previous position rolls back a write
    that failed. A file must be open for all operations.
    """

    write: Callable[[Data], None]
    """Append. It is the stream's own method: passing bytes on costs nothing."""
    flush: Callable[[], None]
    """Hand the buffered bytes to the store: they survive the end of this process. It is the
    stream's own method, too.
    """

    def __init__(self, folder: WritableStore, name: str, *, buffer: int = BUFFER) -> None:
        needs(folder, WritableStore, "BinlogFile")
        if not isinstance(name, str):
            raise UsageError(f"a BinlogFile's name is text, not {name!r}")
        self.folder = folder
        self.name = name
        self._buffer = buffer
        self._stream: RandomOutput | None = None
        self._end = 0
        self.write = self._reject
        self.flush = self._reject_flush

    @property
    def path(self) -> str:
        """The file's path or URL for messages."""
        return self.folder.path(self.name)

    def create(self, head: bytes) -> None:
        """Create the file with ``head`` in it, completely or not at all.

        Raises StorageError if a file of its name exists. In an `EncryptedFolder`, ``head`` has the
        magic and the format description; else UsageError is raised.
        """
        self._check_closed()
        self._begin(self.folder.create(self.name, head))

    def open(self) -> None:
        """Open an existing file to append to. Raises StorageError if another writer has it open."""
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
        self.flush = stream.flush

    @property
    def is_open(self) -> bool:
        """Whether it can be written."""
        return self._stream is not None

    @property
    def position(self) -> int:
        """Where the next `write` goes: the file's size, with the buffered bytes.

        For a closed file, where it ended.
        """
        return self._end if self._stream is None else self._stream.size

    @property
    def is_empty(self) -> bool:
        """Whether it is empty."""
        return self.position == 0

    def update(self, offset: int, data: Data) -> None:
        """Overwrite existing bytes. Raises UsageError for others.

        In a log that MariaDB's encryption protects, these are the bytes of the magic and the format
        description, which are not encrypted (256 bytes): each later event is encrypted as one text
        with its offset as the nonce, which must not be used for a second text.
        """
        self._opened().update(offset, data)

    def mark(self, *, in_use: bool) -> None:
        """Set or clear IN_USE in the first event; the flag does not count in its checksum."""
        flags = self.folder.read(self.name, FILE_FLAGS_AT, 1)[0]
        self.update(FILE_FLAGS_AT, bytes([with_in_use(flags, in_use=in_use)]))

    def truncate(self, position: int) -> None:
        """Truncate the file. Raises UsageError if it is shorter."""
        self._opened().truncate(position)

    def sync(self) -> None:
        """Return when everything written would survive a power cut."""
        self._opened().sync()

    def close(self) -> None:
        """Flush the buffered bytes, and close the file; closing again does nothing.

        The file is closed even if flushing fails. After an interrupt (KeyboardInterrupt) it can be
        closed again.
        """
        stream = self._stream
        self.write = self._reject
        self.flush = self._reject_flush
        if stream is not None:
            self._end = stream.size
            try:
                stream.close()
            except Exception:
                self._stream = None
                raise
            self._stream = None

    def _opened(self) -> RandomOutput:
        if self._stream is None:
            raise StorageError(f"{self.path}: it is not open for writing")
        return self._stream

    def _reject(self, _data: Data) -> None:
        self._opened()

    def _reject_flush(self) -> None:
        self._opened()

    def _check_closed(self) -> None:
        if self._stream is not None:
            raise StorageError(f"{self.path}: it is open already")
