"""A mirror that follows: batch after batch, at a trigger, until it is told to end."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace.errors import LakeChanged
from tailrace.spark.input.lag import SourceMoment
from tailrace.spark.manifest.manifest_json import with_status
from tailrace.spark.mirror.report import Moment, Totals, report_of
from tailrace.spark.mirror.retry import take_up_named
from tailrace.spark.runtime.memory import Tidy

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.spark.input.cursor import SourceCursor
    from tailrace.spark.input.sources import Sources
    from tailrace.spark.lake.protocol import LakeStore
    from tailrace.spark.mirror.batch import Batches
    from tailrace.spark.mirror.report import MirrorReport
    from tailrace.spark.mirror.unnamed import AskedNames
    from tailrace.spark.state.cascade.naming import Cascades

BATCH_BYTES: Final = 256 << 20
"""Bytes of log that a batch takes at most, of all sources: so a backlog is worked off in steps."""
_RATE_SECONDS: Final = 10.0


class Follower:
    """Runs batches over sources that grow.

    Every ``trigger`` seconds, counted from begin to begin, it looks at the sources; what is new is
    a batch of at most ``most`` bytes. Where more is waiting, the next batch begins at once.
    ``stop`` ends it after the batch under way. ``on_moment`` is called at each trigger.
    """

    def __init__(
        self,
        store: LakeStore,
        sources: Sources,
        batches: Batches,
        cascades: Cascades,
        names: AskedNames,
        tell: Callable[[str, int, int], None],
        *,
        trigger: float,
        most: int = BATCH_BYTES,
        stop: threading.Event | None = None,
        on_moment: Callable[[Moment], None] | None = None,
    ) -> None:
        self._store = store
        self._sources = sources
        self._batches = batches
        self._cascades = cascades
        self._names = names
        self._progress = tell
        self._trigger = trigger
        self._most = most
        self._stop = stop or threading.Event()
        self._on_moment = on_moment
        self._totals = Totals()
        self._count = 0
        self._read: deque[tuple[float, int]] = deque()
        self._is_overtaken = False
        """Whether others kept writing to the lake's tables: a batch is made at the next trigger."""

    def run(self) -> MirrorReport:
        """Follow until `stop`; gives the sum of what was done. Raises what a batch raises."""
        sources, store = self._sources, self._store
        sources.follow()
        tidy = Tidy()
        while not self._stop.is_set():
            begun = time.monotonic()
            caught_up = sources.caught_up  # before the look: that sees as much, then
            sources.look(self._most)
            self._cascades.look(sources.cursors.values())
            report = self._batch(caught_up=caught_up)
            seconds = time.monotonic() - begun
            if self._take_up_named() or report is not None or self._is_overtaken:
                sources.look(self._most)  # what came while it was made is not in the lake
            self._tell(report, seconds)
            tidy()
            if self._is_overtaken or not sources.waiting:
                self._stop.wait(max(begun + self._trigger - time.monotonic(), 0.0))
        total = self._totals.report(report_of(store.manifest, {}, {}, {}, 0, {}))
        return replace(total, cascades=self._cascades.known)

    def _batch(self, *, caught_up: bool) -> MirrorReport | None:
        """One batch of what is waiting; where others kept writing to its tables, it is planned
        again later, from where the lake is then.

        A new lake is created by the first, or without rows where its sources have none.
        """
        self._is_overtaken = False
        new = not self._store.manifest.version and (caught_up or self._sources.waiting)
        taken = self._sources.take(self._most, new=new)
        if not taken:
            return None
        try:
            report = self._batches.run(taken)
        except LakeChanged:
            for name in taken:
                self._sources.replan(name)
            self._is_overtaken = True
            return None
        self._sources.committed()
        self._count += 1
        self._totals.add(report)
        return report

    def _take_up_named(self) -> bool:
        """Whether tables were taken up whose server was asked for their columns."""
        try:
            reports = take_up_named(
                self._store, self._sources, self._batches, self._names, self._progress
            )
        except LakeChanged:  # at the next trigger
            self._is_overtaken = True
            return False
        for each in reports:
            self._totals.add(each)
        return bool(reports)

    def _tell(self, report: MirrorReport | None, seconds: float) -> None:
        now = time.monotonic()
        self._read.append((now, report.log_bytes if report is not None else 0))
        while self._read[0][0] < now - max(_RATE_SECONDS, 3 * self._trigger):
            self._read.popleft()
        if self._on_moment is None:
            return
        since = now - self._read[0][0] + (seconds if len(self._read) == 1 else 0.0)
        rate = sum(count for _, count in self._read) / max(since, 1e-3)
        moments = tuple(self._source(cursor) for cursor in self._sources.cursors.values())
        aside = {
            key: status
            for key, table in with_status(self._store.manifest.tables)
            if (status := table.set_aside) is not None
        }
        self._on_moment(Moment(self._count, report, moments, rate, seconds, aside))

    def _source(self, cursor: SourceCursor) -> SourceMoment:
        """How far the lake has a source, measured against where the source is now."""
        state = self._store.manifest.sources.get(cursor.name)
        received = self._sources.received.get(cursor.name)
        far = received.far if received is not None else None
        lag = self._sources.lag(cursor)
        here = None if state is None else state.position
        is_there = far is not None and far.position is not None and here == far.position
        return SourceMoment(
            cursor.name,
            None if here is None else str(here),
            lag.bytes,
            lag.seconds,
            far.gtid if far is not None and is_there else None,
            None if cursor.held is None else str(cursor.held),
            far is None or far.connected,
            received is not None and received.paused,
        )
