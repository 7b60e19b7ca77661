"""A receiver's progress: how far its copy is, how far the source is ahead, and the reports."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from tailrace.errors import TailraceError
from tailrace.live.session import Session
from tailrace.position import bytes_after

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.live.feed import Feed
    from tailrace.live.session import Identity
    from tailrace.live.url import Source
    from tailrace.position import Position
    from tailrace.replication.copy.writer import CopyWriter

_log: Final = logging.getLogger("tailrace.receiver")
_SECONDS: Final = 5.0
_FIRST_PAUSE: Final = 5.0
_LONGEST_PAUSE: Final = 300.0


@dataclass(frozen=True, slots=True)
class Progress:
    """``position`` is where the copy ends, ``gtid`` the last transaction in it.

    ``received`` counts bytes since the receiver started, ``seconds`` is the time since then.
    ``rate`` is in bytes a second since the last report; in the final report (``done``), over the
    whole time. ``lag_bytes`` and ``lag_seconds`` say how far the source is ahead, None if that is
    unknown. ``sync_seconds`` is the longest time from an event's arrival to its sync since the last
    report, which is how long a semi-synchronous commit waited for it; None if nothing was synced.
    """

    name: str
    position: Position | None
    gtid: str | None
    received: int
    seconds: float
    rate: float
    lag_bytes: int | None
    lag_seconds: float | None
    reconnects: int = 0
    connected: bool = True
    done: bool = False
    sync_seconds: float | None = None


class Meter:
    """Calls ``report`` at a fixed interval: call `tick` often. Without it, only counts."""

    def __init__(
        self,
        name: str,
        writer: CopyWriter,
        end: SourceEnd,
        report: Callable[[Progress], None] | None,
        every: float,
    ) -> None:
        self._name = name
        self._writer = writer
        self._end = end
        self._report = report
        self._every = every
        self._started = self._last = time.monotonic()
        self._next = self._started + every
        self._written = 0
        self._reconnects = 0
        self._behind: int | None = None
        self._even: float | None = None
        """When the copy last had everything that the source had."""

    def tick(self, feed: Feed) -> None:
        """Report if it is time."""
        if self._report is None:
            return
        now = time.monotonic()
        if now > self._next - self._every / 2 and (
            self._behind != 0 or self._written != self._writer.written
        ):
            self._end.want()  # so that the report has the answer
        if now < self._next:
            return
        self._next = now + self._every
        position = self._writer.copy.position
        behind = None
        if position is not None:
            behind = self._end.ahead_of(position, feed.heard)
        self._behind = behind
        if behind == 0:
            self._even = now
        self._reconnects = feed.reconnects
        seconds = None if behind is None else self._age(now)
        made = self._progress(now, self._last, self._written, behind, seconds, feed)
        self._last, self._written = now, self._writer.written
        self._report(made)

    def done(self, feed: Feed | None = None) -> Progress:
        """The final progress, which is also reported."""
        made = self._progress(time.monotonic(), self._started, 0, None, None, feed, done=True)
        if self._report is not None:
            self._report(made)
        return made

    @staticmethod
    def _hears(feed: Feed, now: float) -> bool:
        """Whether the source has sent anything in two heartbeat periods."""
        return feed.session is not None and now - feed.heard_at < 2 * feed.source.heartbeat

    def _age(self, now: float) -> float | None:
        """The greatest age of the missing events: they are younger than the last event in the copy,
        and than the time at which nothing was missing (the last event of an idle source is old).
        """
        since_even = None if self._even is None else now - self._even
        second = self._writer.second
        age = max(time.time() - second, 0.0) if second else None
        return min((each for each in (since_even, age) if each is not None), default=None)

    def _progress(
        self,
        now: float,
        since: float,
        before: int,
        behind: int | None,
        seconds: float | None,
        feed: Feed | None,
        *,
        done: bool = False,
    ) -> Progress:
        writer = self._writer
        slowest, writer.slowest = writer.slowest, 0.0
        return Progress(
            name=self._name,
            position=writer.copy.position,
            gtid=writer.ends.gtid,
            received=writer.written,
            seconds=now - self._started,
            rate=(writer.written - before) / max(now - since, 1e-6),
            lag_bytes=behind,
            lag_seconds=seconds,
            reconnects=self._reconnects if feed is None else feed.reconnects,
            connected=feed is not None and (done or feed.connected) and self._hears(feed, now),
            done=done,
            sync_seconds=slowest or None,
        )


class SourceEnd:
    """The end of a source's log, queried from time to time on a separate connection: as long as a
    feed lags behind, nothing that arrives says by how much.

    Queries in a separate thread, from the first `want` on, and at most once per `want`.

    It is a convenience: an error (a missing privilege, a lost connection) is logged, and makes the
    answer None; the query is repeated later.
    """

    def __init__(self, source: Source, identity: Identity) -> None:
        self._source = source
        self._identity = identity
        self._wanted = Event()
        self._closed = False
        self._thread: Thread | None = None
        self._sizes: dict[str, int] = {}
        self._end: Position | None = None
        self._last_error = ""

    def want(self) -> None:
        """Request a query soon."""
        if self._thread is None:
            name = f"tailrace-end-{self._source.hosts[0]}"
            self._thread = Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        self._wanted.set()

    def ahead_of(self, position: Position, heard: Position | None) -> int | None:
        """Bytes from a position to the end; ``heard`` is a position that the log is known to have.

        None if it is unknown.
        """
        sizes, end = self._sizes, self._end
        if end is None and not self._last_error:
            return None  # the stream alone does not show it: the next event may only be slow
        known = max((each for each in (end, heard) if each is not None), default=None)
        if known is None:
            return None
        if known <= position:
            return 0
        if known.file == position.file:
            return known.offset - position.offset
        if position.file not in sizes or known.file not in sizes:
            return None
        return bytes_after(sizes.items(), position, known)

    def close(self) -> None:
        """Stop the queries, without waiting for an answer under way."""
        self._closed = True
        self._wanted.set()

    def _run(self) -> None:
        session: Session | None = None
        pause, wait = _FIRST_PAUSE, Event()
        while self._wanted.wait() and not self._closed:
            self._wanted.clear()
            try:
                if session is None:
                    session = Session.open(self._source, identity=self._identity)
                self._ask(session)
                pause = _FIRST_PAUSE
                wait.wait(_SECONDS)
            except TailraceError as error:
                self._end = None
                if str(error) != self._last_error:
                    self._last_error = str(error)
                    _log.info("the end of the source's log could not be determined: %s", error)
                if session is not None:
                    session.close()
                    session = None
                wait.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        if session is not None:
            session.close()

    def _ask(self, session: Session) -> None:
        end = session.end()
        if end.file not in self._sizes or self._end is None or end.file != self._end.file:
            self._sizes = dict(session.logs())
        self._end = end
