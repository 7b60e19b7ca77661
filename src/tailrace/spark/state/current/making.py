"""Making tables' rows in tasks: changes are cut into buckets, then jobs write files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from tailrace.spark.manifest.manifest import TableRows
from tailrace.spark.state.built import Built, ClosedFile, failed
from tailrace.spark.state.current.jobs import CutJob, cut, do_all
from tailrace.spark.state.failure import Failure, attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tailrace.spark.parquet.file import DataFolder
    from tailrace.spark.runtime.tasks import Runner
    from tailrace.spark.state.built import State
    from tailrace.spark.state.current.jobs import Done, Work
    from tailrace.spark.state.current.pieces import Base, Piece
    from tailrace.spark.state.current.plan import TablePlan

    Spills = dict[int, list[str]]

_GROUP_BYTES: Final = 16 << 20
_GROUP_JOBS: Final = 8

Key = TypeVar("Key")


@dataclass(frozen=True)
class Unit:
    """Rows to make: by a plan, from a table's state ``before``, where ``out`` gives."""

    plan: TablePlan
    before: State | None
    out: Callable[[], DataFolder]
    every: ClassVar[bool] = False
    """Whether all changes are cut, and not only the last of each key."""

    @property
    def to_cut(self) -> TablePlan:
        """What is cut into buckets, where it has several."""
        return self.plan

    def size(self, _job: Work) -> int:
        """About the bytes that a job reads."""
        return self.plan.memory // self.plan.buckets

    def job(
        self, base: Base | None, pieces: tuple[Piece, ...], spills: tuple[str, ...]
    ) -> Work | None:
        """The job for a bucket; None where what there is of it stays."""
        raise NotImplementedError

    def jobs(self, spills: Spills) -> dict[int, Work]:
        """The jobs by bucket."""
        plan = self.plan
        found: dict[int, Work] = {}
        for bucket in range(plan.buckets):
            base = plan.base
            if base is not None and plan.buckets > 1:
                is_cut = len(base.paths) != plan.buckets
                base = None if is_cut else base.only((base.paths[bucket],))
            pieces = plan.pieces if plan.buckets == 1 else ()
            cuts = tuple(spills.get(bucket, ()))
            job = self.job(base, pieces, cuts)
            if job is not None:
                found[bucket] = job
        return found

    def kept(self, *, tails: bool = False) -> Built:
        """The state with the files that stay, if any; ``tails`` do if nothing is folded."""
        plan = self.plan
        rows = TableRows(
            plan.target.columns,
            plan.target.key,
            (None,) * plan.buckets,
            unseen=self.before[0].unseen if self.before is not None else 0,
            notes=plan.notes,
            unlogged=plan.unlogged,
            added=plan.added,
        )
        if self.before is None or plan.reshaped or len(self.before[0].files) != plan.buckets:
            return Built(rows, (None,) * plan.buckets)
        known, paths = self.before
        if tails or not plan.pieces:
            return Built(replace(rows, files=known.files, tails=known.tails), paths)
        return Built(replace(rows, files=known.files), paths[: plan.buckets])

    def built(self, results: Mapping[int, Done]) -> Built:
        """The state with what jobs made of buckets."""
        begun = self.kept()
        files, paths = list(begun.rows.files), list(begun.paths)
        closed: list[ClosedFile] = []
        for bucket, done in results.items():
            files[bucket], paths[bucket] = done.open
            file, path = done.closed
            if file is not None and path is not None:
                closed.append(ClosedFile(file, path, begun.rows.columns))
        unseen = begun.rows.unseen + sum(done.unseen for done in results.values())
        rows = replace(begun.rows, files=tuple(files), unseen=unseen)
        return Built(
            rows, tuple(paths), tuple(closed), sum(done.seconds for done in results.values())
        )


def make(units: Mapping[Key, Unit], run: Runner, folder: Path) -> dict[Key, Built]:
    """Make the rows of all units. ``folder`` is there, and takes what is cut."""
    made: dict[Key, Built] = {}
    jobs: dict[Key, dict[int, Work]] = {}
    cuts = _cut_all(units, run, folder)
    for key, unit in units.items():
        spills = cuts.get(key, {})
        found = spills if isinstance(spills, Failure) else attempt(unit.jobs, spills)
        if isinstance(found, Failure):
            made[key] = failed(found)
        else:
            jobs[key] = found
    every = [(job, units[key].size(job)) for key, each in jobs.items() for job in each.values()]
    results = iter([done for group in run(do_all, _grouped(every)) for done in group])
    for key, each in jobs.items():
        made[key] = _finished(units[key], {bucket: next(results) for bucket in each})
    return made


def _finished(unit: Unit, results: Mapping[int, Done | Failure]) -> Built:
    done = {bucket: each for bucket, each in results.items() if not isinstance(each, Failure)}
    causes = [each for each in results.values() if isinstance(each, Failure)]
    if causes:  # one that is not of what the rows are, if there is any
        return failed(min(causes, key=lambda each: each.rejected))
    found = attempt(unit.built, done)
    return failed(found) if isinstance(found, Failure) else found


def _grouped(jobs: Sequence[tuple[Work, int]]) -> list[tuple[Work, ...]]:
    """Put small jobs together: a task costs some time of its own. In order, each with its size."""
    groups: list[tuple[Work, ...]] = []
    room = 0
    for job, size in jobs:
        if groups and size <= room and len(groups[-1]) < _GROUP_JOBS:
            groups[-1] = (*groups[-1], job)
            room -= size
        else:
            groups.append((job,))
            room = _GROUP_BYTES - size
    return groups


def _cut_all(units: Mapping[Key, Unit], run: Runner, folder: Path) -> dict[Key, Spills | Failure]:
    """Cut the changes of units with several buckets: spill files by bucket."""
    jobs: list[tuple[Key, CutJob]] = []
    for key, unit in units.items():
        plan = unit.to_cut
        for source in _to_cut(plan) if plan.buckets > 1 else ():
            spill = folder / "spill" / str(len(jobs))
            job = CutJob(plan.target, source, plan.buckets, plan.partial, spill, unit.every)
            jobs.append((key, job))
    cuts: dict[Key, Spills | Failure] = {}
    results = run(partial(attempt, cut), [job for _, job in jobs])
    for (key, _), result in zip(jobs, results, strict=True):
        known = cuts.setdefault(key, {})
        if isinstance(known, Failure):
            continue
        if isinstance(result, Failure):
            cuts[key] = result
            continue
        for bucket, paths in result.items():
            known.setdefault(bucket, []).extend(paths)
    return cuts


def _to_cut(plan: TablePlan) -> Iterator[Piece | Base]:
    """What has rows or changes of several buckets, in order: each file is a source by itself."""
    base = plan.base
    if base is not None and (plan.pieces or plan.reshaped):
        paths = base.paths if len(base.paths) != plan.buckets else ()
        for path in (*paths, *base.tails):
            if path is not None:
                yield base.only((path,))
    yield from plan.pieces
