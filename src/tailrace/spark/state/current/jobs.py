"""Making tables' rows in tasks: changes are cut into buckets by the hash of their key, then jobs
apply them to the rows of a table, or of one of its buckets, and write files.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.manifest.manifest import DataFile
from tailrace.spark.record.types import SHARD
from tailrace.spark.state.built import Built, ClosedFile, failed
from tailrace.spark.state.current import raw
from tailrace.spark.state.current.flat import INSERT, SEQ, SNAPSHOT, STAMP, Flat, has_unknown
from tailrace.spark.state.current.fold import (
    alive,
    apply,
    as_entries,
    key_columns,
    merge,
    moves_apart,
)
from tailrace.spark.state.current.keys import buckets
from tailrace.spark.state.current.rows import RAW, ROW_GROUP, bytes_in, empty_rows
from tailrace.spark.state.failure import Failure, RejectedError, attempt
from tailrace.spark.state.spill import read_spill, write_spill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tailrace.spark.parquet.deleted import Rows
    from tailrace.spark.parquet.file import DataFolder
    from tailrace.spark.runtime.tasks import Runner
    from tailrace.spark.state.current.flat import Target
    from tailrace.spark.state.current.plan import TablePlan
    from tailrace.spark.state.current.rows import Base, Piece

    Written = tuple[DataFile | None, str | None]
    Spills = dict[int, list[str]]

_PENDING_ROWS: Final = 1 << 20
"""Entries that are folded into the rest at once, at least."""
_SPILL_BYTES: Final = 64 << 20
_GROUP_BYTES: Final = 16 << 20
_GROUP_JOBS: Final = 8

Key = TypeVar("Key")
NOTHING: Final[Written] = (None, None)


@dataclass(frozen=True)
class Done:
    """What a job wrote: files and their paths. ``open`` has the rows that there are now, ``closed``
    a history's versions that ended.

    ``deleted`` are the rows that are deleted now, by the path of their file; ``rewritten`` the
    files that took the place of others, by the path of these. ``unseen`` counts rows that changed
    before the log shows how they came to be.
    """

    open: Written
    closed: Written = NOTHING
    unseen: int = 0
    deleted: Mapping[str, Rows] = field(default_factory=dict)
    rewritten: Mapping[str, Written] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Work(ABC):
    """Apply changes to the rows of ``base`` in log order, and write the rows to a file in ``out``.

    The changes are in ``pieces``, or in ``spills`` that were cut. ``partial`` says that some images
    are not full.
    """

    target: Target
    base: Base | None
    pieces: tuple[Piece, ...]
    spills: tuple[str, ...]
    partial: bool
    out: DataFolder
    ours: ClassVar[Mapping[str, str]] = {STAMP: STAMP, SEQ: SEQ}
    """The fields of the file between the table's own columns and `RAW`, each with the column of
    rows that is to be in it.
    """

    @property
    def reads(self) -> int:
        """About the bytes that it reads."""
        base = 0 if self.base is None else self.base.reads
        return base + sum(piece.reads for piece in self.pieces) + bytes_in(self.spills)

    @abstractmethod
    def do(self) -> Done:
        """Do it. Raises `RejectedError`."""

    def begun(self) -> pa.Table:
        """The rows before the changes."""
        rows = () if self.base is None else self.base.rows(self.target)
        return pa.concat_tables([empty_rows(self.target), *rows], promote_options="default")

    def changes(self) -> Iterator[tuple[Target, Iterator[Flat]]]:
        """The changes in log order, by what their key is."""
        if self.spills:
            yield self.target, (Flat(read_spill(path)) for path in self.spills)
        for target, run in self._by_key():
            whole = not self.partial
            yield target, (flat for piece in run for flat in piece.flats(target, whole=whole))

    def entries(self) -> Iterator[tuple[Target, Iterator[pa.Table]]]:
        """The entries of changes with full images, in log order, by what their key is."""
        if self.spills:
            yield self.target, map(read_spill, self.spills)
        for target, run in self._by_key():
            yield target, (each for piece in run for each in piece.entries(target))

    def _by_key(self) -> Iterator[tuple[Target, Iterator[Piece]]]:
        for key, run in groupby(self.pieces, lambda piece: piece.key):
            yield replace(self.target, key=key), run

    def write(self, rows: pa.Table, out: DataFolder, kind: str = "part") -> Written:
        """Write rows to a new file, by key.

        Raises `RejectedError` where a row has a default that the log does not tell.
        """
        if has_unknown(rows):
            raise RejectedError(self._why_unknown())
        target, names = self.target, self.target.columns.names
        beside = {name: raw.beside(name) for name in names}
        texts = {n: rows.column(text) for n, text in beside.items() if text in rows.schema.names}
        columns = {name: rows.column(name) for name in names}
        if target.shard is not None:
            columns[SHARD] = pa.repeat(pa.scalar(target.shard), rows.num_rows)
        columns |= {field: rows.column(name) for field, name in self.ours.items()}
        columns[RAW] = raw.as_map(rows.num_rows, texts)
        table = pa.table(columns)
        order = pc.sort_indices(table, [(name, "ascending") for name in target.key])
        file = out.file(kind, bounded=target.key)
        for start in range(0, max(table.num_rows, 1), ROW_GROUP):
            file.write(table.take(order.slice(start, ROW_GROUP)))
        return DataFile("", rows.num_rows, file.close(), table.nbytes), str(file.path)

    def _why_unknown(self) -> str:
        origins: list[Piece | Base] = [*self.pieces]
        origins += [self.base] if self.base is not None else []
        sources = [pair for origin in origins for pair in origin.sources.items()]
        for name, source in sources:
            if source.unknown is not None:
                return (
                    f"its column {name} was added to rows that were there, and what they have in "
                    f"it is not in the log: {source.unknown}"
                )
        steps = [step for _, source in sources for step in source.steps]
        for step in sorted(steps, key=lambda each: each.is_sure):
            return step.reason
        return "a column was added to rows that were there with values that are not in the log"


class FoldJob(Work):
    """Combine the rows of a table, or of one bucket, with their changes, and write them."""

    def do(self) -> Done:
        """Combine rows and write them. Raises `RejectedError`."""
        rows, unseen = self.begun(), 0
        if self.partial:
            for target, flats in self.changes():
                for flat in flats:
                    rows, more = apply(rows, flat, target)
                    unseen += more
        else:
            for target, tables in self.entries():
                rows, more = alive(gathered(as_entries(rows), tables, target))
                unseen += more
        return Done(self.write(rows, self.out), unseen=unseen)


def gathered(merged: pa.Table, pieces: Iterable[pa.Table], target: Target) -> pa.Table:
    """Fold entries into entries, many at once."""
    pending: list[pa.Table] = []
    waiting = 0
    for piece in pieces:
        pending.append(piece)
        waiting += piece.num_rows
        if waiting >= max(_PENDING_ROWS, merged.num_rows):
            merged = merge([merged, *pending], target)
            pending, waiting = [], 0
    return merge([merged, *pending], target)


def do_all(jobs: tuple[Work, ...]) -> list[Done | Failure]:
    """Do several jobs, one after another."""
    return [attempt(_timed, job) for job in jobs]


def _timed(job: Work) -> Done:
    start = time.perf_counter()
    return replace(job.do(), seconds=time.perf_counter() - start)


@dataclass(frozen=True)
class CutJob:
    """Cut a piece of changes, or a base, by the hash of the key: spill files in ``folder``.

    Of each key the last change is enough, unless images are ``partial`` or ``every`` one counts.
    """

    target: Target
    source: Piece | Base
    buckets: int
    partial: bool
    folder: Path
    every: bool = False

    @property
    def reads(self) -> int:
        """The bytes that it reads."""
        return self.source.reads

    def do(self) -> dict[int, list[str]]:
        """Write spill files for each bucket that has any changes. Raises `RejectedError`."""
        folder = self.folder / uuid4().hex  # Spark may repeat the task
        paths: dict[int, list[str]] = {}
        for number, (table, key) in enumerate(self._spillable()):
            if not table.num_rows:  # a part of no rows, as of a table that was emptied
                continue
            places = buckets(key, self.buckets)
            order = np.argsort(places, kind="stable")
            table = table.take(pa.array(order))  # noqa: PLW2901 - the same rows, bucket by bucket
            found, starts = np.unique(places[order], return_index=True)
            ends = [*starts[1:].tolist(), table.num_rows]
            for bucket, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True):
                path = folder / f"{bucket}.{number}.arrow"
                write_spill(path, table.slice(start, end - start))
                paths.setdefault(bucket, []).append(str(path))
        return paths

    def _spillable(self) -> Iterator[tuple[pa.Table, list[pa.ChunkedArray]]]:
        """What to spill, and its rows' keys."""
        target, key = self.target, self.target.key
        if self.partial or self.every:
            for flat in self.source.flats(target, whole=not self.partial):
                apart = moves_apart(flat, target)
                yield apart.table, _found_by(apart, key)
            return
        pending: list[pa.Table] = []
        size = 0
        for table in self.source.entries(target):
            pending.append(table)
            size += table.nbytes
            if size >= _SPILL_BYTES:
                merged = merge(pending, target)
                yield merged, key_columns([merged], key)
                pending, size = [], 0
        if pending:
            merged = merge(pending, target)
            yield merged, key_columns([merged], key)


