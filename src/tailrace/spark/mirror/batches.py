"""The batches of a mirror, one after the other, until all is in the lake or, following, until a
stop: tried again where others write to the lake, and cut in two where a statement asks for it.
"""

from __future__ import annotations

import math
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from tailrace.columns.native import compile_all, is_small
from tailrace.errors import LakeChanged
from tailrace.spark.input.lag import Rate
from tailrace.spark.lake.asides import set_aside
from tailrace.spark.mirror.batch import Again, Batch
from tailrace.spark.mirror.report import Moment, Totals
from tailrace.spark.mirror.retry import take_up_named
from tailrace.spark.mirror.statements import Cut, at_a_restart, in_two, where_keys_change
from tailrace.spark.runtime.memory import Tidy

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tailrace.spark.input.cursor import Taken
    from tailrace.spark.input.server_log import Progress
    from tailrace.spark.input.sources import Sources
    from tailrace.spark.lake.lake import Lake
    from tailrace.spark.manifest.lake_options import LakeOptions
    from tailrace.spark.mirror.new_lake import NewLake
    from tailrace.spark.mirror.report import MirrorReport
    from tailrace.spark.mirror.unnamed import AskedNames
    from tailrace.spark.runtime.workers import Workers
    from tailrace.spark.state.cascade.naming import Cascades

BATCH_BYTES: Final = 256 << 20
"""Bytes of log that a batch takes at most, of all sources: so a backlog is worked off in steps."""
_ROUNDS: Final = 2
"""How often a run that does not follow takes what sources have by then: once more where logs grew
while servers were asked for names.
"""
_TRIES: Final = 3
_LOOK_SECONDS: Final = 600.0
"""How often a run looks at all tables, for what others did to those that no batch is about."""


