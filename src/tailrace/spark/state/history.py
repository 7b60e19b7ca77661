"""The history of tables: each row's versions, with the times between which they were valid.

Stages of tables are made in waves of those that need not wait for each other. Tasks apply a
bucket's changes to its open versions: a change of a row ends the version that stood under its old
key, and leaves one under its new key; an insert only begins one, a delete only ends one. All
moments of a key stand in log order. Times do not go back along a key, whatever the log's clocks
say: a change that is said to be earlier than the version that it ends takes that version's time.
(MariaDB gives a change the second in which its statement began, MySQL's clock may have been set.)
"""

from __future__ import annotations

import datetime as dt
import decimal
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.parquet.file import DataFolder
from tailrace.spark.parquet.footer import row_groups
from tailrace.spark.state.built import Built, failed
from tailrace.spark.state.current.flat import SEQ, SNAPSHOT, STAMP, joined
from tailrace.spark.state.current.fold import Moments, completed, key_columns, leaves_and_takes
from tailrace.spark.state.current.jobs import NOTHING, Done, Unit, Work, make
from tailrace.spark.state.current.keys import dense
from tailrace.spark.state.current.plan import has_begun, plan_table
from tailrace.spark.state.current.rows import RAW, empty_rows
from tailrace.spark.state.current.timeline import End, life_of, stages
from tailrace.spark.state.failure import Failure, attempt, rejection
from tailrace.spark.state.source_changes import SourceTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tailrace.spark.manifest.manifest import TableRows
    from tailrace.spark.runtime.tasks import Runner
    from tailrace.spark.state.built import State
    from tailrace.spark.state.current.flat import Flat, Target
    from tailrace.spark.state.current.jobs import Written
    from tailrace.spark.state.current.keys import Numbers
    from tailrace.spark.state.current.rows import Base, Piece
    from tailrace.spark.state.current.timeline import Life, Stage
    from tailrace.spark.state.source_changes import SourceChanges

_FROM: Final = "_valid_from"
_UNTIL: Final = "\0until"
"""The time at which a closed version ended, in rows that are not yet written."""
_CURRENT: Final = "\0current"
_TIME: Final = pa.timestamp("us", "UTC")
_NUMBER: Final = pa.decimal128(38, 0)
HISTORY_FIELDS: Final = (
    pa.field(_FROM, _TIME),
    pa.field("_valid_to", _TIME),
    pa.field("_is_current", pa.bool_()),
    pa.field("_seq", _NUMBER),
    pa.field(RAW, pa.map_(pa.string(), pa.string())),
)
"""The fields of a history after the table's own columns."""
_OURS: Final = {_FROM: STAMP, "_valid_to": _UNTIL, "_is_current": _CURRENT, "_seq": SEQ}
_PENDING_ROWS: Final = 1 << 20
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
        place = folder / str(number)
        place.mkdir()
        every = stages(source.histories, source.keyed, source.changes, source.wanted)
        last = {stage.table: stage for stage in every}
        made = _Stages(source, run, place, last).make(every)
        for name in filter(source.wanted, last.keys() - source.aside - source.strangers):
            mine = {stage: made[stage] for stage in every if stage.table == name and stage in made}
            if (found := _of_table(source, last[name], mine)) is not None:
                built[SourceTable(source.source, name)] = found
    return built


def _of_table(source: SourceChanges, last: Stage, mine: dict[Stage, Built]) -> Built | None:
    """A table's history out of its stages, up to the ``last``; None where it has none."""
    before = source.histories.get(last.table)
    known = None if before is None else before[0]
    cause = next((each.failed for each in mine.values() if each.failed is not None), None)
    if cause is not None:
        if known is None and cause.origins and next(reversed(mine)).high is not None:
            return None  # a table that is set aside had the name for a moment
        built = failed(cause)
    elif mine:
        built = _joined(known, mine)
    elif before is not None:
        built = Built(*before)
    else:
        return None
    reason = built.rows.refused
    if reason is None or (known is not None and known.refused is not None):
        return built
    begun = has_begun(life_of(last), source.keyed, source.histories)
    return replace(built, failed=rejection(reason)) if begun else built


def _joined(known: TableRows | None, mine: Mapping[Stage, Built]) -> Built:
    """A table's history out of its stages; the last stage's rows are open unless it has an end."""
    *_, (stage, made) = mine.items()
    last, left = made.rows, stage.high is None
    history = replace(
        last,
        # The closed files of a table that is rejected since have the columns known before.
        columns=last.columns if last.refused is None or known is None else known.columns,
        files=last.files if left else (None,) * len(last.files),
        refused=last.refused if left else None,  # the rejected rows are gone
        closed=known.closed if known is not None else (),
        gaps=tuple(dict.fromkeys((*(known.gaps if known is not None else ()), *_gaps(mine)))),
    )
    return Built(
        history,
        made.paths if left else (None,) * len(made.paths),
        tuple(each for one in mine.values() for each in one.closed),
        sum(one.seconds for one in mine.values()),
    )


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


