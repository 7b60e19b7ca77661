"""A log file's bytes, block by block, in memory that the kernels may read."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tailrace.closing import Closing
from tailrace.columns.calendar import crc_tables
from tailrace.columns.frames.plan import PADDING
from tailrace.columns.native import reading
from tailrace.columns.read.decrypt import accelerated
from tailrace.constants import (
    CHECKSUM_SIZE,
    HEADER_SIZE,
    MAGIC,
    MAX_EVENT_SIZE,
    EventType,
)
from tailrace.errors import ChecksumMismatch, OutOfMemory, StorageError, TruncatedEvent
from tailrace.events.format_description import check_magic, file_flags
from tailrace.events.walk import event_length

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor, Future

    from tailrace.storage import LogFile

Array = np.ndarray[Any, Any]

BLOCK: Final = 8 << 20
"""Bytes of log that are decoded at a time: input and output then stay near the cache."""
LARGEST_PAYLOAD: Final = 16 << 20
"""Transaction payloads up to this many bytes are held in memory; larger ones are read in pieces."""
_PIECE: Final = 1 << 18
_FRONT: Final = 1 << 20
"""Bytes before those that a thread reads, for the rest of the block before them."""
_SMALL_FRONT: Final = 1 << 16
"""The same without threads: mostly enough, so that the memory is used again for the next block."""


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


@dataclass(slots=True)
class _Ahead:
    """A block that a thread reads: ``size`` bytes from ``offset`` on, `_FRONT` bytes in.

    ``verified`` are the addresses between which its events were verified.
    """

    offset: int
    memory: Array
    size: int = 0
    verified: tuple[int, int] = (0, 0)


class Blocks(Closing):
    """Reads a log's plain bytes from an offset on, up to ``end`` (None: its end as of each read).

    ``data`` holds the ``size`` bytes of the block at ``offset``; `next` drops the consumed bytes
    and reads more. With ``threads`` one of them reads the next block while this one is used; with
    ``verify`` it verifies checksums, too: ``verified`` are the addresses of the first event in the
    block that matches its own, and after the last. The others may match as well.
    """

    def __init__(
        self,
        log: LogFile,
        offset: int = 0,
        end: int | None = None,
        *,
        threads: Executor | None = None,
        verify: bool = False,
    ) -> None:
        if log.joined:
            raise StorageError(
                f"{log.path}: what comes through a pipe is read event by event only: save it as a"
                " file, and give that",
            )
        self._file = accelerated(log.open())
        self.path = log.path
        self._end = end
        self.offset = offset
        self.size = 0
        self.block = BLOCK
        self.data: Array = np.empty(0, np.uint8)
        self.verified = (0, 0)
        self._kept: list[Array] = []
        self._threads = threads
        self._verify = verify
        self._memory = self._spare = self.data
        self._ahead: Future[_Ahead] | None = None

    @property
    def kept(self) -> int:
        """Bytes of kept blocks before this one."""
        return sum(map(len, self._kept))

    def close(self) -> None:
        """Close the file, once the thread does not read it any more."""
        self._finish_reading()
        self._file.close()

    def check_magic(self) -> None:
        """Read the first four bytes; raises `BadMagic` if they are not a log's."""
        check_magic(b"".join(self.read_some(0, len(MAGIC))), self.path)
        self.offset = 4

    def file_flags(self) -> int:
        """The flags of the log's first event; 0 if its header is not whole."""
        return file_flags(b"".join(self.read_some(0, len(MAGIC) + HEADER_SIZE)))

    def next(self, consumed: int, *, keep: bool = False) -> bool:
        """Drop ``consumed`` bytes and read more; False if there is no more.

        With ``keep`` the block stays unchanged in memory, with those kept before, until the next
        call without it.
        """
        rest = self.size - consumed
        wanted = max(rest + self.block, self._next_event(consumed, rest))
        if self._end is not None:
            wanted = min(wanted, max(self._end - self.offset - consumed, rest))
        ahead = self._read_ahead()
        left = self.data[consumed : self.size]
        if keep:
            self._kept.append(self.data[: self.size])
        else:
            self._kept.clear()
        front = max(rest, _SMALL_FRONT if self._threads is None else _FRONT)
        size = front + wanted - rest + PADDING
        self.verified = (0, 0)
        if ahead is not None and rest <= _FRONT and size <= len(ahead.memory):
            memory, self.verified = ahead.memory, ahead.verified
            if not keep:
                self._spare = self._memory
        elif keep or size > len(self._memory):
            memory = self._room(size, consumed)
        else:
            memory, left = self._memory, left.copy()
        memory[front - rest : front] = left
        done = rest
        if ahead is not None:
            done += min(ahead.size, wanted - rest)
            if memory is not ahead.memory:
                memory[front : front + done - rest] = ahead.memory[_FRONT : _FRONT + done - rest]
                self._spare = ahead.memory
        self._memory, self.data = memory, memory[front - rest :]
        self.offset += consumed
        self.size = done
        if done < wanted:
            self.size += self._fill(self.offset + done, self.data.data[done:wanted])
        if self._threads is not None and self.size >= wanted:
            self._start_reading(self._threads)
        return self.size > rest

    def _room(self, size: int, consumed: int) -> Array:
        try:
            return np.empty(size, np.uint8)
        except MemoryError:
            raise OutOfMemory(
                f"there is no memory to hold {size} bytes of the log from here on",
                file=self.path,
                offset=self.offset + consumed,
            ) from None

    def _fill(self, offset: int, view: memoryview) -> int:
        """Read bytes of the file until there are no more, or no more fit; returns how many."""
        self._file.seek(offset)
        size = 0
        while size < len(view) and (count := self._file.readinto(view[size:])):
            size += count
        return size

    def _start_reading(self, threads: Executor) -> None:
        """Let a thread read the block after this one."""
        offset, count = self.offset + self.size, self.block
        if self._end is not None:
            count = min(count, self._end - offset)
        if count > 0:
            memory, self._spare = self._spare, self._spare[:0]
            if len(memory) < _FRONT + count + PADDING:
                try:
                    memory = np.empty(_FRONT + self.block + PADDING, np.uint8)
                except MemoryError:
                    return  # there may be some when the block is needed
            before = self.data[: self.size]
            self._ahead = threads.submit(
                self._read_block, _Ahead(offset, memory), count, before, self.verified[1]
            )

    def _read_block(self, ahead: _Ahead, count: int, before: Array, verified: int) -> _Ahead:
        """In a thread: read a block, and verify its events.

        The block ``before`` was verified up to the address ``verified``, or not at all.
        """
        begin = int(ahead.memory.ctypes.data) + _FRONT
        ahead.size = self._fill(ahead.offset, ahead.memory.data[_FRONT : _FRONT + count])
        if self._verify:
            verify, end = reading("verify_events"), begin + ahead.size
            before_end = int(before.ctypes.data) + len(before)
            at = verify(verified or int(before.ctypes.data), before_end, 0)
            rest = before_end - at
            header = before[len(before) - rest :][:HEADER_SIZE].tobytes()
            header += ahead.memory[_FRONT : _FRONT + HEADER_SIZE].tobytes()
            first = begin + (event_length(header) - rest if rest else 0)
            if begin <= first <= end:
                ahead.verified = first, verify(first, end, crc_tables().ctypes.data)
        return ahead

    def _finish_reading(self) -> None:
        """Wait until no thread reads the file."""
        if self._ahead is not None:
            self._ahead.exception()

    def _read_ahead(self) -> _Ahead | None:
        """What was read ahead, if it is the block after this one. Raises the error of reading."""
        self._finish_reading()
        future, self._ahead = self._ahead, None
        if future is None:
            return None
        ahead = future.result()
        return ahead if ahead.offset == self.offset + self.size else None

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
        return event_length(self.data.data, at)

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
            self._finish_reading()
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
            file=self.path,
            offset=self.offset + consumed,
        )
