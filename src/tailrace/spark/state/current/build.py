"""Making the current state of all tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tailrace.spark.state.built import Built, failed
from tailrace.spark.state.current.jobs import FoldJob
from tailrace.spark.state.current.making import Unit, make
from tailrace.spark.state.current.patch import PatchJob
from tailrace.spark.state.current.patching import jobs, parts, patched, swallowed
from tailrace.spark.state.current.plan import has_begun, plan_table
from tailrace.spark.state.current.timeline import lives
from tailrace.spark.state.failure import Failure, attempt, rejection
from tailrace.spark.state.source_changes import SourceTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tailrace.spark.runtime.tasks import Runner
    from tailrace.spark.state.built import State
    from tailrace.spark.state.current.jobs import Done, Work
    from tailrace.spark.state.current.making import Spills
    from tailrace.spark.state.current.patching import Patches
    from tailrace.spark.state.current.pieces import Base, Piece
    from tailrace.spark.state.current.plan import TablePlan
    from tailrace.spark.state.current.timeline import Life
    from tailrace.spark.state.source_changes import SourceChanges


class _Fold(Unit):
    """A table whose buckets are rewritten where they have changes."""

    def job(
        self, base: Base | None, pieces: tuple[Piece, ...], spills: tuple[str, ...]
    ) -> Work | None:
        plan = self.plan
        has_rows = base is not None and any((*base.paths, *base.tails))
        needed = bool(pieces or spills) or (has_rows and plan.reshaped)
        if plan.buckets == 1:  # it has a file in any case, for its columns
            needed = needed or base is None or plan.reshaped
        if not needed:
            return None
        return FoldJob(plan.target, base, pieces, spills, plan.partial, self.out())


@dataclass(frozen=True)
class _Patch(Unit):
    """A table whose changes are kept separately from its files, by jobs for ``count`` parts."""

    count: int
    limits: Patches

    @property
    def to_cut(self) -> TablePlan:
        return replace(self.plan, base=None, buckets=self.count)

    def size(self, job: Work) -> int:
        return job.reads if isinstance(job, PatchJob) else 0

    def jobs(self, spills: Spills) -> dict[int, Work]:
        found = jobs(self.plan, self._state, self.count, spills, self.limits, self.out())
        return {job.part: job for job in found}

    @property
    def _state(self) -> State:
        begun = self.kept(tails=True)
        return begun.rows, begun.paths

    def built(self, results: Mapping[int, Done]) -> Built:
        taken = swallowed(self._state[0].tails, self.plan.changed, self.limits)
        done = [*results.values()]
        rows, paths, deleted = patched(self._state, taken, done)
        return Built(rows, paths, seconds=sum(each.seconds for each in done), deleted=deleted)


def build(
    sources: Sequence[SourceChanges],
    run: Runner,
    folder: Path,
    patches: Patches | None = None,
) -> dict[SourceTable, Built]:
    """The current states of the sources' tables, each after its source's splits.

    ``run`` runs jobs, in tasks or here; ``folder`` is there and takes what is cut. With ``patches``
    changes may be kept separately from a table's files. A table that is not in the result no longer
    exists.
    """
    built: dict[SourceTable, Built] = {}
    units: dict[SourceTable, Unit] = {}
    begun: dict[SourceTable, tuple[SourceChanges, Life]] = {}
    for source in sources:
        found = lives(source.committed, source.keyed, source.changes, source.wanted)
        plan = partial(_unit, source=source, patches=patches)
        for name, life in found.items():
            if name in source.aside | source.strangers:
                continue
            table = SourceTable(source.source, name)
            cause = source.lacking(_names(life)) or source.outdated(life.had)
            if cause is not None:
                built[table] = _last(source, name, life, cause)
                continue
            if has_begun(life, source.keyed, source.committed):
                begun[table] = source, life
            unit = attempt(partial(plan, name), life)
            if isinstance(unit, Failure):
                built[table] = failed(unit)
            elif unit is not None:
                units[table] = unit
    built |= make(units, run, folder)
    for table in built.keys() & begun.keys():
        if (reason := built[table].rows.refused) is not None:
            source, life = begun[table]
            last = _last(source, table.name, life, cause := rejection(reason))
            built[table] = last if last.moved else replace(built[table], failed=cause)
    return built


def _unit(name: str, life: Life, source: SourceChanges, patches: Patches | None) -> Unit | None:
    """How a table is made; None where it does not exist, or nothing tells its columns."""
    plan = plan_table(life, source.keyed, source.committed, given=source.keys, shard=source.shard)
    if plan is None:
        return None
    before = source.committed[life.base] if life.base is not None else None
    if (
        before is not None
        and life.base is not None
        and plan.base is not None
        and any(file.deleted for file in before[0].data)
    ):
        plan = replace(plan, base=replace(plan.base, deleted=source.deleted(life.base)))
    out = partial(source.out, "current", name, plan.target.columns)
    if patches is not None and (count := parts(plan, before, patches)):
        return _Patch(plan, before, out, count, patches)
    return _Fold(plan, before, out)


def _names(life: Life) -> Iterator[str | None]:
    """The tables whose rows it has."""
    yield life.base
    for segment in life.segments:
        yield segment.table


def _last(source: SourceChanges, name: str, life: Life, cause: Failure) -> Built:
    """A table that cannot be made, with the last state that it had under another name, unless that
    one stands still.
    """
    base = None if life.base == name or life.base in source.aside else life.base
    before = None if base is None else source.committed.get(base)
    if before is None or before[0].refused is not None:
        return failed(cause)
    return Built(*before, failed=cause, moved=True)