def _found_by(flat: Flat, key: Sequence[str]) -> list[pa.ChunkedArray]:
    """The key that each change is found by: an insert's new one, any other's old one."""
    fresh = np.isin(flat.operations, (INSERT, SNAPSHOT))
    places = np.arange(len(fresh)) + np.where(fresh, 0, len(fresh))
    return [each.take(pa.array(places)) for each in key_columns([flat.rows, flat.old], key)]


@dataclass(frozen=True)
class Unit:
    """Rows to make: by a plan, where ``out`` gives.

    Buckets are rewritten where they have changes.
    """

    plan: TablePlan
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
        plan = self.plan
        has_rows = base is not None and any((*base.paths, *base.tails))
        one = plan.buckets == 1  # it has a file in any case, for its columns
        remade = plan.reshaped and (has_rows or one)
        if not (pieces or spills or remade or (one and base is None)):
            return None
        return FoldJob(plan.target, base, pieces, spills, plan.partial, self.out())

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
            if (job := self.job(base, pieces, tuple(spills.get(bucket, ())))) is not None:
                found[bucket] = job
        return found

    def kept(self, *, tails: bool = False) -> Built:
        """The state with the files that stay, if any; ``tails`` do if nothing is folded."""
        plan = self.plan
        if plan.before is None or plan.reshaped or len(plan.before[0].files) != plan.buckets:
            return Built(plan.rows, (None,) * plan.buckets)
        known, paths = plan.before
        if tails or not plan.pieces:
            return Built(replace(plan.rows, files=known.files, tails=known.tails), paths)
        return Built(replace(plan.rows, files=known.files), paths[: plan.buckets])

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
        seconds = sum(done.seconds for done in results.values())
        return Built(rows, tuple(paths), tuple(closed), seconds)


def make(units: Mapping[Key, Unit], run: Runner, folder: Path) -> dict[Key, Built]:
    """Make the rows of all units. ``folder`` is there, and takes what is cut."""
    made: dict[Key, Built] = {}
    jobs: dict[Key, dict[int, Work]] = {}
    for key, spills in _cut_all(units, run, folder).items():
        found = spills if isinstance(spills, Failure) else attempt(units[key].jobs, spills)
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
    """Cut the changes of units with several buckets: each unit's spill files by bucket."""
    jobs: list[tuple[Key, CutJob]] = []
    for key, unit in units.items():
        plan = unit.to_cut
        for source in _to_cut(plan) if plan.buckets > 1 else ():
            spill = folder / "spill" / str(len(jobs))
            job = CutJob(plan.target, source, plan.buckets, plan.partial, spill, unit.every)
            jobs.append((key, job))
    cuts: dict[Key, Spills | Failure] = {key: {} for key in units}
    results = run(partial(attempt, CutJob.do), [job for _, job in jobs])
    for (key, _), result in zip(jobs, results, strict=True):
        known = cuts[key]
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
