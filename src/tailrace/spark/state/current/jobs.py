"""What tasks do to make a table's current state: cut changes into buckets, combine rows."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa

from tailrace.errors import PipelineError
from tailrace.printable import one_line
from tailrace.spark.state.current import partial
from tailrace.spark.state.current.flat import pack, unpack
from tailrace.spark.state.current.fold import (
    alive,
    as_entries,
    entries,
    key_columns,
    merge,
    moves_apart,
)
from tailrace.spark.state.current.keys import buckets
from tailrace.spark.state.current.pieces import Base, Piece, base_rows, changes
from tailrace.spark.state.current.rows import empty_rows, write_rows
from tailrace.spark.state.failure import Failure, attempt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tailrace.spark.state.current.flat import Target

_PENDING_ROWS: Final = 1 << 20
"""Entries that are folded into the rest at once, at least."""
_SPILL_BYTES: Final = 64 << 20


@dataclass(frozen=True)
class CutJob:
    """Cut a piece of changes, or a base, into buckets: spill files in ``folder``.

    Of each key the last change is enough, unless images are ``partial`` or ``every`` one counts.
    """

    target: Target
    source: Piece | Base
    buckets: int
    partial: bool
    folder: Path
    every: bool = False


@dataclass(frozen=True)
class FoldJob:
    """Combine the rows of a table, or of one bucket, and write them to ``out``.

    The changes in ``pieces``, or else in ``spills`` that were cut, are applied to the rows of
    ``base`` in log order.
    """

    target: Target
    base: Base | None
    pieces: tuple[Piece, ...]
    spills: tuple[str, ...]
    partial: bool
    out: Path


@dataclass(frozen=True)
class Folded:
    """Figures of the file that a `FoldJob` wrote. ``unseen`` counts rows that changed before the
    log shows how they came to be.
    """

    path: str = ""
    rows: int = 0
    size: int = 0
    memory: int = 0
    unseen: int = 0
    seconds: float = 0.0


def cut(job: CutJob) -> dict[int, list[str]]:
    """Write spill files for each bucket that has any changes. Raises `RejectedError`."""
    try:
        folder = job.folder / uuid4().hex  # Spark may repeat the task
        folder.mkdir(parents=True)
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
    except OSError as error:
        raise PipelineError(f"cannot write {job.folder}: {one_line(str(error))}") from error
    return paths


def write_spill(path: Path, table: pa.Table) -> None:
    """Write rows for `read_spill`. Raises OSError."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _spillable(job: CutJob) -> Iterator[tuple[pa.Table, list[pa.ChunkedArray]]]:
    """What to spill, and its rows' keys."""
    key, given = job.target.key, job.target.given
    if job.partial or job.every:
        for table in _packed(job):
            yield table, key_columns([unpack(table, job.target).under_keys(key)], key)
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


def fold_all(jobs: tuple[FoldJob, ...]) -> list[Folded | Failure]:
    """Do several jobs, one after another."""
    return [attempt(fold, job) for job in jobs]


def fold(job: FoldJob) -> Folded:
    """Combine rows and write them. Raises `RejectedError`."""
    start = time.perf_counter()
    rows, unseen = _spilled_rows(job) if job.spills else _rows(job)
    origins = (*job.pieces, *((job.base,) if job.base is not None else ()))
    size, memory = write_rows(rows, job.target, job.out, origins)
    seconds = time.perf_counter() - start
    return Folded(str(job.out), rows.num_rows, size, memory, unseen, seconds)


def _rows(job: FoldJob) -> tuple[pa.Table, int]:
    """Fold the pieces into the base, run by run of pieces with the same key."""
    rows = empty_rows(job.target)
    if job.base is not None:
        rows = pa.concat_tables([rows, *base_rows(job.base, job.target)], promote_options="default")
    unseen = 0
    for key, run in runs(job.pieces):
        target = replace(job.target, key=key)
        more = 0
        if job.partial:
            for piece in run:
                for flat in changes(piece, target, whole=False):
                    rows, more = partial.apply(rows, flat, target)
                    unseen += more
        else:
            rows, more = alive(gathered(as_entries(rows), piece_entries(run, target), target))
            unseen += more
    return rows, unseen


def piece_entries(pieces: Iterable[Piece], target: Target) -> Iterator[pa.Table]:
    """The entries of pieces with full images, which have the target's key."""
    for piece in pieces:
        for flat in changes(piece, target, whole=True):
            yield entries(flat, target.key, given=target.given)


def runs(pieces: Iterable[Piece]) -> Iterator[tuple[tuple[str, ...], list[Piece]]]:
    """Runs of consecutive pieces with the same key."""
    run: list[Piece] = []
    for piece in pieces:
        if run and piece.key != run[-1].key:
            yield run[-1].key, run
            run = []
        run.append(piece)
    if run:
        yield run[-1].key, run


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


def _spilled_rows(job: FoldJob) -> tuple[pa.Table, int]:
    rows = empty_rows(job.target)
    if job.base is not None:
        rows = pa.concat_tables([rows, *base_rows(job.base, job.target)], promote_options="default")
    spills = (read_spill(path) for path in job.spills)
    if not job.partial:
        return alive(gathered(as_entries(rows), spills, job.target))
    unseen = 0
    for table in spills:
        rows, more = partial.apply(rows, unpack(table, job.target), job.target)
        unseen += more
    return rows, unseen


def read_spill(path: str) -> pa.Table:
    """A spill file's rows; raises `PipelineError`."""
    try:
        with pa.memory_map(path) as file:
            return pa.ipc.open_file(file).read_all()
    except OSError as error:
        raise PipelineError(f"cannot read {path}: {error}") from error