@dataclass
class _Stages:
    """Makes the stages of one source; ``last`` has each table's last one."""

    source: SourceChanges
    run: Runner
    folder: Path
    last: Mapping[str, Stage]
    made: dict[Stage, Built] = field(default_factory=dict)

    def make(self, every: Iterable[Stage]) -> dict[Stage, Built]:
        """All of them, side by side those that need not wait for each other.

        A stage of which nothing is known, neither rows nor columns, is not in the result.
        """
        depth = attrgetter("depth")
        for number, wave in groupby(sorted(every, key=depth), depth):
            self._wave(list(wave), self.folder / str(number))
        return self.made

    def _wave(self, wave: Sequence[Stage], folder: Path) -> None:
        units: dict[Stage, _Versions] = {}
        for stage in wave:
            found = attempt(self._begun, stage)
            if isinstance(found, _Versions):
                units[stage] = found
            elif found is not None:
                self.made[stage] = failed(found) if isinstance(found, Failure) else found
        folder.mkdir()
        self.made |= make(units, self.run, folder)
        made = [(each, self.made[each]) for each in wave if each in self.made]
        self._stop([each for each, one in made if one.rows.refused is not None], folder / "stopped")

    def _begun(self, stage: Stage) -> _Versions | Built | Failure | None:
        """How a stage is made, or why it cannot be: a table is set aside, or a stage before has
        failed. One that has neither rows nor changes is in the columns that its table had before.
        """
        after = stage.after
        names = (stage.table, stage.base, after.table if after else None)
        cause = self.source.lacking(names, after.base if after else stage.unknown)
        if cause is not None:
            return cause
        known, emptied = (self.made.get(each) if each else None for each in (after, stage.emptied))
        for before in (known, emptied):
            if before is not None and before.failed is not None:
                return before.failed
        if (unit := self._unit(stage, stage.life, stage.end)) is not None:
            return unit
        if emptied is None or emptied.rows.refused:
            return None
        return Built(replace(emptied.rows, files=(None,), unseen=0), (None,))

    def _unit(self, stage: Stage, life: Life, end: End | None) -> _Versions | None:
        source, rows = self.source, self._rows(stage)
        known = {"": rows} if rows is not None else {}
        ours = [each.name for each in HISTORY_FIELDS]
        plan = plan_table(life, source, known, shard=source.shard, ours=ours, stamp=_FROM)
        if plan is None:
            return None
        final = partial(source.out, "history", stage.table, plan.target.columns)
        staged = partial(DataFolder, self.folder / "staged")
        is_last = stage is self.last[stage.table] and stage.high is None
        # Of versions before an ALTER TABLE none may have ended: then no file has their columns.
        closed = final if is_last or end is not None else staged
        return _Versions(plan, final if is_last else staged, end, closed)

    def _rows(self, stage: Stage) -> State | None:
        """What a stage begins with."""
        if stage.after is not None:
            before = self.made.get(stage.after)
            return (before.rows, before.paths) if before is not None else None
        if stage.base is None:
            return None
        history, paths = self.source.histories[stage.base]
        return (history, paths) if history.key or history.refused is not None else None

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
                self.made[stage] = failed(found)
        folder.mkdir()
        for stage, each in make(units, self.run, folder).items():
            self.made[stage] = replace(self.made[stage], closed=each.closed, failed=each.failed)

    def _ending(self, stage: Stage) -> _Versions | None:
        unit = self._unit(stage, stage.begun, None)
        if unit is None or unit.plan.base is None or not any(unit.plan.base.paths):
            return None
        return replace(unit, end=End(stage.altered_at or self._first_change(stage)))

    def _first_change(self, stage: Stage) -> int:
        """When the first change of a stage was committed, in microseconds UTC."""
        low = pa.scalar(decimal.Decimal(stage.low), _NUMBER)
        times = (
            rows.filter(pc.greater_equal(rows.column("_seq"), low)).column("_ts")
            for file in self.source.keyed[stage.table]
            if file.last >= stage.low
            for rows in row_groups(file.path, ["_seq", "_ts"])
        )
        first = next(each[0] for each in times if len(each))
        micros: int = first.cast(_TIME).cast(pa.int64()).as_py()
        return micros


