"""What tasks do to make a table's history: apply a bucket's changes to its open versions."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tailrace.spark.state.current.flat import SEQ, STAMP, unpack
from tailrace.spark.state.current.jobs import read_spill, runs
from tailrace.spark.state.current.pieces import base_rows, changes
from tailrace.spark.state.current.rows import RAW, empty_rows, write_rows
from tailrace.spark.state.failure import Failure, attempt
from tailrace.spark.state.history.versions import UNTIL, begin_all, end_all, joined, versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tailrace.spark.state.current.flat import Flat, Target
    from tailrace.spark.state.current.pieces import Base, Piece

HISTORY_FIELDS: Final = (
    pa.field("_valid_from", pa.timestamp("us", "UTC")),
    pa.field("_valid_to", pa.timestamp("us", "UTC")),
    pa.field("_is_current", pa.bool_()),
    pa.field("_seq", pa.decimal128(38, 0)),
    pa.field(RAW, pa.map_(pa.string(), pa.string())),
)
"""The fields of a history after the table's own columns."""
_CURRENT: Final = "\0current"
_OURS: Final = {"_valid_from": STAMP, "_valid_to": UNTIL, "_is_current": _CURRENT, "_seq": SEQ}
_PENDING_ROWS: Final = 1 << 20


@dataclass(frozen=True)
class End:
    """What ends all versions of a table: TRUNCATE, DROP, RENAME, ALTER, what cannot be told.

    ``micros`` is when. Where the rows continue, under another name or in other columns, ``anew`` is
    the ``_seq`` with which their new versions start.
    """

    micros: int
    anew: int | None = None


@dataclass(frozen=True)
class VersionsJob:
    """Apply changes to the open versions of ``base``: ``pieces``, or ``spills`` that were cut.

    Versions that are closed go to ``closed``, those open to ``out``; with ``end`` all are closed.
    """

    target: Target
    base: Base | None
    pieces: tuple[Piece, ...]
    spills: tuple[str, ...]
    partial: bool
    end: End | None
    out: Path
    closed: Path


@dataclass(frozen=True)
class Written:
    """A file that a job wrote; without a path where there was nothing to write."""

    path: str | None = None
    rows: int = 0
    size: int = 0
    memory: int = 0


@dataclass(frozen=True)
class Bucket:
    """What a `VersionsJob` wrote. ``unseen`` counts changes of rows that were not known of."""

    open: Written = Written()
    closed: Written = Written()
    unseen: int = 0
    seconds: float = 0.0


def versions_all(jobs: tuple[VersionsJob, ...]) -> list[Bucket | Failure]:
    """Do several jobs, one after another."""
    return [attempt(make, job) for job in jobs]


def make(job: VersionsJob) -> Bucket:
    """Make the versions of a bucket, and write them. Raises `RejectedError`."""
    start = time.perf_counter()
    closed, rows, unseen = _versions(job)
    if job.end is not None:
        ended = end_all(rows, job.end.micros)
        closed = pa.concat_tables([closed, ended], promote_options="default")
        rows = begin_all(rows, ended, job.end.anew)
    closed_file = _write(closed, job, job.closed)
    rows = rows.append_column(UNTIL, pa.nulls(rows.num_rows, pa.timestamp("us", "UTC")))
    open_file = _write(rows, job, job.out)
    return Bucket(open_file, closed_file, unseen, time.perf_counter() - start)


def _write(rows: pa.Table, job: VersionsJob, path: Path) -> Written:
    if not rows.num_rows:
        return Written()
    is_open = rows.column(UNTIL).is_null()
    rows = rows.append_column(_CURRENT, is_open)
    origins = (*job.pieces, *((job.base,) if job.base is not None else ()))
    size, memory = write_rows(rows, job.target, path, origins, _OURS)
    return Written(str(path), rows.num_rows, size, memory)


def _versions(job: VersionsJob) -> tuple[pa.Table, pa.Table, int]:
    """The closed versions, the open ones, and how many changed rows were not known of."""
    rows = empty_rows(job.target)
    if job.base is not None:
        rows = pa.concat_tables([rows, *base_rows(job.base, job.target)], promote_options="default")
    closed: list[pa.Table] = [end_all(empty_rows(job.target), 0)]
    unseen = 0
    for target, flats in _changes(job):
        for flat in _together(flats, rows.num_rows):
            ended, rows, more = versions(rows, flat, target, partial=job.partial)
            closed.append(ended)
            unseen += more
    return pa.concat_tables(closed, promote_options="default"), rows, unseen


def _changes(job: VersionsJob) -> Iterator[tuple[Target, Iterator[Flat]]]:
    """The changes in log order, by what their key is."""
    if job.spills:
        yield job.target, (unpack(read_spill(path), job.target) for path in job.spills)
    for key, run in runs(job.pieces):
        target = replace(job.target, key=key)
        whole = not job.partial
        yield (
            target,
            (flat for piece in run for flat in changes(piece, target, whole=whole)),
        )


def _together(flats: Iterable[Flat], known: int) -> Iterator[Flat]:
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
