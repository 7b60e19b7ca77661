"""Where a stream's log is: files that somebody writes, or a copy of a server's that we keep."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.errors import StorageError, UsageError
from tailrace.gtid import GtidState
from tailrace.live.scheme import names_server
from tailrace.live.session import Session
from tailrace.live.url import Source
from tailrace.position import Position
from tailrace.selection import one_start
from tailrace.spark.input.backlog import Backlog
from tailrace.spark.input.folder import settled
from tailrace.spark.input.header_index import BEGIN, INNER_BYTES
from tailrace.spark.input.server_log import SPOOL_LIMIT, Room, ServerLog
from tailrace.spark.input.start_position import after_gtids, check_begin
from tailrace.storage.files import find_one
from tailrace.transports import SeriesTransport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.schema.tables import TableState
    from tailrace.selection import Start
    from tailrace.spark.input.backlog import Limits
    from tailrace.spark.input.offset import Offset
    from tailrace.storage import LogSeries
    from tailrace.values.schema import TableDefinition

_LOOK_SECONDS: Final = 0.05
_LOCK_SECONDS: Final = 15.0
"""How long the process of a query that was just stopped may still hold a copy's lock."""
_INDICES: Final = "_index"
_WHY: Final = "a stream's offset is a place in one log: give each a query of its own"
_AWAY_SECONDS: Final = 3.0
"""How long a log that is being reset may not be there."""


class GrowingLog:
    """One log that grows: in a folder or an object store, that a server or a receiver writes to.

    ``start`` is where a query without a checkpoint begins, ``backlog`` what is known of its files.
    """

    is_full = False
    """Whether receiving pauses, until a batch is finished or `receive_on` is called."""

    def __init__(
        self, path: str, keyring: str | None, start: Start | None, backlog: Backlog
    ) -> None:
        self.start = start
        self.backlog = backlog
        self._path = path
        self._keyring = keyring

    def look(self, place: Position | None = None) -> LogSeries:
        """Its files as they are by now; ``place`` is how far the query has read it, if it has. A
        log that was there may be away for a moment: a server that resets it removes it first.
        """
        end = time.monotonic() + (_AWAY_SECONDS if place is not None else 0.0)
        while True:
            try:
                return settled(lambda: [find_one(self._path, self._keyring, why=_WHY)])[0]
            except StorageError:
                if time.monotonic() >= end:
                    raise
            time.sleep(_LOOK_SECONDS)

    def upto_now(
        self,
        place: Position | None = None,
        *,
        limited: bool = False,  # noqa: ARG002 - files are read where they are
        end: Position | None = None,  # noqa: ARG002 - likewise
    ) -> LogSeries:
        """As `look`, with all that its server has by now, up to an ``end``; if ``limited``, with
        what the spool may have.
        """
        return self.look(place)

    def present_end(self, place: Position | None = None) -> Position:
        """Where the log ends by now; a server's copy may reach that later.

        ``place`` is as in `look`.
        """
        return self.backlog.whole(self.look(place))

    def begin(self) -> Position:
        """Where a query without a checkpoint begins. Raises UsageError, GtidError."""
        start = self.start
        if start is None or start == "oldest":
            return Position(self.look().files[0].name, BEGIN)
        if start == "now":
            return self.backlog.whole(self.upto_now())
        if isinstance(start, Position):
            check_begin(self.upto_now(end=Position(start.file, start.offset + 1)), start)
            return start
        if isinstance(start, GtidState):
            return after_gtids(self.upto_now(), start)
        return SeriesTransport(self.upto_now()).locate(start)

    def next_end(
        self, at: Offset, limits: Limits, *, fresh: bool = False
    ) -> tuple[LogSeries, Position]:
        """The log's files by now, and where the next batch ends; at the offset if nothing is new.

        A ``fresh`` query waits for what the server has by now. Raises LogPurged, LogReset.
        """
        place = at.position
        while True:
            was_full = self.is_full  # what is here by then is seen
            series = self.upto_now(place, limited=True) if fresh else self.look(place)
            at.check(series)
            self.backlog.look(series, place, limits)
            end = self.backlog.cut(place, limits)
            if end != place or not self.is_full:
                return series, end
            if was_full:
                self.receive_on(place)

    def receive_on(self, place: Position | None) -> None:
        """Nothing that is here after a place can be read: receive more all the same."""

    def committed(self, place: Position) -> None:
        """What stands before is not needed any more."""
        self.backlog.forget(place)

    def close(self) -> None:
        """Let go of it."""