@dataclass(frozen=True)
class VersionsJob(Work):
    """Apply changes to the open versions of a table, or of one bucket. ``end`` closes all.

    Those that closed go to a file in ``ended``.
    """

    end: End | None
    ended: DataFolder
    ours = _OURS

    def do(self) -> Done:
        """Make the versions, and write them. Raises `RejectedError`."""
        rows, unseen = self.begun(), 0
        every: list[pa.Table] = [_ended(empty_rows(self.target), [])]
        for target, flats in self.changes():
            for flat in _batched(flats, rows.num_rows):
                closed, rows, more = _apply(rows, flat, target, partial=self.partial)
                every.append(closed)
                unseen += more
        if self.end is not None:
            closed = _ended(rows, np.maximum(_micros(rows), self.end.micros))
            every.append(closed)
            rows = _begun_anew(rows, closed, self.end.anew)
        closed = pa.concat_tables(every, promote_options="default")
        written = self._written(closed, self.ended, "closed")
        rows = rows.append_column(_UNTIL, pa.nulls(rows.num_rows, _TIME))
        return Done(self._written(rows, self.out, "open"), written, unseen)

    def _written(self, rows: pa.Table, out: DataFolder, kind: str) -> Written:
        if not rows.num_rows:
            return NOTHING
        rows = rows.append_column(_CURRENT, rows.column(_UNTIL).is_null())
        return self.write(rows, out, kind)


def _batched(flats: Iterable[Flat], known: int) -> Iterator[Flat]:
    """Many changes at once."""
    pending: list[Flat] = []
    waiting = 0
    for flat in flats:
        pending.append(flat)
        waiting += len(flat.operations)
        if waiting >= max(_PENDING_ROWS, known):
            yield joined(pending)
            pending, waiting = [], 0
    if pending:
        yield joined(pending)


def _apply(
    state: pa.Table, flat: Flat, target: Target, *, partial: bool
) -> tuple[pa.Table, pa.Table, int]:
    """The versions that the changes ended, those that are open after them, and unknown rows.

    ``state`` has the open versions before: the target's columns and, as rows of a current state,
    ``_seq`` and ``_ts`` of the change that began each; so have the results, those ended `_UNTIL`
    besides. The last result counts changes of rows of which no version was open. Raises
    `RejectedError` where a version cannot be told, or two have a key that a user gave.
    """
    state, untouched = _touched(state, flat, target)
    base = state.num_rows
    operations = np.concatenate([np.full(base, SNAPSHOT, np.int8), flat.operations])
    leaves, takes = leaves_and_takes(operations)
    if partial:
        left = completed(state, flat, target)
    else:
        left = pa.concat_tables([state, flat.rows], promote_options="default")
        left = left.take(pa.array(leaves))
    taken = flat.old.take(pa.array(takes - base))
    keys, _ = dense(key_columns([left, taken], target.key))
    at = Moments.of(leaves, takes, keys)
    at.check_given(left, target)
    stamps = np.concatenate([_micros(state), _micros(flat.rows)])
    times = _not_back(at.keys, stamps[at.changes])
    unseen = int(np.count_nonzero(~at.leaves & np.append(True, at.last[:-1])))
    left = left.take(pa.array(at.order[at.leaves]))
    began = pa.array(times[at.leaves], pa.int64()).cast(_TIME)
    left = left.set_column(left.schema.get_field_index(STAMP), STAMP, began)
    ends = ~at.last[at.leaves]
    until = times[np.minimum(np.flatnonzero(at.leaves) + 1, len(times) - 1)]
    closed = _ended(left.filter(pa.array(ends)), until[ends])
    now = left.filter(pa.array(~ends))
    return closed, pa.concat_tables([untouched, now], promote_options="default"), unseen


def _begun_anew(state: pa.Table, ended: pa.Table, seq: int | None) -> pa.Table:
    """The rows as versions that began where those in ``ended`` did end, with the change ``seq``.

    None of them begins where that is None.
    """
    if seq is None:
        return state.slice(0, 0)
    number = pa.repeat(pa.scalar(decimal.Decimal(seq), _NUMBER), state.num_rows)
    began = state.set_column(state.schema.get_field_index(SEQ), SEQ, number)
    return began.set_column(began.schema.get_field_index(STAMP), STAMP, ended.column(_UNTIL))


def _touched(state: pa.Table, flat: Flat, target: Target) -> tuple[pa.Table, pa.Table]:
    """The rows under keys that changes have, and the others."""
    if not state.num_rows:
        return state, state
    keys, count = dense(key_columns([state, flat.rows, flat.old], target.key))
    met = np.zeros(count, np.bool_)
    met[keys[state.num_rows :]] = True
    mask = met[keys[: state.num_rows]]
    return state.filter(pa.array(mask)), state.filter(pa.array(~mask))


def _not_back(keys: Numbers, times: Numbers) -> Numbers:
    """The times, each at least the one before it with the same key; rows are in order of keys."""
    distinct, ranks = np.unique(times, return_inverse=True)
    highest = np.maximum.accumulate(keys * len(distinct) + ranks)
    result: Numbers = distinct[highest - keys * len(distinct)]
    return result


def _micros(rows: pa.Table) -> Numbers:
    result: Numbers = rows.column(STAMP).cast(_TIME).cast(pa.int64()).to_numpy()
    return result


def _ended(rows: pa.Table, times: Any) -> pa.Table:
    return rows.append_column(_UNTIL, pa.array(times, pa.int64()).cast(_TIME))
