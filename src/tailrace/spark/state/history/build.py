"""Making the histories of all tables: their stages, in waves of those that need not wait."""

from __future__ import annotations

import datetime as dt
import decimal
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.manifest.manifest import TableRows
from tailrace.spark.parquet.file import DataFolder
from tailrace.spark.parquet.footer import row_groups
from tailrace.spark.state.built import Built, failed
from tailrace.spark.state.current.making import Unit, make
from tailrace.spark.state.current.plan import has_begun, plan_table
from tailrace.spark.state.current.timeline import End, life_of, stages
from tailrace.spark.state.failure import Failure, attempt, rejection
from tailrace.spark.state.history.jobs import HISTORY_FIELDS, VersionsJob
from tailrace.spark.state.source_changes import SourceTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tailrace.spark.runtime.tasks import Runner
    from tailrace.spark.state.built import State
    from tailrace.spark.state.current.jobs import Work
    from tailrace.spark.state.current.pieces import Base, Piece
    from tailrace.spark.state.current.timeline import Life, Stage
    from tailrace.spark.state.source_changes import SourceChanges

_OURS = tuple(field.name for field in HISTORY_FIELDS)
_STAMP = "_valid_from"
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def build_history(
    sources: Sequence[SourceChanges],
    run: Runner,
    folder: Path,
) -> dict[SourceTable, Built]:
    """The histories of the sources' tables, each after its source's splits.

    As `tailrace.spark.state.current.build.build`; a table that was dropped keeps its history.
    """
    built: dict[SourceTable, Built] = {}
    for number, source in enumerate(sources):
        found = stages(source.histories, source.keyed, source.changes, source.wanted)
        place = folder / str(number)
        place.mkdir()
        made = _Run(source, run, place).make(found)
        last = {stage.table: stage for stage in found if source.wanted(stage.table)}
        for name in last.keys() - source.aside - source.strangers:
            table = SourceTable(source.source, name)
            mine = {s: made[s] for s in found if s.table == name and s in made}
            known = source.histories.get(name)
            cause = next((each.failed for each in mine.values() if each.failed is not None), None)
            if cause is not None and known is None and cause.origins and _is_over(mine):
                continue  # a table that is set aside had the name for a moment
            if cause is not None:
                built[table] = failed(cause)
            elif mine:
                built[table] = _together(known, mine)
            elif known is not None:
                built[table] = Built(*known)
            else:
                continue
            reason = built[table].rows.refused
            if reason is None or (known is not None and known[0].refused is not None):
                continue
            if has_begun(life_of(last[name]), source.keyed, source.histories):
                built[table] = replace(built[table], failed=rejection(reason))
    return built


def _is_over(mine: Mapping[Stage, Built]) -> bool:
    """Whether no table has the name any more."""
    return next(reversed([*mine])).high is not None


def _together(before: State | None, mine: dict[Stage, Built]) -> Built:
    """A table's history out of its stages; the last stage's rows are open unless it has an end."""
    made = list(mine.values())
    left = next(reversed(mine)).high is None
    last = made[-1].rows
    known = before[0] if before is not None else None
    columns = last.columns
    if last.refused is not None and known is not None:
        columns = known.columns  # its closed files have them
    paths = made[-1].paths if left else (None,) * len(made[-1].paths)
    gaps = dict.fromkeys((*(known.gaps if known is not None else ()), *_gaps(mine)))
    history = TableRows(
        columns,
        last.key,
        last.files if left else (None,) * len(last.files),
        last.refused if left else None,  # the rejected rows are gone
        last.unseen,
        last.notes,
        last.unlogged,
        last.added,
        closed=known.closed if known is not None else (),
        gaps=tuple(gaps),
    )
    closed = tuple(each for stage in made for each in stage.closed)
    return Built(history, paths, closed, sum(stage.seconds for stage in made))


def _gaps(mine: Mapping[Stage, Built]) -> Iterator[str]:
    """The messages about stages without versions, where the table was recreated since."""
    following = [made.rows.refused for made in mine.values()][1:]
    for (stage, made), later in zip_longest(mine.items(), following):
        if made.rows.refused is not None and later is None and stage.end is not None:
            until = _EPOCH + dt.timedelta(microseconds=stage.end.micros)
            yield f"not all versions until {until:%Y-%m-%d %H:%M:%S.%f} UTC: {made.rows.refused}"


@dataclass(frozen=True)
class _Versions(Unit):
    """A stage whose versions all close with its ``end``, if it has one, and go where ``closed``
    gives.
    """

    end: End | None
    closed: Callable[[], DataFolder]
    every = True

    def job(
        self, base: Base | None, pieces: tuple[Piece, ...], spills: tuple[str, ...]
    ) -> Work | None:
        plan = self.plan
        has_rows = base is not None and any(base.paths)
        if not (pieces or spills or (has_rows and (plan.reshaped or self.end is not None))):
            return None
        return VersionsJob(
            plan.target, base, pieces, spills, plan.partial, self.out(), self.end, self.closed()
        )


