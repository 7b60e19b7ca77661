"""The batches of a run, one after the other: tried again where others write to the lake, cut in two
where a statement asks for it, and taken up again for tables that were set aside.
"""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from tailrace.columns.read.split import overlapping
from tailrace.constants import EventType
from tailrace.errors import LakeChanged
from tailrace.events.rows import ROWS_TYPES, WriteRowsEvent
from tailrace.position import Position
from tailrace.spark.input.cursor import SourceCursor
from tailrace.spark.lake.asides import stands_at
from tailrace.spark.mirror.batch import Again, Batch, Cut
from tailrace.spark.mirror.report import Totals
from tailrace.spark.mirror.statements import restarts
from tailrace.storage import EventReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tailrace.columns import Split
    from tailrace.spark.input.cursor import Taken
    from tailrace.spark.mirror.batch import Setting
    from tailrace.spark.mirror.report import MirrorReport
    from tailrace.spark.mirror.unnamed import Answer
    from tailrace.table_name import TableName

_TRIES: Final = 3
_LOOK_SECONDS: Final = 600.0
"""How often a run looks at all tables, for what others did to those that no batch is about."""
_ALL: Final = Again()
_SMALL: Final = 1 << 16
"""Bytes of log that are looked through for changes of rows."""
_CHANGES: Final = ROWS_TYPES.difference(WriteRowsEvent.TYPES) | {EventType.TRANSACTION_PAYLOAD}