def open_log(
    path: str,
    keyring: str | None,
    start: Start | None,
    spool: str | None,
    spool_limit: int | None,
    *,
    given: Sequence[TableDefinition | TableState] = (),
    index: str | None = None,
    inner: int = INNER_BYTES,
    lowers_names: bool | None = None,
) -> GrowingLog:
    """The log that a path or a server's URL means. ``index`` is the folder for the indices of its
    files; for the others see `Backlog`. Raises UsageError.
    """
    if not names_server(path):
        if spool is not None or spool_limit is not None:
            name = "spoolLimit" if spool is None else "spool"
            raise UsageError(f"option {name} is for servers: files are read where they are")
        backlog = Backlog(given, index, inner, lowers_names=lowers_names)
        return GrowingLog(path, keyring, start, backlog)
    if keyring is not None:
        raise UsageError("a keyring has the keys of files: a server sends its log decrypted")
    if spool is None:
        raise UsageError(
            "a server is read through a copy of its log: give the query a folder of its own for it,"
            ' which driver and tasks share, by option("spool", …)'
        )
    source = Source.parse(path)
    start = one_start(source.start, start, source.name)
    backlog = Backlog(given, index or Path(spool) / _INDICES, inner, lowers_names=lowers_names)
    source = replace(source, start=start)
    return StreamedServer(source, Path(spool), spool_limit or SPOOL_LIMIT, backlog)


class StreamedServer(GrowingLog):
    """A server's log, received into a folder by a thread from the first look on."""

    def __init__(self, source: Source, folder: Path, limit: int, backlog: Backlog) -> None:
        super().__init__(str(folder), None, source.start, backlog)
        self._source = source
        # the copy begins where the query does, or with the oldest log for GTIDs and times, which
        # need the definitions from before
        is_known = self.start == "now" or isinstance(self.start, Position)
        start = self.start if is_known else None
        self._room = Room(limit)
        self._log = ServerLog(replace(source, start=start), folder, self._room)

    def _start(self, place: Position | None) -> None:
        self._room.took_out(self._log.waiting(place))
        self._log.start(place, follow=True)

    @property
    def is_full(self) -> bool:  # type: ignore[override] # files' is a constant
        """Whether receiving pauses at the spool's limit."""
        return self._log.is_full

    def receive_on(self, place: Position | None) -> None:
        """Receive as much as the limit after the place, or after what is here."""
        self._room.took_out(self._log.waiting(place))
        if self._room.is_full:
            self._room.hold()

    def look(self, place: Position | None = None) -> LogSeries:
        """What has been copied by now; waits for the first of it.

        Raises what ended the receiver, and StorageError where another query has the folder.
        """
        if not self._log.started:
            self._start(place)
        end = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                series = self._log.look()
            except StorageError:
                if self._log.far is not None or time.monotonic() > end:
                    raise
                time.sleep(_LOOK_SECONDS)
                self._log.close()
                self._start(place)
                continue
            if series is not None:
                return series
            time.sleep(_LOOK_SECONDS)

    def upto_now(
        self,
        place: Position | None = None,
        *,
        limited: bool = False,
        end: Position | None = None,
    ) -> LogSeries:
        """Waits until all of that is copied, or if ``limited`` until receiving pauses.

        Otherwise the spool exceeds its limit: before it is known where to begin, nothing is read.
        """
        now = self.present_end()
        end = now if end is None else min(now, end)
        while True:
            is_full = self.is_full  # what is here by then is seen
            series = self.look(place)
            last = series.files[-1]
            if Position(last.name, last.size) >= end or (limited and is_full):
                return series
            if is_full:
                self.receive_on(place)
            time.sleep(_LOOK_SECONDS)

    def present_end(self, place: Position | None = None) -> Position:  # noqa: ARG002 - it is asked
        """Where the server's log ends by now."""
        with Session.open(self._source) as session:
            return session.end()

    def begin(self) -> Position:
        """As `GrowingLog.begin`; raises UsageError also if the copy lacks files that it needs."""
        first = self.look().files[0].name
        if self.start != "now" and not isinstance(self.start, Position):
            with Session.open(self._source) as session:
                oldest = session.oldest_log()
            if Position(oldest, 0) < Position(first, 0):
                raise UsageError(
                    f"{self._log.folder} has a copy that begins with {first}, and the server's logs"
                    f" begin with {oldest}: give the query a folder of its own by option spool"
                )
        return super().begin()

    def committed(self, place: Position) -> None:
        """Files before that of the place are deleted as the next is created."""
        super().committed(place)
        if self._log.started:
            self._log.keep_from(place.file)
            self._room.took_out(self._log.waiting(place))

    def close(self) -> None:
        """End the receiver."""
        self._log.close()