class _Run:
    """Makes the stages of one source."""

    def __init__(self, source: SourceChanges, run: Runner, folder: Path) -> None:
        self._source = source
        self._run = run
        self._folder = folder
        self._made: dict[Stage, Built] = {}
        self._last: dict[str, Stage] = {}

    def make(self, found: Sequence[Stage]) -> dict[Stage, Built]:
        """All of them, side by side those that need not wait for each other.

        A stage of which nothing is known, neither rows nor columns, is not in the result.
        """
        self._last = {stage.table: stage for stage in found}
        for depth, wave in groupby(sorted(found, key=lambda each: each.depth), lambda s: s.depth):
            self._wave(list(wave), self._folder / str(depth))
        return self._made

    def _wave(self, wave: Sequence[Stage], folder: Path) -> None:
        units: dict[Stage, _Versions] = {}
        for stage in wave:
            found = attempt(self._begun, stage)
            if isinstance(found, Failure):
                self._made[stage] = failed(found)
            elif isinstance(found, Built):
                self._made[stage] = found
            elif found is not None:
                units[stage] = found
        folder.mkdir()
        self._made |= make(units, self._run, folder)
        made = [(each, self._made[each]) for each in wave if each in self._made]
        self._stop([each for each, one in made if one.rows.refused is not None], folder / "stopped")

    def _cannot(self, stage: Stage) -> Failure | None:
        """Why a stage cannot be made: a table is set aside, or a stage before has failed."""
        names = (stage.table, stage.base, stage.after.table if stage.after is not None else None)
        cause = self._source.lacking(names)
        had = stage.unknown if stage.after is None else stage.after.base
        cause = cause or self._source.outdated(had)
        if cause is not None:
            return cause
        for other in (stage.after, stage.emptied):
            before = self._made.get(other) if other is not None else None
            if before is not None and before.failed is not None:
                return before.failed
        return None

    def _begun(self, stage: Stage) -> _Versions | Built | Failure | None:
        """How a stage is made, or why it cannot be. One that has neither rows nor changes is in the
        columns that its table had before.
        """
        if (cause := self._cannot(stage)) is not None:
            return cause
        if (unit := self._unit(stage, stage.life, stage.end)) is not None:
            return unit
        before = self._made.get(stage.emptied) if stage.emptied is not None else None
        if before is None or before.rows.refused:
            return None
        return Built(replace(before.rows, files=(None,), unseen=0), (None,))

    def _unit(self, stage: Stage, life: Life, end: End | None) -> _Versions | None:
        rows = self._rows(stage)
        plan = plan_table(
            life,
            self._source.keyed,
            {"": rows} if rows is not None else {},
            given=self._source.keys,
            shard=self._source.shard,
            ours=_OURS,
        )
        if plan is not None and plan.base is not None:
            plan = replace(plan, base=replace(plan.base, stamp=_STAMP))
        if plan is None:
            return None
        final = partial(self._source.out, "history", stage.table, plan.target.columns)
        staged = partial(DataFolder, self._folder / "staged")
        is_last = stage is self._last[stage.table] and stage.high is None
        # Of versions before an ALTER TABLE none may have ended: then no file has their columns.
        closed = final if is_last or end is not None else staged
        return _Versions(plan, rows, final if is_last else staged, end, closed)

    def _rows(self, stage: Stage) -> State | None:
        """What a stage begins with."""
        if stage.after is not None:
            before = self._made.get(stage.after)
            return (before.rows, before.paths) if before is not None else None
        if stage.base is not None:
            history, paths = self._source.histories[stage.base]
            gone = not history.key and history.refused is None
            return None if gone else (history, paths)
        return None

    def _stop(self, rejected: Sequence[Stage], folder: Path) -> None:
        """End the versions that stages began with whose changes cannot be carried out.

        They end with the first of these changes.
        """
        units: dict[Stage, _Versions] = {}
        for stage in rejected:
            found = attempt(self._ending, stage)
            if isinstance(found, _Versions):
                units[stage] = found
            elif found is not None and not found.rejected:  # else not even that can be told
                self._made[stage] = failed(found)
        folder.mkdir()
        for stage, each in make(units, self._run, folder).items():
            made = self._made[stage]
            self._made[stage] = replace(made, closed=each.closed, failed=each.failed)

    def _ending(self, stage: Stage) -> _Versions | None:
        unit = self._unit(stage, stage.begun, None)
        if unit is None or unit.plan.base is None or not any(unit.plan.base.paths):
            return None
        return replace(unit, end=End(stage.altered_at or self._first_change(stage)))

    def _first_change(self, stage: Stage) -> int:
        """When the first change of a stage was committed, in microseconds UTC."""
        low = pa.scalar(decimal.Decimal(stage.low), pa.decimal128(38, 0))
        times = (
            rows.filter(pc.greater_equal(rows.column("_seq"), low)).column("_ts")
            for file in self._source.keyed[stage.table]
            if file.last >= stage.low
            for rows in row_groups(file.path, ["_seq", "_ts"])
        )
        first = next(each[0] for each in times if len(each))
        micros: int = first.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).as_py()
        return micros