class Batches:
    """Runs batches on an open lake, one after the other."""

    def __init__(self, setting: Setting) -> None:
        self.offers: dict[TableName, Answer] = {}
        """What the log last read tells of tables that are still without names."""
        self.partly = False
        """Whether more of servers' logs is to come that was there when this run began."""
        self.setting = setting
        self.store = setting.store
        self._every: Mapping[str, Taken] = {}
        self._looked = -math.inf
        """When all tables were last looked at."""

    def run(
        self, taken: Mapping[str, Taken], seconds: dict[str, float] | None = None
    ) -> MirrorReport:
        """Bring the lake forward by what was taken of each source, in one commit.

        Where foreign keys are carried out, in one for each of the parts between which they change;
        in two where it must be cut at a statement (`mirror.statements`).

        A table that fails is set aside, and the commit is of the others
        (`tailrace.spark.state.failure` says what is a table's failure). ``seconds`` are those spent
        before, by phase, for the report. Where the batch fails, the lake is as it was, and another
        may be run. It is done again, a few times, where others write to tables of the lake
        meanwhile; then it raises `LakeChanged`.
        """
        self._every = taken
        parts = self._in_turn(taken) if self.setting.applies else [taken]
        waiting = deque((part, False) for part in parts)
        reports: list[MirrorReport] = []
        while waiting:
            part, checked = waiting.popleft()
            try:
                self._cut_where_tables_restart(part)
                reports.append(self._try(part, _ALL, seconds, checked=checked))
            except Cut as cut:  # it was checked as a whole whether a new lake may begin so
                checked = checked or not self.store.manifest.version
                if parts := self._parts(part, cut):
                    waiting.extendleft((each, checked) for each in reversed(parts))
                    continue
                reports.append(self._try(part, _ALL, seconds, checked=checked, cuts=False))
            seconds = None
        return reports[0] if len(reports) == 1 else self._sum(reports)

    def _sum(self, reports: list[MirrorReport]) -> MirrorReport:
        totals = Totals()
        for each in reports:
            totals.add(each)
        return totals.report(self.store.manifest)

    def _cut_where_tables_restart(self, taken: Mapping[str, Taken]) -> None:
        """Raise `Cut` where a table that is set aside comes back, but at the batch's begin."""
        for source, each in taken.items():
            found = restarts(self.store.manifest, source, each.splits).values()
            if places := [at for at, _ in found if at > each.begin]:
                raise Cut(source, min(places))

    def _parts(self, taken: Mapping[str, Taken], cut: Cut) -> list[Mapping[str, Taken]]:
        """A batch as two: other sources are in the first."""
        each, setting = taken[cut.source], self.setting
        state = self.store.manifest.sources.get(cut.source)
        known, last = each.splits, each.splits[-1]
        cursor = SourceCursor(
            each.series,
            state,
            setting.given,
            hold=False,
            begin=each.begun.position if state is None and each.begun is not None else None,
            cascades=setting.applies,
            lowers_names=known[0].catalogue.lowers_names,
            cuts=(cut.place,),
        )
        splits = cursor.upto(each.end, enough=sum(one.end - one.start for one in known))
        splits[-1] = replace(splits[-1], whole=last.whole, keys=last.keys)
        splits = [replace(one, left_out=_left_out(one, known)) for one in splits]
        first = [one for one in splits if Position(one.file, one.start) < cut.place]
        rest = splits[len(first) :]
        if not (first and rest):  # no transaction begins there: tables stand still from the begin
            return []
        return [
            {**taken, cut.source: replace(each, splits=first)},
            {cut.source: replace(each, splits=rest)},
        ]

    @staticmethod
    def _in_turn(taken: Mapping[str, Taken]) -> list[Mapping[str, Taken]]:
        """What is taken as several batches, where foreign keys that are carried out change."""
        parts = [
            [(source, replace(each, splits=splits)) for splits in _turns(each.splits) or [[]]]
            for source, each in taken.items()
        ]
        return [dict(each for each in some if each is not None) for some in zip_longest(*parts)]

    def take_up(self, taken: Mapping[str, Taken], again: Again) -> MirrorReport:
        """Take up tables that were set aside, by what was taken of their source since then.

        Those that fail are set aside as before, with the new reason. Raises as `run`.
        """
        if not self.setting.applies:
            return self._try(taken, again)
        reports: list[MirrorReport] = []
        offers: dict[TableName, Answer] = {}
        ((source, every),) = taken.items()
        begun = every.begun
        *before, last = _turns(every.splits) or [[]]
        for splits in before:
            reached = str(Position(splits[-1].file, splits[-1].end))
            now = replace(again, reached=reached, known=None)
            part = {source: replace(every, splits=splits, begun=begun)}
            reports.append(self._try(part, now))
            offers |= self.offers
            tables = self.store.manifest.tables
            keys = frozenset(key for key in again.keys or () if stands_at(tables[key], reached))
            again = replace(again, keys=keys, anew=frozenset())
            begun = self.store.manifest.points.get(source, {}).get(reached)
            if not again.keys:
                break
        if again.keys:
            part = {source: replace(every, splits=last, begun=begun)}
            reports.append(self._try(part, again))
        self.offers = offers | self.offers
        return self._sum(reports)

    def _try(
        self,
        taken: Mapping[str, Taken],
        again: Again,
        seconds: dict[str, float] | None = None,
        *,
        checked: bool = False,
        cuts: bool = True,
    ) -> MirrorReport:
        """Run a batch, a few times where others write to the lake's tables meanwhile."""
        left = _TRIES
        while True:
            left, now = left - 1, time.monotonic()
            batch = Batch(
                self.setting,
                taken,
                again,
                self._every,
                looks=again.keys is None and now - self._looked > _LOOK_SECONDS,
                cuts=cuts,
                checks=None if checked else self.setting.complete,
                partly=self.partly,
            )
            try:
                return batch.run(seconds or {})
            except BaseException as error:
                self.store.discard()
                if not left or not isinstance(error, LakeChanged):
                    raise
            finally:
                self.offers = batch.offers
                if batch.looked:
                    self._looked = now


def _left_out(split: Split, known: Iterable[Split]) -> tuple[tuple[int, int], ...]:
    """What a split leaves out: a later file, which is not read here, may roll back more of it."""
    ranges = {*split.left_out}
    ranges.update(*(each.left_out for each in known if each.file == split.file))
    return overlapping([*ranges], split.start, split.end)


def _turns(splits: Sequence[Split]) -> list[list[Split]]:
    """The splits in parts, cut where statements change tables with foreign keys that change rows.

    In each part the keys, and the columns that they need, are the same for all rows that matter: so
    what foreign keys did in it is worked out by those at its end. A part in which nothing can
    cascade goes together with the next one.
    """
    found: list[list[Split]] = []
    for split in splits:
        if not found or (split.apart and _may_cascade(found[-1])):
            found.append([])
        found[-1].append(split)
    return found


def _may_cascade(splits: Sequence[Split]) -> bool:
    """Whether rows may be updated or deleted in the splits."""
    if sum(split.end - split.start for split in splits) > _SMALL:
        return True
    for split in splits:
        for offset, raw in EventReader(split.log, start=split.start):
            if offset >= split.end:
                break
            if offset >= split.start and raw[4] in _CHANGES:
                return True
    return False
