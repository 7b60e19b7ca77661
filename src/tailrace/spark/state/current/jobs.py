"""Jobs of tasks: cut changes into buckets by the hash of their key, and apply them to the rows of
a table, or of one of its buckets.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa

from tailrace.spark.manifest.manifest import DataFile
from tailrace.spark.state.current import partial
from tailrace.spark.state.current.flat import INSERT, SNAPSHOT, pack, unpack
from tailrace.spark.state.current.fold import (
    alive,
    as_entries,
    entries,
    key_columns,
    merge,
    moves_apart,
)
from tailrace.spark.state.current.keys import buckets
from tailrace.spark.state.current.pieces import Base, Piece, base_rows, bytes_in, changes
from tailrace.spark.state.current.rows import CURRENT_FIELDS, empty_rows, write_rows
from tailrace.spark.state.failure import Failure, attempt
from tailrace.spark.state.spill import read_spill, write_spill

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tailrace.spark.parquet.deleted import Rows
    from tailrace.spark.parquet.file import DataFolder
    from tailrace.spark.state.current.flat import Flat, Target

    Written = tuple[DataFile | None, str | None]

_PENDING_ROWS: Final = 1 << 20
"""Entries that are folded into the rest at once, at least."""
_SPILL_BYTES: Final = 64 << 20
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
        rows = () if self.base is None else base_rows(self.base, self.target)
        return pa.concat_tables([empty_rows(self.target), *rows], promote_options="default")

    def changes(self) -> Iterator[tuple[Target, Iterator[Flat]]]:
        """The changes in log order, by what their key is."""
        if self.spills:
            yield self.target, (unpack(read_spill(path), self.target) for path in self.spills)
        for key, run in groupby(self.pieces, lambda piece: piece.key):
            target = replace(self.target, key=key)
            whole = not self.partial
            yield target, (flat for piece in run for flat in changes(piece, target, whole=whole))

    def write(
        self,
        rows: pa.Table,
        out: DataFolder,
        kind: str = "part",
        ours: Mapping[str, str] = CURRENT_FIELDS,
    ) -> Written:
        """Write rows to a new file."""
        file = out.file(kind, bounded=self.target.key)
        origins = (*self.pieces, *((self.base,) if self.base is not None else ()))
        size, memory = write_rows(rows, self.target, file, origins, ours)
        return DataFile("", rows.num_rows, size, memory), str(file.path)


class FoldJob(Work):
    """Combine the rows of a table, or of one bucket, with their changes, and write them."""

    def do(self) -> Done:
        """Combine rows and write them. Raises `RejectedError`."""
        rows, unseen = self.begun(), 0
        if self.partial:
            for target, flats in self.changes():
                for flat in flats:
                    rows, more = partial.apply(rows, flat, target)
                    unseen += more
        else:
            for target, tables in changed(self):
                rows, more = alive(gathered(as_entries(rows), tables, target))
                unseen += more
        return Done(self.write(rows, self.out), unseen=unseen)


def changed(work: Work) -> Iterator[tuple[Target, Iterator[pa.Table]]]:
    """The entries of changes with full images, in log order, by what their key is."""
    if work.spills:
        yield work.target, map(read_spill, work.spills)
        return
    for target, flats in work.changes():
        yield target, (entries(flat, target.key, given=target.given) for flat in flats)


def gathered(merged: pa.Table, pieces: Iterable[pa.Table], target: Target) -> pa.Table:
    """Fold entries into entries, many at once."""
    key, given = target.key, target.given
    pending: list[pa.Table] = []
    waiting = 0
    for piece in pieces:
        pending.append(piece)
        waiting += piece.num_rows
        if waiting >= max(_PENDING_ROWS, merged.num_rows):
            merged = merge([merged, *pending], key, given=given)
            pending, waiting = [], 0
    return merge([merged, *pending], key, given=given)


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


def cut(job: CutJob) -> dict[int, list[str]]:
    """Write spill files for each bucket that has any changes. Raises `RejectedError`."""
    folder = job.folder / uuid4().hex  # Spark may repeat the task
    paths: dict[int, list[str]] = {}
    for number, (table, key) in enumerate(_spillable(job)):
        if not table.num_rows:  # a part of no rows, as of a table that was emptied
            continue
        places = buckets(key, job.buckets)
        order = np.argsort(places, kind="stable")
        table = table.take(pa.array(order))  # noqa: PLW2901 - the same rows, bucket by bucket
        found, starts = np.unique(places[order], return_index=True)
        ends = [*starts[1:].tolist(), table.num_rows]
        for bucket, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True):
            path = folder / f"{bucket}.{number}.arrow"
            write_spill(path, table.slice(start, end - start))
            paths.setdefault(bucket, []).append(str(path))
    return paths


def _spillable(job: CutJob) -> Iterator[tuple[pa.Table, list[pa.ChunkedArray]]]:
    """What to spill, and its rows' keys."""
    key, given = job.target.key, job.target.given
    if job.partial or job.every:
        for table in _packed(job):
            yield table, _found_by(unpack(table, job.target), key)
        return
    pending: list[pa.Table] = []
    size = 0
    for table in _entries(job):
        pending.append(table)
        size += table.nbytes
        if size >= _SPILL_BYTES:
            merged = merge(pending, key, given=given)
            yield merged, key_columns([merged], key)
            pending, size = [], 0
    if pending:
        merged = merge(pending, key, given=given)
        yield merged, key_columns([merged], key)


def _found_by(flat: Flat, key: Sequence[str]) -> list[pa.ChunkedArray]:
    """The key that each change is found by: an insert's new one, any other's old one."""
    fresh = np.isin(flat.operations, (INSERT, SNAPSHOT))
    places = np.arange(len(fresh)) + np.where(fresh, 0, len(fresh))
    return [each.take(pa.array(places)) for each in key_columns([flat.rows, flat.old], key)]


def _packed(job: CutJob) -> Iterator[pa.Table]:
    if isinstance(job.source, Base):
        for rows in base_rows(job.source, job.target):
            yield pack(partial.as_changes(rows, job.target))
        return
    for flat in changes(job.source, job.target, whole=not job.partial):
        yield pack(moves_apart(flat, job.target.key))


def _entries(job: CutJob) -> Iterator[pa.Table]:
    if isinstance(job.source, Base):
        yield from map(as_entries, base_rows(job.source, job.target))
        return
    for flat in changes(job.source, job.target, whole=True):
        yield entries(flat, job.target.key, given=job.target.given)
