"""Where a stream's log is: files that somebody writes, or a copy of a server's that we keep."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from tailrace.cache import own_cache
from tailrace.errors import StorageError, UsageError
from tailrace.live.scheme import names_server
from tailrace.live.session import Identity, Session
from tailrace.live.url import Source
from tailrace.position import Position
from tailrace.selection import one_start
from tailrace.spark.input.folder import settled
from tailrace.spark.input.saved_index import SavedIndices
from tailrace.spark.input.server import SPOOL_LIMIT, Received, Room, ServerLogs
from tailrace.spark.manifest.manifest import SourceState
from tailrace.storage import find

if TYPE_CHECKING:
    from tailrace.selection import Start
    from tailrace.storage import LogSeries

_LOOK_SECONDS: Final = 0.05
_LOCK_SECONDS: Final = 15.0
"""How long the process of a query that was just stopped may still hold a copy's lock."""
_INDICES: Final = "_index"
_AWAY_SECONDS: Final = 3.0
"""How long a log that is being reset may not be there."""


class GrowingLog(Protocol):
    """One log that grows. ``start`` is where a query without a checkpoint begins."""

    start: Start | None

    @property
    def is_full(self) -> bool:
        """Whether receiving pauses, until a batch is finished or `receive_on` is called."""

    def receive_on(self, place: Position | None) -> None:
        """Nothing that is here after a place can be read: receive more all the same."""

    def look(self, place: Position | None) -> LogSeries:
        """Its files as they are by now; ``place`` is how far the query has read it, if it has."""

    def upto_now(self, place: Position | None, *, limited: bool = False) -> LogSeries:
        """As `look`, with all that its server has by now, or if ``limited`` what the spool may."""

    def now(self) -> Position | None:
        """Where the server's log ends now; None where only the files say that."""

    def check_oldest(self) -> None:
        """Raise UsageError where the files begin later than what ``oldest`` means."""

    def committed(self, place: Position) -> None:
        """What stands before is not needed any more."""

    def saved(self, folder: str | None) -> SavedIndices:
        """Where its indices are kept; ``folder`` is the user's choice."""

    def close(self) -> None:
        """Let go of it."""


def open_log(
    path: str,
    keyring: str | None,
    start: Start | None,
    spool: str | None,
    spool_limit: int | None,
) -> GrowingLog:
    """The log that a path or a server's URL means. Raises UsageError."""
    if not names_server(path):
        if spool is not None or spool_limit is not None:
            name = "spoolLimit" if spool is None else "spool"
            raise UsageError(f"option {name} is for servers: files are read where they are")
        return FileLog(path, keyring, start)
    if keyring is not None:
        raise UsageError("a keyring has the keys of files: a server sends its log decrypted")
    if spool is None:
        raise UsageError(
            "a server is read through a copy of its log: give the query a folder of its own for it,"
            ' which driver and tasks share, by option("spool", …)'
        )
    source = Source.parse(path)
    start = one_start(source.start, start, source.name)
    return ServerLog(replace(source, start=start), Path(spool), spool_limit or SPOOL_LIMIT)


class FileLog:
    """A log in a folder or an object store, that a server or a receiver writes to."""

    is_full = False

    def __init__(self, path: str, keyring: str | None, start: Start | None) -> None:
        self.start = start
        self._path = path
        self._keyring = keyring

    def look(self, place: Position | None = None) -> LogSeries:
        """Its files. A log that was there may be away for a moment: a server that resets it removes
        it first.
        """
        end = time.monotonic() + (_AWAY_SECONDS if place is not None else 0.0)
        while True:
            try:
                (series,) = settled(self._find)
            except StorageError:
                if time.monotonic() >= end:
                    raise
            else:
                return series
            time.sleep(_LOOK_SECONDS)

    def upto_now(self, place: Position | None, *, limited: bool = False) -> LogSeries:
        """As `look`."""
        del limited
        return self.look(place)

    def now(self) -> None:
        """The files say it."""
        return

    def check_oldest(self) -> None:
        """The first file is the oldest: there is nothing to check."""

    def receive_on(self, place: Position | None) -> None:
        """Others write it."""

    def committed(self, place: Position) -> None:
        """Files that are not ours stay."""

    def saved(self, folder: str | None) -> SavedIndices:
        """In a folder of the cache that is named by where the log is."""
        if folder is not None:
            return SavedIndices(folder)
        log = self._find()[0].files[0]
        name = hashlib.sha256(f"{log.place}/{log.base}".encode()).hexdigest()[:16]
        return SavedIndices(own_cache("index") / name)

    def close(self) -> None:
        """Nothing is open."""

    def _find(self) -> list[LogSeries]:
        found = find(self._path, self._keyring)
        if len(found) != 1:
            names = ", ".join(series.name for series in found)
            raise UsageError(
                f"{self._path} has several logs ({names}): a stream is of one, so that its offset"
                " is one place: give each a query of its own"
            )
        if found[0].files[0].joined:
            raise UsageError(
                f"{self._path}: a stream reads its log more than once: not from a pipe"
            )
        return found


