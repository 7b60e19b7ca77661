"""How tasks keep changes separately from a table's files: a tail of new rows, and deleted rows.

A fold writes a bucket again; here the rows that changed are found by their keys, and no
other column of the files is read. docs/design/amplification.md has what that saves.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from tailrace.spark.manifest.manifest import DataFile
from tailrace.spark.parquet.deleted import NO_ROWS, deleted_rows, joined, without
from tailrace.spark.parquet.file import ParquetFile
from tailrace.spark.parquet.footer import row_groups
from tailrace.spark.state.current import raw
from tailrace.spark.state.current.finding import find
from tailrace.spark.state.current.fold import alive, as_entries, key_columns, merge
from tailrace.spark.state.current.jobs import gathered, piece_entries, read_spill
from tailrace.spark.state.current.keys import buckets
from tailrace.spark.state.current.pieces import base_rows
from tailrace.spark.state.current.rows import empty_rows, write_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tailrace.spark.parquet.deleted import DeletedRows, Rows
    from tailrace.spark.state.current.flat import Target
    from tailrace.spark.state.current.pieces import Base, Piece


@dataclass(frozen=True)
class PatchJob:
    """Keep changes separately from the files of ``base``: ``pieces``, or ``spills`` that were cut.

    They are those of keys of one of some ``parts``, and the base's bucket files those that have
    such keys; its tails are all that there are. The rows of the last ``swallowed`` tails go into
    the new one, ``out``. Bucket files in ``rewrites`` are written again, each to the path there,
    without their deleted rows. ``reads`` is about the bytes that it reads.
    """

    target: Target
    base: Base
    pieces: tuple[Piece, ...]
    spills: tuple[str, ...]
    part: int
    parts: int
    swallowed: int
    out: Path
    reads: int
    rewrites: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Patched:
    """What a `PatchJob` made: a tail, without a path where there was no row to write.

    ``deleted`` are the rows that are deleted now, by the path of their file, ``rewritten`` the
    files that took the place of others and their paths, by the path of these; None where no row is
    left. ``unseen`` is as `Folded` has it.
    """

    path: str | None = None
    rows: int = 0
    size: int = 0
    memory: int = 0
    deleted: Mapping[str, Rows] = field(default_factory=dict)
    rewritten: Mapping[str, tuple[DataFile | None, str | None]] = field(default_factory=dict)
    unseen: int = 0
    seconds: float = 0.0


def patch(job: PatchJob) -> Patched:
    """Find the rows that changed, and write the new ones. Raises `RejectedError`."""
    start = time.perf_counter()
    rows, gone, unseen = _patched(job)
    size = memory = 0
    if rows.num_rows:
        size, memory = write_rows(rows, job.target, job.out, (*job.pieces, job.base))
    rewritten = {path: _rewritten(job, path, gone) for path in job.rewrites}
    path = str(job.out) if rows.num_rows else None
    gone = {path: each for path, each in gone.items() if path not in rewritten}
    seconds = time.perf_counter() - start
    return Patched(path, rows.num_rows, size, memory, gone, rewritten, unseen, seconds)


def _rewritten(
    job: PatchJob, path: str, gone: Mapping[str, Rows]
) -> tuple[DataFile | None, str | None]:
    """Write a bucket's file again, without its deleted rows, a row group at a time."""
    deleted = joined(deleted_rows(job.base.deleted, path), gone.get(path, NO_ROWS))
    out = ParquetFile(job.rewrites[path], bounded=job.target.key)
    first = count = memory = 0
    for group in row_groups(path):
        kept = without(group, first, deleted)
        first += group.num_rows
        count += kept.num_rows
        memory += kept.nbytes
        if kept.num_rows:
            out.write(kept.replace_schema_metadata())
    return (DataFile("", count, out.close(), memory), str(out.path)) if count else (None, None)


def _patched(job: PatchJob) -> tuple[pa.Table, dict[str, Rows], int]:
    """The new tail's rows, those that do not count any more, and how many were not known of."""
    target, base = job.target, job.base
    pieces = map(read_spill, job.spills) if job.spills else piece_entries(job.pieces, target)
    changed = gathered(as_entries(empty_rows(target)), pieces, target)
    texts = [each for each in map(raw.beside, target.key) if each in changed.schema.names]
    touched = changed.select([*target.key, *texts])
    found, keys = find(base, touched, target, job.part, job.parts)
    rows, unseen = alive(merge([as_entries(keys), changed], target.key, given=target.given))
    swallowed = base.tails[len(base.tails) - job.swallowed :]
    more = _swallowed_rows(job, swallowed, found)
    rows = pa.concat_tables([rows, *more], promote_options="default")
    return rows, {path: each for path, each in found.items() if path not in swallowed}, unseen


@dataclass(frozen=True)
class _Found:
    """Deleted rows that no table has yet."""

    rows: Rows

    @property
    def count(self) -> int:
        return len(self.rows)

    def read(self) -> Rows:
        return self.rows


def _swallowed_rows(
    job: PatchJob, tails: Sequence[str], found: Mapping[str, Rows]
) -> Iterator[pa.Table]:
    """The live rows of tails, of keys in the job's part."""
    base = job.base.only((), tails)
    both: dict[str, DeletedRows] = dict(base.deleted)
    for path in tails:
        if path in found:
            both[path] = _Found(joined(deleted_rows(both, path), found[path]))
    for rows in base_rows(replace(base, deleted=both), job.target):
        if job.parts == 1:
            yield rows
            continue
        places = buckets(key_columns([rows], job.target.key), job.parts)
        yield rows.filter(pa.array(places == job.part))
