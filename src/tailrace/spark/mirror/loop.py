"""The loop of a mirror: batch after batch, until all is in the lake or, following, until a stop."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tailrace.columns.native import compile_all, is_small
from tailrace.errors import LakeChanged
from tailrace.spark.input.lag import Rate
from tailrace.spark.mirror.report import Moment, Totals
from tailrace.spark.mirror.retry import set_aside, take_up_named
from tailrace.spark.runtime.memory import Tidy

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from tailrace.spark.input.sources import Sources
    from tailrace.spark.mirror.batches import Batches
    from tailrace.spark.mirror.report import MirrorReport
    from tailrace.spark.mirror.unnamed import AskedNames
    from tailrace.spark.state.cascade.naming import Cascades

BATCH_BYTES: Final = 256 << 20
"""Bytes of log that a batch takes at most, of all sources: so a backlog is worked off in steps."""
_ROUNDS: Final = 2
"""How often a run that does not follow takes what sources have by then: once more where logs grew
while servers were asked for names.
"""


@dataclass
class Loop:
    """Runs batches over sources, until the lake has what they had, or with ``follow`` until
    ``stop`` is set, which ends it after the batch under way.

    Following, it looks at the sources every ``trigger`` seconds, counted from begin to begin; what
    is new is a batch of at most ``most`` bytes. Where there was more, here or at a server, the next
    batch begins at once. ``on_moment`` is called at each trigger. Else a batch takes all that there
    is room for.
    """

    sources: Sources
    batches: Batches
    cascades: Cascades
    names: AskedNames
    stop: threading.Event
    follow: bool
    trigger: float
    most: int
    on_moment: Callable[[Moment], None] | None
    _totals: Totals = field(default_factory=Totals, init=False)
    _count: int = field(default=0, init=False)
    _is_overtaken: bool = field(default=False, init=False)
    """Whether others kept writing to the lake's tables: a batch is made at the next trigger."""

    def __post_init__(self) -> None:
        self._rate = Rate(max(10.0, 3 * self.trigger))

    def run(self) -> MirrorReport:
        """Run them; the sum of what was done. Raises what a batch raises."""
        sources, setting = self.sources, self.batches.setting
        enough = self.most if self.follow else None
        sources.start(follow=self.follow)
        tidy = Tidy()
        held: dict[str, str] = {}
        rounds = _ROUNDS
        while rounds and not self.stop.is_set():
            begun = time.monotonic()
            if not self.follow:
                sources.receive(setting.tell)
                setting.workers.start_for(sources.unread)  # before it is known what is in it
            caught_up = sources.caught_up  # before the look: that sees as much, then
            sources.look(enough)
            self.cascades.look(sources.cursors.values())
            self.batches.partly = not (self.follow or caught_up)
            report = self._batch(enough, begun, caught_up=caught_up)
            seconds = time.monotonic() - begun
            places = {name: each.planner.held for name, each in sources.cursors.items()}
            held = {name: str(place) for name, place in places.items() if place is not None}
            is_new = self._take_up_named() or report is not None or self._is_overtaken
            if self.follow:
                has_backlog = sources.waiting or not caught_up
                if is_new:
                    sources.look(enough)  # what came while it was made is not in the lake
                self._tell(report, seconds)
                tidy()
                if self._is_overtaken or not (has_backlog and sources.waiting):
                    self.stop.wait(max(begun + self.trigger - time.monotonic(), 0.0))
            elif caught_up:
                sources.committed()
                rounds = rounds - 1 if self.names.waits(setting.store.manifest) else 0
                if rounds:
                    sources.start(follow=False)
        total = self._totals.report(setting.store.manifest)
        return replace(total, held=held, cascades=self.cascades.known)

    def _batch(self, enough: int | None, begun: float, *, caught_up: bool) -> MirrorReport | None:
        """One batch of what is waiting; following, where others kept writing to its tables, it is
        planned again later, from where the lake is then.

        A new lake is created by the first, or without rows where its sources have none: with where
        it begins, and its options. ``begun`` is when planning began.
        """
        self._is_overtaken = False
        setting = self.batches.setting
        new = not setting.store.manifest.version and (caught_up or self.sources.waiting)
        waiting = self.sources.waiting
        share = enough and enough // max(len(waiting), 1)
        taken = {each.name: part for each in waiting if (part := each.take(share)) is not None}
        if new:  # of the others the places where they begin
            cursors = self.sources.cursors.items()
            taken = {name: taken.get(name) or each.nothing() for name, each in cursors}
        if not taken:
            return None
        spent: dict[str, float] = {}
        splits = [split for each in taken.values() for split in each.splits]
        size = sum(split.end - split.start for split in splits)
        if splits and (self.follow or not is_small(size)):
            compile_all(say=lambda text: setting.tell(text, 0, 1))
        if splits and not (self.follow or setting.workers.is_here(size)):
            setting.workers.session()
            spent["start"] = time.monotonic() - begun
        try:
            report = self.batches.run(taken, spent)
        except LakeChanged:
            if not self.follow:
                raise
            for name in taken:
                self.sources.replan(name)
            self._is_overtaken = True
            return None
        self.sources.committed()
        self._count += 1
        self._totals.add(report)
        return report

    def _take_up_named(self) -> bool:
        """Whether tables were taken up whose server was asked for their columns."""
        try:
            reports = take_up_named(self.sources, self.batches, self.names)
        except LakeChanged:  # at the next trigger
            if not self.follow:
                raise
            self._is_overtaken = True
            return False
        for each in reports:
            self._totals.add(each)
        return bool(reports)

    def _tell(self, report: MirrorReport | None, seconds: float) -> None:
        (rate,) = self._rate.add(seconds, report.log_bytes if report is not None else 0)
        if self.on_moment is None:
            return
        aside = set_aside(self.batches.store.manifest)
        moments = self.sources.moments()
        self.on_moment(Moment(self._count, report, moments, rate, seconds, aside))
