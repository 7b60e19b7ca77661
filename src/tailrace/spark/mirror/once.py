"""A mirror that does not follow: a batch of all that is new."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace.columns.native import compile_all, is_small
from tailrace.spark.mirror.report import Totals, report_of
from tailrace.spark.mirror.retry import take_up_named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tailrace.spark.input.sources import Sources
    from tailrace.spark.input.taken import Taken
    from tailrace.spark.lake.protocol import LakeStore
    from tailrace.spark.mirror.batch import Batches
    from tailrace.spark.mirror.report import MirrorReport
    from tailrace.spark.mirror.unnamed import AskedNames
    from tailrace.spark.runtime.workers import Workers
    from tailrace.spark.state.cascade.naming import Cascades

    Progress = Callable[[str, int, int], None]

_ROUNDS: Final = 2
"""Batches of a run: a second one where the log grew while a server was asked. There are more where
there is no room for all of a server's log at once.
"""


@dataclass(frozen=True)
class Once:
    """Runs one batch of all that is new; and of what comes until servers were asked for names.

    A new lake is created also where there is nothing yet: with where it begins, and its options.
    """

    store: LakeStore
    sources: Sources
    batches: Batches
    workers: Workers
    cascades: Cascades
    names: AskedNames
    progress: Progress | None

    def run(self) -> MirrorReport:
        """Do so; gives the report of all. Raises what a batch raises."""
        store, sources = self.store, self.sources
        totals = Totals()
        held: dict[str, str] = {}
        rounds = 0
        while rounds < _ROUNDS:
            clock, before = time.perf_counter(), store.manifest.sources
            sources.receive(self.progress)
            self.batches.partly = sources.partly
            sources.plan(self.workers.start_for)  # before it is known what is in them
            self.cascades.look(sources.cursors.values())
            report = self._batch(sources.take(new=not store.manifest.version), clock)
            totals.add(report)
            now = {name: str(each.held) for name, each in sources.cursors.items() if each.held}
            held = now or held
            for taken_up in take_up_named(store, sources, self.batches, self.names, self._tell):
                totals.add(taken_up)
            if sources.partly:
                sources.purge()
                sources.receive_on(before)
                held = {}  # the next round has more of the log
                continue
            rounds += 1
            if not self.names.waits(store.manifest):
                break
        sources.purge()
        return replace(totals.report(report), held=held, cascades=self.cascades.known)

    def _tell(self, phase: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(phase, done, total)

    def _batch(self, taken: Mapping[str, Taken], clock: float) -> MirrorReport:
        if not taken:
            return report_of(self.store.manifest, {}, {}, {}, 0, {})
        seconds: dict[str, float] = {}
        splits = [split for each in taken.values() for split in each.splits]
        size = sum(split.end - split.start for split in splits)
        if splits and not is_small(size):
            compile_all(say=lambda text: self._tell(text, 0, 1))
        if splits and not self.workers.is_here(size):
            self.workers.session()
            seconds["start"] = time.perf_counter() - clock
        return self.batches.run(taken, seconds)
