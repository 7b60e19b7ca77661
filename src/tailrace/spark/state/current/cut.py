"""Cutting changes into buckets by the hash of their key, for tables with several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa

from tailrace.spark.state.current import partial
from tailrace.spark.state.current.flat import INSERT, SNAPSHOT, pack, unpack
from tailrace.spark.state.current.fold import as_entries, entries, key_columns, merge, moves_apart
from tailrace.spark.state.current.keys import buckets
from tailrace.spark.state.current.pieces import Base, Piece, base_rows, changes
from tailrace.spark.state.spill import write_spill

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tailrace.spark.state.current.flat import Flat, Target

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
