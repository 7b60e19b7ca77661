"""How tasks keep changes separately from a table's files: a tail of new rows, and deleted rows.

A fold writes a bucket again; here the rows that changed are found by their keys, and no
other column of the files is read. docs/design/amplification.md has what that saves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from tailrace.spark.manifest.manifest import DataFile
from tailrace.spark.parquet.deleted import NO_ROWS, deleted_rows, joined, without
from tailrace.spark.parquet.footer import row_groups
from tailrace.spark.state.current import raw
from tailrace.spark.state.current.finding import find
from tailrace.spark.state.current.fold import alive, as_entries, key_columns, merge
from tailrace.spark.state.current.jobs import NOTHING, Done, Work, changed, gathered
from tailrace.spark.state.current.keys import buckets
from tailrace.spark.state.current.pieces import base_rows
from tailrace.spark.state.current.rows import empty_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tailrace.spark.parquet.deleted import DeletedRows, Rows
    from tailrace.spark.state.current.jobs import Written
    from tailrace.spark.state.current.pieces import Base


@dataclass(frozen=True)
class PatchJob(Work):
    """Keep changes separately from the files of ``base``, in a file of their own.

    They are those of keys of one of some ``parts``, and the base's bucket files those that have
    such keys; its tails are all that there are. The rows of the last ``swallowed`` tails go into
    the new one. Bucket files in ``rewrites`` are written again without their deleted rows. It reads
    about ``size`` bytes.
    """

    base: Base
    part: int
    parts: int
    swallowed: int
    size: int
    rewrites: tuple[str, ...]

    @property
    def reads(self) -> int:
        """About the bytes that it reads: of most files keys alone."""
        return self.size

    def do(self) -> Done:
        """Find the rows that changed, and write the new ones. Raises `RejectedError`."""
        rows, gone, unseen = _patched(self)
        tail = self.write(rows, self.out) if rows.num_rows else NOTHING
        rewritten = {path: _rewritten(self, path, gone) for path in self.rewrites}
        gone = {path: each for path, each in gone.items() if path not in rewritten}
        return Done(tail, unseen=unseen, deleted=gone, rewritten=rewritten)


def _rewritten(job: PatchJob, path: str, gone: Mapping[str, Rows]) -> Written:
    """Write a bucket's file again, without its deleted rows, a row group at a time."""
    deleted = joined(deleted_rows(job.base.deleted, path), gone.get(path, NO_ROWS))
    out = job.out.file("part", bounded=job.target.key)
    first = count = memory = 0
    for group in row_groups(path):
        kept = without(group, first, deleted)
        first += group.num_rows
        count += kept.num_rows
        memory += kept.nbytes
        if kept.num_rows:
            out.write(kept.replace_schema_metadata())
    return (DataFile("", count, out.close(), memory), str(out.path)) if count else NOTHING


def _patched(job: PatchJob) -> tuple[pa.Table, dict[str, Rows], int]:
    """The new tail's rows, those that do not count any more, and how many were not known of."""
    target, base = job.target, job.base
    fresh = as_entries(empty_rows(target))
    for _, tables in changed(job):  # they have the target's key
        fresh = gathered(fresh, tables, target)
    texts = [each for each in map(raw.beside, target.key) if each in fresh.schema.names]
    touched = fresh.select([*target.key, *texts])
    found, keys = find(base, touched, target, job.part, job.parts)
    rows, unseen = alive(merge([as_entries(keys), fresh], target.key, given=target.given))
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