@dataclass
class Batches:
    """Runs batches over ``sources`` on an open lake, until the lake has what they had, or with
    ``follow`` until ``stop`` is set, which ends it after the batch under way.

    Following, it looks at the sources every ``trigger`` seconds, counted from begin to begin; what
    is new is a batch of at most ``most`` bytes. Where there was more, here or at a server, the next
    batch begins at once. ``on_moment`` is called at each trigger. Else a batch takes all that there
    is room for.

    ``tell`` is told how far a batch is, as `mirror`'s ``progress``, also from other threads.
    ``new`` looks at the tables of a new lake. ``statements`` is as in `mirror`.
    """

    sources: Sources
    store: Lake
    options: LakeOptions
    workers: Workers
    tell: Progress
    cascades: Cascades
    names: AskedNames
    new: NewLake | None
    statements: Literal["error", "skip"]
    follow: bool
    trigger: float
    most: int
    stop: threading.Event
    on_moment: Callable[[Moment], None] | None
    whole: bool = field(default=True, init=False)
    """Whether what servers' logs had when this run began is taken; following, at each batch."""
    every: Mapping[str, Taken] = field(default_factory=dict, init=False)
    """All that was taken last; a batch may be of a part of it."""
    _looked: float = field(default=-math.inf, init=False)
    """When all tables of the lake were last looked at."""
    _is_overtaken: bool = field(default=False, init=False)
    """Whether others kept writing to the lake's tables: a batch is made at the next trigger."""

    @property
    def applies(self) -> bool:
        """Whether what foreign keys do is carried out."""
        return self.options.cascades == "apply"

    def run(self) -> MirrorReport:
        """Run them; the sum of what was done. Raises what a batch raises.

        A new lake is created by the first batch, or without rows where its sources have none: with
        where it begins, and its options.
        """
        sources, store = self.sources, self.store
        enough = self.most if self.follow else None
        sources.start(follow=self.follow)
        tidy, rate, totals = Tidy(), Rate(max(10.0, 3 * self.trigger)), Totals()
        held: dict[str, str] = {}
        count, rounds = 0, _ROUNDS
        while rounds and not self.stop.is_set():
            begun = time.monotonic()
            if not self.follow:
                sources.receive(self.tell)
                self.workers.start_for(sources.unread)  # before it is known what is in it
            caught_up = sources.caught_up  # before the look: that sees as much, then
            sources.look(enough)
            self.cascades.look(sources.cursors.values())
            self.whole = self.follow or caught_up
            report: MirrorReport | None = None
            self._is_overtaken = False
            new = not store.manifest.version and (caught_up or bool(sources.waiting))
            if taken := sources.take(enough, new=new):
                spent = self._start(taken, begun)
                with self._to_be_overtaken(taken):
                    report = self.commit(taken, spent=spent)
            if report is not None:
                sources.committed()
                count += 1
                totals.add(report)
            seconds = time.monotonic() - begun
            places = {name: each.planner.held for name, each in sources.cursors.items()}
            held = {name: str(place) for name, place in places.items() if place is not None}
            is_new = report is not None
            with self._to_be_overtaken():
                for each in take_up_named(self):
                    totals.add(each)
                    is_new = True
            if self.follow:
                has_backlog = sources.waiting or not caught_up
                if is_new or self._is_overtaken:
                    sources.look(enough)  # what came while it was made is not in the lake
                (speed,) = rate.add(seconds, report.log_bytes if report is not None else 0)
                if self.on_moment is not None:
                    aside = set_aside(store.manifest)
                    moments = sources.moments()
                    self.on_moment(Moment(count, report, moments, speed, seconds, aside))
                tidy()
                if self._is_overtaken or not (has_backlog and sources.waiting):
                    self.stop.wait(max(begun + self.trigger - time.monotonic(), 0.0))
            elif caught_up:
                sources.committed()
                rounds = rounds - 1 if self.names.waits(store.manifest) else 0
                if rounds:
                    sources.start(follow=False)
        return replace(totals.report(store.manifest), held=held, cascades=self.cascades.known)

    def _start(self, taken: Mapping[str, Taken], begun: float) -> dict[str, float]:
        """Start what a batch needs, whose planning began at ``begun``: the seconds, by phase."""
        splits = [split for each in taken.values() for split in each.splits]
        size = sum(split.end - split.start for split in splits)
        if splits and (self.follow or not is_small(size)):
            compile_all(say=lambda text: self.tell(text, 0, 1))
        if splits and not (self.follow or self.workers.is_here(size)):
            self.workers.session()
            return {"start": time.monotonic() - begun}
        return {}

    @contextmanager
    def _to_be_overtaken(self, names: Iterable[str] = ()) -> Iterator[None]:
        """Following, where others keep writing to the lake's tables, these sources are planned
        again at the next trigger, from where the lake is then.
        """
        try:
            yield
        except LakeChanged:
            if not self.follow:
                raise
            for name in names:
                self.sources.replan(name)
            self._is_overtaken = True

    def commit(
        self,
        taken: Mapping[str, Taken],
        again: Again | None = None,
        spent: dict[str, float] | None = None,
    ) -> MirrorReport:
        """Bring the lake forward by what was taken of each source, in one commit.

        Where foreign keys are carried out, in one for each of the parts between which they change;
        in two where it must be cut at a statement (`mirror.statements`). One that takes tables up
        ``again`` is not cut.

        A table that fails is set aside, and the commit is of the others
        (`tailrace.spark.state.failure` says what is a table's failure). ``spent`` are seconds from
        before, by phase, for the report. Where the batch fails, the lake is as it was, and another
        may be run. It is done again, a few times, where others write to tables of the lake
        meanwhile; then it raises `LakeChanged`.
        """
        self.every = taken
        cuts, again = again is None, again or Again()
        parts = where_keys_change(taken) if cuts and self.applies else [taken]
        waiting = deque((part, False, cuts) for part in parts)
        reports: list[MirrorReport] = []
        while waiting:
            part, checked, cuts = waiting.popleft()
            cut = at_a_restart(self.store.manifest, part) if cuts else None
            left = _TRIES
            while left and cut is None:
                left, now = left - 1, time.monotonic()
                looks = again.keys is None and now - self._looked > _LOOK_SECONDS
                batch = Batch(self, part, again, looks=looks, cuts=cuts, checked=checked)
                try:
                    reports.append(batch.run(spent or {}))
                    left, spent = 0, None
                except BaseException as error:
                    self.store.discard()
                    if isinstance(error, Cut):
                        cut = error
                    elif not (left and isinstance(error, LakeChanged)):
                        raise
                finally:
                    if batch.looked:
                        self._looked = now
            if cut is not None:  # it was checked as a whole whether a new lake may begin so
                checked = checked or not self.store.manifest.version
                found = in_two(
                    part, cut, self.store.manifest, self.sources.given, cascades=self.applies
                )
                halves = [(each, checked, True) for each in found]
                waiting.extendleft(reversed(halves or [(part, checked, False)]))
        return reports[0] if len(reports) == 1 else Totals(reports).report(self.store.manifest)
