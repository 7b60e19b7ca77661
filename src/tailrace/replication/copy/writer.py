"""Writes chunks of a stream to a copy at once, syncs them by the policy, then tells observers."""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from tailrace.errors import ProtocolError
from tailrace.observers import RelayFlag, RelayIoObserver
from tailrace.replication.copy.ends import TransactionEnds
from tailrace.replication.syncing import MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.live.chunks import Chunk, FileBegin
    from tailrace.observers import RelayIo, RelayIoDelegate
    from tailrace.replication.copy.files import Copy
    from tailrace.replication.syncing import SyncPolicy

_MOMENT: Final = 0.005
"""Seconds."""


class CopyWriter:
    """Writes a feed's chunks. Without observers (``delegate`` None) no event is decoded.

    Observers are told of an event when it is synced. The last event of those that were synced
    together has the flag SYNCED. ``waiting`` says whether more has arrived already.
    """

    def __init__(
        self,
        copy: Copy,
        policy: SyncPolicy,
        *,
        delegate: RelayIoDelegate | None = None,
        waiting: Callable[[], bool] = lambda: False,
    ) -> None:
        self.copy = copy
        self.ends = TransactionEnds()
        self.written = 0
        """Bytes."""
        self.second = 0
        """The time stamp of the last event that has one: seconds UTC at the source."""
        self.io: RelayIo | None = None
        """The argument of the observers' calls."""
        self._policy = policy
        self._delegate = delegate
        self._waiting = waiting
        self._since = 0.0
        self._size = 0
        self._untold: list[tuple[str, int, bytes, list[int]]] = []

    def begin(self, begin: FileBegin) -> bool:
        """A file begins or is resumed; whether it is a new one. Raises ProtocolError."""
        position = self.copy.position
        if position is not None and position.file == begin.file:
            if position.offset != begin.offset:
                raise ProtocolError(
                    f"{begin.file}: the stream resumes at {begin.offset}, the copy ends at"
                    f" {position.offset}"
                )
            self._resume()
            return False
        if begin.artificial:
            raise ProtocolError(f"{begin.file}: the stream begins inside it, at {begin.offset}")
        self.sync()
        self.copy.begin(begin.file, begin.description)
        self._start(begin.file, begin.offset)
        return True

    def _resume(self) -> None:
        last = self.copy.last
        if last is None or self.copy.is_open:
            return
        grows = self.copy.resume()
        self._start(last.name, last.begun)
        if self._policy.by == "transaction" and grows:
            self.look()

    def _start(self, name: str, begun: int) -> None:
        if self.copy.form is not None:
            self.ends.begin(name, self.copy.form, begun)

    def write(self, chunk: Chunk) -> None:
        """Write a whole chunk, and sync if that is due. Raises StorageError."""
        self._check(chunk)
        if self._policy.by == "transaction":
            at = 0
            for end in self.ends.cut(chunk.offset, chunk.data, chunk.starts):
                self._put(chunk, at, end)
                self.sync()
                at = end
            self._put(chunk, at, len(chunk.data))
            return
        self.ends.note(chunk.offset, chunk.data, chunk.starts)
        self._put(chunk, 0, len(chunk.data))
        self.sync_if_due()

    def write_to_end(self, chunk: Chunk) -> bool:
        """Write a chunk up to the first end of a transaction in it, if any. See `look`."""
        self._check(chunk)
        ends = self.ends.cut(chunk.offset, chunk.data, chunk.starts)
        self._put(chunk, 0, ends[0] if ends else len(chunk.data))
        return bool(ends)

    def look(self) -> bool:
        """Find out from the written file whether the copy ends inside a transaction now."""
        self.ends.go_over(self.copy.events(self.ends.begun))
        return self.ends.inside

    def _check(self, chunk: Chunk) -> None:
        position = self.copy.position
        if position is None or (position.file, position.offset) != (chunk.file, chunk.offset):
            raise ProtocolError(
                f"the stream resumes at {chunk.file}:{chunk.offset}, the copy ends at {position}"
            )

    def _put(self, chunk: Chunk, begin: int, end: int) -> None:
        if begin == end:
            return
        data, starts = chunk.data, chunk.starts
        if begin or end < len(data):
            first, last = bisect_left(starts, begin), bisect_left(starts, end)
            data, starts = data[begin:end], [start - begin for start in starts[first:last]]
        self.copy.write(data, starts)
        begun = starts[-1]
        self.second = int.from_bytes(data[begun : begun + 4], "little") or self.second
        self._since = self._since or time.monotonic()
        self._size += len(data)
        self.written += len(data)
        if self._delegate is not None:
            self._untold.append((chunk.file, chunk.offset + begin, bytes(data), list(starts)))

    # --- syncing ---------------------------------------------------------------------------------

    def sync_if_due(self) -> None:
        """Sync if the policy says that it is time. Raises StorageError, ObserverError."""
        if self.copy.synced:
            return
        seconds = time.monotonic() - self._since
        full = self._delegate is not None and self._size >= MOST_BYTES
        if full or self._policy.is_due(self._more, self._size, seconds):
            self.sync()

    def _more(self) -> bool:
        """Whether more may arrive soon."""
        return self._delegate is None or self._waiting()

    def patience(self, most: float) -> float:
        """How long to wait for more, in seconds, before calling `idle`.

        A group ends when nothing more has arrived. If no acknowledgement depends on it, it ends a
        moment later, so that a source that sends at full speed is not interrupted by a sync for
        each piece.
        """
        if self._policy.by != "group" or self.copy.synced:
            return most
        return _MOMENT if self._delegate is None else 0.0

    def idle(self) -> None:
        """Nothing more has arrived in that time. Raises StorageError, ObserverError."""
        if self._policy.by == "group":
            self.sync()
        else:
            self.sync_if_due()

    def sync_copy(self) -> None:
        """Sync, without telling observers yet."""
        self.copy.sync()
        self._since, self._size = 0.0, 0

    def sync(self) -> None:
        """Sync, then tell observers. Raises StorageError, ObserverError."""
        self.sync_copy()
        if self._untold:
            untold, self._untold = self._untold, []
            self._tell(untold)

    def _tell(self, untold: Sequence[tuple[str, int, bytes, list[int]]]) -> None:
        delegate, io = self._delegate, self.io
        if delegate is None or io is None:
            return
        number = sum(len(starts) for *_, starts in untold)
        for file, offset, data, starts in untold:
            view = memoryview(data)
            for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
                number -= 1
                io.log_name, io.log_pos = file, offset + end
                flag = RelayFlag.NONE if number else RelayFlag.SYNCED
                delegate.after_queue_event(io, view[start:end], flag)


class SyncFirst(RelayIoObserver):
    """Called before all other observers: a request from a position acknowledges all before it."""

    def __init__(self) -> None:
        self.writer: CopyWriter | None = None

    def before_request_transmit(self, io: RelayIo, flags: int) -> int:  # noqa: ARG002 - its form
        """Sync what was written before the source is asked for the events after it."""
        if self.writer is not None:
            self.writer.sync_copy()
        return flags
