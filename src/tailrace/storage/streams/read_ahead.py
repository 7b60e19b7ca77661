"""Reading ahead: large pieces, the next fetched while one is used. For object stores.

Only its own threads read the stream below: one thread, or for a `RangedInput` as many as pieces are
fetched ahead. Each piece is requested once, by as few reads as the lower stream needs; in an object
store, a piece is one request.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from tailrace.storage.streams.base import RandomInput, RangedInput, needs, read_exactly
from tailrace.storage.streams.input import OffsetInput

if TYPE_CHECKING:
    from concurrent.futures import Future

BLOCK: Final = 8 << 20
"""Bytes of a piece, unless told otherwise: as many as the column path decodes at a time."""
FIRST: Final = 256 << 10
"""Bytes of the first piece: reading only a file's head requests no more."""


class ReadAhead(OffsetInput):
    """Reads up to ``block`` bytes at a time, and up to ``ahead`` such pieces ahead.

    The first piece after a seek has ``first`` bytes and comes alone. While reading is sequential,
    each piece has twice as many bytes as the one before, up to a block, and one more piece is
    fetched ahead. It holds at most ``ahead`` + 1 blocks, and one more for a moment if the lower
    stream gives them in parts. A piece's error is raised when the piece is needed; the next read
    requests it again.

    `size` asks the lower stream only if its last answer is no longer sufficient: at the end, or
    when it is called twice at the same offset, as when waiting for more.
    """

    def __init__(
        self, lower: RandomInput, *, block: int = BLOCK, ahead: int = 2, first: int = FIRST
    ) -> None:
        needs(lower, RandomInput, "ReadAhead")
        self.lower = lower
        self._block = block
        self._ahead = ahead
        self._first = self._next = min(first, block)
        self._at = lower.tell()
        self._start = self._at
        self._held: bytes | memoryview = b""
        self._run = 0
        self._coming: deque[tuple[int, int, Future[bytes | memoryview]]] = deque()
        self._ranged = lower if isinstance(lower, RangedInput) else None
        workers = max(ahead, 1) if self._ranged else 1
        self._worker = ThreadPoolExecutor(workers, "tailrace read-ahead")
        self._size = -1
        self._sized_at = -1

    def _read_at(self, offset: int, count: int) -> bytes:
        """At most ``count`` bytes, those of one block."""
        start = self._hold(offset)
        whole = not start and count >= len(self._held)
        return bytes(self._held if whole else self._held[start : start + count])

    def _readinto_at(self, offset: int, view: bytearray | memoryview) -> int:
        start = self._hold(offset)
        with memoryview(self._held) as held, held[start : start + len(view)] as piece:
            view[: len(piece)] = piece
            return len(piece)

    def _hold(self, offset: int) -> int:
        """Where an offset is in the held piece, which is fetched first if necessary."""
        start = offset - self._start
        if 0 <= start < len(self._held):
            return start
        self._move_to(offset)
        self._order()
        return 0

    def _move_to(self, offset: int) -> None:
        """Hold the piece that begins at an offset."""
        straight = self._held and offset == self._start + len(self._held)
        self._held, self._start = b"", offset
        if not straight:
            self._cancel()
            self._run = 0
            self._next = self._first
        self._run += 1
        if self._coming and self._coming[0][0] == offset:
            _, _, future = self._coming.popleft()
            self._held = future.result()
        if not self._held:  # not ordered, or the end when it was
            self._cancel()
            wanted = self._length()
            self._held = self._submit(offset, wanted).result()
            end = offset + len(self._held)
            if end > self._size:
                self._size = self._ask_size() if len(self._held) == wanted else end

    def _order(self) -> None:
        """Request the next pieces."""
        start = self._start + len(self._held)
        if self._coming:
            start = sum(self._coming[-1][:2])
        while len(self._coming) < min(self._run - 1, self._ahead) and start < self._size:
            count = self._length()
            self._coming.append((start, count, self._submit(start, count)))
            start += count

    def _length(self) -> int:
        """The next piece's bytes."""
        length = self._next
        self._next = min(2 * length, self._block)
        return length

    def _submit(self, start: int, count: int) -> Future[bytes | memoryview]:
        if self._ranged is not None:
            return self._worker.submit(self._ranged.read_at, start, count)
        return self._worker.submit(read_exactly, self.lower, start, count)

    def _ask_size(self) -> int:
        return self._worker.submit(self.lower.size).result()

    def _cancel(self) -> None:
        for _, _, future in self._coming:
            future.cancel()
        self._coming.clear()

    def size(self) -> int:
        """The file's bytes by now, or when it was last asked: see above."""
        if self._at >= self._size or self._sized_at == self._at:
            self._size = self._ask_size()
        self._sized_at = self._at
        return self._size

    def close(self) -> None:
        """End the thread, after the request that it has under way, and close what lies below."""
        if self.is_open:
            super().close()
            self._cancel()
            self._worker.shutdown()
            self.lower.close()
