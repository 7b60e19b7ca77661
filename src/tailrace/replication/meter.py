"""A receiver's progress reports, at regular intervals."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tailrace.replication.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.live.feed import Feed
    from tailrace.replication.copy.writer import CopyWriter
    from tailrace.replication.source_end import SourceEnd


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
        self._begun = self._last = time.monotonic()
        self._next = self._begun + every
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
        made = self._progress(time.monotonic(), self._begun, 0, None, None, feed, done=True)
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
        return Progress(
            name=self._name,
            position=writer.copy.position,
            gtid=writer.ends.gtid,
            received=writer.written,
            seconds=now - self._begun,
            rate=(writer.written - before) / max(now - since, 1e-6),
            lag_bytes=behind,
            lag_seconds=seconds,
            reconnects=self._reconnects if feed is None else feed.reconnects,
            connected=feed is not None and self._hears(feed, now),
            done=done,
        )
