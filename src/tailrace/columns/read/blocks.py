"""A log file's bytes, block by block, in memory that the kernels may read."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tailrace.closing import Closing
from tailrace.columns.frames.plan import PADDING
from tailrace.columns.read.decrypt import accelerated
from tailrace.constants import (
    CHECKSUM_SIZE,
    HEADER_SIZE,
    MAGIC,
    MAX_EVENT_SIZE,
    EventType,
)
from tailrace.errors import BadMagic, ChecksumMismatch, OutOfMemory, StorageError, TruncatedEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tailrace.storage import LogFile

Array = np.ndarray[Any, Any]

BLOCK: Final = 8 << 20
"""Bytes of log that are decoded at a time: input and output then stay near the cache."""
LARGEST_PAYLOAD: Final = 16 << 20
"""Transaction payloads up to this many bytes are held in memory; larger ones are read in pieces."""
_PIECE: Final = 1 << 18


def check_large(read: Callable[[int, int], Iterator[bytes]], start: int, end: int) -> None:
    """Raise `ChecksumMismatch` if an event's bytes do not match the CRC-32 that follows them."""
    computed = 0
    for piece in read(start, end):
        computed = zlib.crc32(piece, computed)
    stored = int.from_bytes(b"".join(read(end, end + CHECKSUM_SIZE)), "little")
    if stored != computed:
        raise ChecksumMismatch("its bytes do not match the checksum at their end")


class GrowingMemory:
    """Bytes that come in pieces, in memory that kernels may read: ``size`` of them, and `PADDING`
    bytes after them.
    """

    def __init__(self) -> None:
        self.memory: Array = np.empty(PADDING, np.uint8)
        self.size = 0

    def add(self, piece: bytes | Array) -> None:
        """Take in more. Raises MemoryError."""
        end = self.size + len(piece)
        if end + PADDING > len(self.memory):
            self.reserve(max(end, min(2 * end, end + BLOCK)))
        self.memory[self.size : end] = np.frombuffer(piece, np.uint8)
        self.size = end

    def read(self, read_into: Callable[[memoryview], int], end: int) -> None:
        """Read until there are ``end`` bytes. Raises MemoryError."""
        self.reserve(end)
        while self.size < end:
            self.size += read_into(self.memory.data[self.size : end])

    def reserve(self, size: int) -> None:
        """Make room for this many bytes. Raises MemoryError."""
        if size + PADDING > len(self.memory):
            larger = np.empty(size + PADDING, np.uint8)
            larger[: self.size] = self.memory[: self.size]
            self.memory = larger

    def drop(self, count: int) -> None:
        """Forget the first bytes."""
        rest = self.size - count
        if count and rest:
            self.memory[:rest] = self.memory[count : self.size].copy()
        self.size = rest


class Blocks(Closing):
    """Reads a log's plain bytes from an offset on, up to ``end`` (None: its end as of each read).

    ``data`` holds the ``size`` bytes of the block at ``offset``; `next` drops the consumed bytes
    and
    reads more.
    """

    def __init__(self, log: LogFile, offset: int = 0, end: int | None = None) -> None:
        if log.joined:
            raise StorageError(
                f"{log.path}: what comes through a pipe is read event by event only: save it as a"
                " file, and give that",
            )
        self._file = accelerated(log.open())
        self.name = log.name
        self._end = end
        self.offset = offset
        self.size = 0
        self.block = BLOCK
        self.data: Array = np.empty(0, np.uint8)
        self._kept: list[Array] = []

    @property
    def kept(self) -> int:
        """Bytes of memory of kept blocks before this one."""
        return sum(map(len, self._kept))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def check_magic(self) -> None:
        """Read the first four bytes; raises `BadMagic` if they are not a log's."""
        magic = b"".join(self.read_some(0, len(MAGIC)))
        if magic != MAGIC:
            raise BadMagic("this is not a binary log", file=self.name, offset=0)
        self.offset = 4

    def next(self, consumed: int, *, keep: bool = False) -> bool:
        """Drop ``consumed`` bytes and read more; False if there is no more.

        With ``keep`` the block stays unchanged in memory, with those kept before, until the next
        call without it.
        """
        rest = self.size - consumed
        wanted = max(self.block, self._next_event(consumed, rest))
        if self._end is not None:
            wanted = min(wanted, max(self._end - self.offset - consumed, rest))
        if keep:
            self._kept.append(self.data)
        else:
            self._kept.clear()
        if keep or len(self.data) < wanted + PADDING:
            try:
                larger = np.empty(wanted + PADDING, np.uint8)
            except MemoryError:
                raise OutOfMemory(
                    f"there is no memory to hold {wanted} bytes of the log from here on",
                    file=self.name,
                    offset=self.offset + consumed,
                ) from None
            larger[:rest] = self.data[consumed : self.size]
            self.data = larger
        elif consumed and rest:
            self.data[:rest] = self.data[consumed : self.size].copy()
        self.offset += consumed
        self.size = rest
        self._file.seek(self.offset + rest)
        view = self.data.data
        while self.size < wanted:
            count = self._file.readinto(view[self.size : wanted])
            if not count:
                break
            self.size += count
        return self.size > rest

    def _next_event(self, consumed: int, rest: int) -> int:
        """The size of the partly read event, from its header; 0 for large payloads."""
        if rest < HEADER_SIZE or self.payload_ahead(consumed):
            return 0
        return min(self._event_size(consumed), MAX_EVENT_SIZE)

    def event_size(self, at: int) -> int:
        """The size of the event that begins at byte ``at`` of the block, from its header; 0 if the
        header is not in the block.
        """
        return self._event_size(at) if self.size - at >= HEADER_SIZE else 0

    def _event_size(self, at: int) -> int:
        return int(self.data[at + 9 : at + 13].view(np.uint32)[0])

    def payload_ahead(self, consumed: int) -> int:
        """The size of a transaction payload, after the bytes consumed, that is not read whole.

        0 where there is none, or one that is small enough to be held.
        """
        if self.size - consumed < HEADER_SIZE:
            return 0
        size = self._event_size(consumed)
        is_payload = self.data[consumed + 4] == EventType.TRANSACTION_PAYLOAD
        return size if is_payload and LARGEST_PAYLOAD < size <= MAX_EVENT_SIZE else 0

    def skip(self, offset: int) -> None:
        """Continue at another offset of the file."""
        self.offset, self.size = offset, 0

    def read(self, start: int, end: int) -> Iterator[bytes]:
        """Bytes of the file, in pieces. Raises `TruncatedEvent` where the file is shorter."""
        for piece in self.read_some(start, end):
            start += len(piece)
            yield piece
        if start < end:
            raise TruncatedEvent("the file ends inside the event")

    def read_some(self, start: int, end: int) -> Iterator[bytes]:
        """Bytes of the file; it ends where the file ends. Others may read between the pieces."""
        while start < end:
            self._file.seek(start)
            piece = self._file.read(min(_PIECE, end - start))
            if not piece:
                return
            yield piece
            start += len(piece)

    def torn(self, consumed: int) -> TruncatedEvent:
        """The error for a file that ends inside the event after the consumed bytes."""
        left = self.size - consumed
        return TruncatedEvent(
            f"the file ends {left} bytes into an event",
            file=self.name,
            offset=self.offset + consumed,
        )