class ServerLog:
    """A server's log, received into a folder by a thread from the first look on."""

    def __init__(self, source: Source, folder: Path, limit: int) -> None:
        self.start = source.start
        if self.start != "now" and not isinstance(self.start, Position):
            source = replace(source, start=None)
        self._source = source
        self._logs = ServerLogs(self._source, folder)
        self._room = Room(limit)
        self._received: Received | None = None

    def _receive(self, place: Position | None) -> Received:
        state = _state(place)
        self._room.took_out(self._logs.waiting(state))
        return Received(self._logs, state, self._room)

    @property
    def is_full(self) -> bool:
        """Whether receiving pauses at the spool's limit."""
        return self._received is not None and self._received.paused and self._room.is_full

    def receive_on(self, place: Position | None) -> None:
        """Receive as much as the limit after the place, or after what is here."""
        self._room.took_out(self._logs.waiting(_state(place)))
        if self._room.is_full:
            self._room.hold()

    def look(self, place: Position | None) -> LogSeries:
        """What has been copied by now; waits for the first of it.

        Raises what ended the receiver, and StorageError where another query has the folder.
        """
        if self._received is None:
            self._received = self._receive(place)
        end = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                series = self._received.look()
            except StorageError:
                if self._received.far is not None or time.monotonic() > end:
                    raise
                time.sleep(_LOOK_SECONDS)
                self._received.close()
                self._received = self._receive(place)
                continue
            if series is not None:
                return series
            time.sleep(_LOOK_SECONDS)

    def upto_now(self, place: Position | None, *, limited: bool = False) -> LogSeries:
        """Waits until all is copied that the server has by now, or if ``limited`` until it pauses.

        Otherwise the spool exceeds its limit: before it is known where to begin, nothing is read.
        """
        end = self.now()
        while True:
            is_full = self.is_full  # what is here by then is seen
            series = self.look(place)
            last = series.files[-1]
            if Position(last.name, last.size) >= end or (limited and is_full):
                return series
            if is_full:
                self.receive_on(place)
            time.sleep(_LOOK_SECONDS)

    def now(self) -> Position:
        """Where the server's log ends."""
        with Session.open(self._source, self._source.hosts[0], Identity()) as session:
            return session.end()

    def check_oldest(self) -> None:
        """Raise UsageError where the copy lacks files that the server has."""
        first = self.look(None).files[0].name
        with Session.open(self._source, self._source.hosts[0], Identity()) as session:
            oldest = session.oldest_log()
        if Position(oldest, 0) < Position(first, 0):
            raise UsageError(
                f"{self._logs.folder} has a copy that begins with {first}, and the server's logs"
                f" begin with {oldest}: give the query a folder of its own by option spool"
            )

    def committed(self, place: Position) -> None:
        """Files before that of the place are deleted as the next is created."""
        if self._received is not None and (state := _state(place)) is not None:
            self._received.committed(state)
            self._room.took_out(self._logs.waiting(state))

    def saved(self, folder: str | None) -> SavedIndices:
        """Next to the copy."""
        return SavedIndices(folder or self._logs.folder / _INDICES)

    def close(self) -> None:
        """End the receiver."""
        if self._received is not None:
            self._received.close()
            self._received = None


def _state(place: Position | None) -> SourceState | None:
    """A place as a receiver is told of it: by its file."""
    if place is None:
        return None
    return SourceState(place.file, place.offset, files={}, head="", tail="", tables={})
