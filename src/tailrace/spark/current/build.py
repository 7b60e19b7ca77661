"""Making the current state of all tables: plans, jobs, and what the jobs gave."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tailrace.spark.current.alters import alterations
from tailrace.spark.current.conform import RefusedError
from tailrace.spark.current.jobs import CutJob, FoldJob, cut, fold_all
from tailrace.spark.current.lineage import lives
from tailrace.spark.current.plan import plan_table
from tailrace.spark.lake.manifest import Current, DataFile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tailrace.columns import Split, TableChange
    from tailrace.spark.changelog import ChangeFile
    from tailrace.spark.current.alters import Alteration
    from tailrace.spark.current.jobs import Folded
    from tailrace.spark.current.pieces import Base, Piece
    from tailrace.spark.current.plan import TablePlan
    from tailrace.spark.tasks import Runner

    Committed = Mapping[str, tuple[Current, tuple[str | None, ...]]]


_GROUP_BYTES: Final = 16 << 20
_GROUP_JOBS: Final = 8


@dataclass(frozen=True)
class Built:
    """A table's current state in the making: the manifest's entry, and where its files are.

    The names of the entry's files are not those that they will have.
    """

    current: Current
    paths: tuple[str | None, ...] = ()
    seconds: float = 0.0


def table_changes(splits: Sequence[Split]) -> list[TableChange]:
    """What statements in the splits did to tables, in order; those before a split are left out."""
    found = [
        change
        for split in splits
        for change in split.changes
        if split.start <= (change.seq >> 48 & ((1 << 44) - 1)) < split.end
    ]
    return sorted(found, key=lambda change: change.seq)


def altering(splits: Sequence[Split]) -> dict[int, dict[str, Alteration]]:
    """What the altering statements in the splits did to tables, by ``_seq`` and table."""
    found: dict[int, dict[str, Alteration]] = {}
    for split in splits:
        for change in split.changes:
            offset = change.seq >> 48 & ((1 << 44) - 1)
            if change.kind == "alter" and split.start <= offset < split.end:
                found.setdefault(change.seq, {}).update(alterations(split, change))
    return found


@dataclass(frozen=True)
class SourceChanges:
    """What a run found of one source.

    ``files`` are the changelog files of its ``splits`` by table, in log order; ``committed`` the
    current states of its tables before, with the paths of their files.
    """

    splits: Sequence[Split]
    files: Mapping[str, Sequence[ChangeFile]]
    committed: Committed


def build(
    sources: Sequence[SourceChanges], wanted: Callable[[str], bool], run: Runner, folder: Path
) -> dict[str, Built]:
    """The current states of the sources' tables, each after its source's splits.

    ``wanted`` tells the tables that are mirrored, by name; ``run`` runs jobs, in tasks or here;
    ``folder`` is there and takes the new files. A table that is not in the result is not there any
    more.
    """
    built: dict[str, Built] = {}
    plans: dict[str, TablePlan] = {}
    begins: dict[str, tuple[Current, tuple[str | None, ...]] | None] = {}
    for source in sources:
        changes, done = table_changes(source.splits), altering(source.splits)
        found = lives(source.committed, source.files, changes, done, wanted)
        for name, life in found.items():
            try:
                plan = plan_table(life, source.files, source.committed)
            except RefusedError as error:
                built[name] = _refused(str(error))
                continue
            if plan is not None:
                plans[name] = plan
                begins[name] = source.committed[life.base] if life.base is not None else None
    return built | _run(plans, begins, run, folder)


def _run(
    plans: Mapping[str, TablePlan],
    begins: Mapping[str, tuple[Current, tuple[str | None, ...]] | None],
    run: Runner,
    folder: Path,
) -> dict[str, Built]:
    spills = _cut(plans, run, folder)
    jobs: list[tuple[str, int, FoldJob]] = []
    built: dict[str, Built] = {}
    for name, plan in plans.items():
        spilled = spills.get(name, {})
        if isinstance(spilled, str):
            built[name] = _refused(spilled)
            continue
        built[name] = _begun(plan, begins[name])
        for bucket in range(plan.buckets):
            out = folder / f"{len(jobs)}.parquet"
            job = _job(plan, bucket, tuple(spilled.get(bucket, ())), out)
            if job is not None:
                jobs.append((name, bucket, job))
    groups = _grouped([(job, plans[name].memory // plans[name].buckets) for name, _, job in jobs])
    results = [folded for group in run(fold_all, groups) for folded in group]
    for (name, bucket, _), result in zip(jobs, results, strict=True):
        built[name] = _with(built[name], bucket, result)
    return built


def _grouped(jobs: Sequence[tuple[FoldJob, int]]) -> list[tuple[FoldJob, ...]]:
    """Put small jobs together: a task costs some time of its own. In order."""
    groups: list[tuple[FoldJob, ...]] = []
    room = 0
    for job, size in jobs:
        if groups and size <= room and len(groups[-1]) < _GROUP_JOBS:
            groups[-1] = (*groups[-1], job)
            room -= size
        else:
            groups.append((job,))
            room = _GROUP_BYTES - size
    return groups


def _cut(
    plans: Mapping[str, TablePlan], run: Runner, folder: Path
) -> dict[str, dict[int, list[str]] | str]:
    """Cut the changes of tables with several buckets; spill files by bucket, or a refusal."""
    jobs: list[tuple[str, CutJob]] = []
    for name, plan in plans.items():
        if plan.buckets == 1:
            continue
        sources: list[Piece | Base] = list(plan.pieces)
        if plan.base is not None and len(plan.base.paths) != plan.buckets:
            sources[:0] = [replace(plan.base, paths=(path,)) for path in plan.base.paths if path]
        for source in sources:
            spill = folder / "spill" / str(len(jobs))
            jobs.append((name, CutJob(plan.target, source, plan.buckets, plan.partial, spill)))
    spills: dict[str, dict[int, list[str]] | str] = {}
    for (name, _), result in zip(jobs, run(cut, [job for _, job in jobs]), strict=True):
        known = spills.setdefault(name, {})
        if isinstance(result, str) or isinstance(known, str):
            spills[name] = result if isinstance(result, str) else known
            continue
        for bucket, paths in result.items():
            known.setdefault(bucket, []).extend(paths)
    return spills


def _job(plan: TablePlan, bucket: int, spills: tuple[str, ...], out: Path) -> FoldJob | None:
    """The job for a bucket; None where what is committed of it stays."""
    base = plan.base
    if plan.buckets == 1:
        if base is not None and not plan.pieces and not plan.reshaped:
            return None
        return FoldJob(plan.target, base, plan.pieces, (), plan.partial, out)
    if base is not None and len(base.paths) == plan.buckets:
        base = replace(base, paths=(base.paths[bucket],))
        if not spills and (not plan.reshaped or base.paths == (None,)):
            return None
    elif not spills:
        return None
    else:
        base = None
    return FoldJob(plan.target, base, (), spills, plan.partial, out)


def _begun(plan: TablePlan, before: tuple[Current, tuple[str | None, ...]] | None) -> Built:
    """A table's state with the files that stay, if any."""
    files: tuple[DataFile | None, ...] = (None,) * plan.buckets
    paths: tuple[str | None, ...] = (None,) * plan.buckets
    unseen = 0
    if before is not None:
        unseen = before[0].unseen
        if len(before[1]) == plan.buckets and not plan.reshaped:
            files, paths = before[0].files, before[1]
    target = plan.target
    current = Current(target.columns, target.key, files, None, unseen, plan.notes, plan.unlogged)
    return Built(current, paths)


def _with(built: Built, bucket: int, result: Folded) -> Built:
    """The state with a bucket's new file."""
    current = built.current
    if result.refused is not None or current.refused is not None:
        return _refused(current.refused or result.refused or "")
    file = DataFile("", result.rows, result.size, result.memory)
    files = (*current.files[:bucket], file, *current.files[bucket + 1 :])
    paths = (*built.paths[:bucket], result.path, *built.paths[bucket + 1 :])
    current = replace(current, files=files, unseen=current.unseen + result.unseen)
    return Built(current, paths, built.seconds + result.seconds)


def _refused(reason: str) -> Built:
    return Built(Current(pa.schema([]), (), refused=reason))
