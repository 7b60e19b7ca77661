"""Writes chunks of a stream to a copy at once, syncs them by the policy, then tells observers."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Self

from tailrace.constants import GTID_TYPES, TYPE_AT
from tailrace.durations import seconds_of
from tailrace.errors import LogError, ProtocolError, UsageError
from tailrace.events import DecodeContext, GtidEvent, MariadbGtidEvent
from tailrace.live.chunks import Chunk
from tailrace.observers import RelayFlag, RelayIoObserver
from tailrace.transaction import Boundary, BoundaryParser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tailrace.events import FormatDescription
    from tailrace.live.chunks import FileBegin
    from tailrace.observers import RelayIo, RelayIoDelegate
    from tailrace.replication.copy.files import Copy

_log: Final = logging.getLogger("tailrace.receiver")
_ENDS: Final = frozenset({Boundary.END, Boundary.OUTSIDE})
MOST_BYTES: Final = 32 << 20
"""The most bytes of a group, so that the wait for its acknowledgement is limited."""
MOST_SECONDS: Final = 0.5
"""The longest time of a group, even if more and more arrives."""
_MOMENT: Final = 0.005
"""Seconds."""


@dataclass(frozen=True, slots=True)
class SyncPolicy:
    """``group``: everything that arrived together is synced at once. ``transaction``: each
    transaction is synced separately. ``time``: every ``seconds``, if something was written.
    """

    by: Literal["group", "transaction", "time"]
    seconds: float = MOST_SECONDS

    @classmethod
    def of(cls, given: str | float) -> Self:
        """``group``, ``transaction``, or an interval: ``500ms``, ``2s``, a number of seconds.

        Raises UsageError.
        """
        if given == "group":
            return cls("group")
        if given == "transaction":
            return cls("transaction")
        try:
            return cls("time", seconds_of(given, "sync", least=0.001, most=86400))
        except UsageError:
            raise UsageError(
                f"sync is group, transaction or an interval such as 500ms or 2s, not {given!r}"
            ) from None

    def is_due(self, waiting: Callable[[], bool], size: int, seconds: float) -> bool:
        """Whether ``size`` bytes, the first written ``seconds`` ago, have to be synced now.

        ``waiting`` says whether more has arrived already. By ``transaction``, each transaction is
        synced as it is written, and the rest is a part of one.
        """
        if self.by == "transaction":
            return False
        if self.by == "time":
            return seconds >= self.seconds
        return size >= MOST_BYTES or seconds >= self.seconds or not waiting()


class TransactionEnds:
    """Finds transactions in one file after another: `begin` each, then `note` or `cut` its chunks.

    A GTID event begins a transaction, so everything before it is complete. Only the events after
    the last GTID event in a chunk have to be decoded, and only if the end of a transaction is asked
    for.

    ``begun`` is the offset in the file at which the last transaction begins: its GTID event, or the
    first event in a log without GTID events.
    """

    def __init__(self) -> None:
        self.begun = 0
        self._name = ""
        self._gtid = b""
        self._parser = BoundaryParser()
        self._context = DecodeContext(unknown="opaque")

    def begin(self, name: str, form: FormatDescription, begun: int) -> None:
        """A file begins or is resumed; its last transaction begins at ``begun``."""
        self._name = name
        self.begun = begun
        self._parser = BoundaryParser()
        self._context = DecodeContext(form, form.checksum_algorithm, unknown="opaque")

    @property
    def inside(self) -> bool:
        """Whether the events fed to `cut` and `feed` end inside a transaction."""
        return self._parser.inside

    @property
    def gtid(self) -> str | None:
        """The last GTID that was seen; None if the log has none."""
        if not self._gtid:
            return None
        try:
            event = self._context.decode(self._gtid, verify_checksum=False)
            found = event.gtid if isinstance(event, (GtidEvent, MariadbGtidEvent)) else None
        except LogError:  # it is copied unchanged; readers of the copy get the error
            return None
        return None if found is None else str(found)

    def note(self, chunk: Chunk) -> None:
        """Look for the last GTID event of a chunk, and no further."""
        for number in range(len(chunk.starts) - 1, -1, -1):
            if chunk.data[chunk.starts[number] + TYPE_AT] in GTID_TYPES:
                self._begins(chunk, number)
                return

    def cut(self, chunk: Chunk) -> list[int]:
        """The numbers of a chunk's events before which a transaction has ended, ascending."""
        groups = [
            number
            for number, start in enumerate(chunk.starts)
            if chunk.data[start + TYPE_AT] in GTID_TYPES
        ]
        ends = [number for number in groups if number]
        if groups:
            self._begins(chunk, groups[-1])
            self._parser = BoundaryParser()
        first = groups[-1] if groups else 0
        for number, (start, end) in enumerate(chunk.events()):
            if number >= first and self.feed(chunk.data[start:end], chunk.offset + start):
                ends.append(number + 1)
        return ends

    def feed(self, raw: bytes | memoryview, offset: int) -> bool:
        """Feed one event; whether it ends a transaction, or is outside of any.

        True also for an event that cannot be decoded: a copy of bytes can end anywhere, and its
        receiver does not reject them.
        """
        try:
            event = self._context.decode(raw, file=self._name, offset=offset, verify_checksum=False)
            return self._parser.feed(event) in _ENDS
        except LogError as error:
            self._parser = BoundaryParser()
            _log.warning("the end of a transaction could not be determined: %s", error)
            return True

    def go_over(self, events: Iterable[tuple[int, bytes]]) -> None:
        """Feed the events from ``begun`` on up to where `cut` will resume: (offset, bytes)."""
        self._parser = BoundaryParser()
        for offset, raw in events:
            self.feed(raw, offset)

    def _begins(self, chunk: Chunk, number: int) -> None:
        start, end = chunk.begin_of(number), chunk.begin_of(number + 1)
        self.begun = chunk.offset + start
        self._gtid = bytes(chunk.data[start:end])


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
        self.slowest = 0.0
        """Seconds from a write to its sync, the longest since this was last set to 0."""
        self._since = 0.0
        self._size = 0
        self._untold: list[Chunk] = []

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
            first = 0
            for last in self.ends.cut(chunk):
                self._put(chunk.part(first, last))
                self.sync()
                first = last
            if first < len(chunk.starts):
                self._put(chunk.part(first, len(chunk.starts)))
            return
        self.ends.note(chunk)
        self._put(chunk)
        self.sync_if_due()

    def write_to_end(self, chunk: Chunk) -> bool:
        """Write a chunk up to the first end of a transaction in it, if any. See `look`."""
        self._check(chunk)
        ends = self.ends.cut(chunk)
        self._put(chunk.part(0, ends[0]) if ends else chunk)
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

    def _put(self, chunk: Chunk) -> None:
        self.copy.write(chunk.data, chunk.starts)
        begun = chunk.starts[-1]
        self.second = int.from_bytes(chunk.data[begun : begun + 4], "little") or self.second
        self._since = self._since or time.monotonic()
        self._size += len(chunk.data)
        self.written += len(chunk.data)
        if self._delegate is not None:
            copied = memoryview(bytes(chunk.data))
            self._untold.append(Chunk(chunk.file, chunk.offset, copied, list(chunk.starts)))

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
        each piece. By ``time`` it is what is left of the interval.
        """
        if self.copy.synced or self._policy.by == "transaction":
            return most
        if self._policy.by == "time":
            return min(most, max(self._since + self._policy.seconds - time.monotonic(), 0.0))
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
        if self._since:
            self.slowest = max(self.slowest, time.monotonic() - self._since)
        self._since, self._size = 0.0, 0

    def sync(self) -> None:
        """Sync, then tell observers. Raises StorageError, ObserverError."""
        self.sync_copy()
        if self._untold:
            untold, self._untold = self._untold, []
            self._tell(untold)

    def _tell(self, untold: Sequence[Chunk]) -> None:
        delegate, io = self._delegate, self.io
        if delegate is None or io is None:
            return
        number = sum(len(chunk.starts) for chunk in untold)
        for chunk in untold:
            for start, end in chunk.events():
                number -= 1
                io.log_name, io.log_pos = chunk.file, chunk.offset + end
                flag = RelayFlag.NONE if number else RelayFlag.SYNCED
                delegate.after_queue_event(io, chunk.data[start:end], flag)


class SyncFirst(RelayIoObserver):
    """Called before all other observers: a request from a position acknowledges all before it."""

    def __init__(self) -> None:
        self.writer: CopyWriter | None = None

    def before_request_transmit(self, io: RelayIo, flags: int) -> int:  # noqa: ARG002 - its form
        """Sync what was written before the source is asked for the events after it."""
        if self.writer is not None:
            self.writer.sync_copy()
        return flags
