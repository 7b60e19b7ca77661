"""What tasks do to make a table's current state: cut changes into buckets, put rows together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.errors import PipelineError
from tailrace.spark import partial, raw
from tailrace.spark.conform import RefusedError, conform, default
from tailrace.spark.flat import SEQ, STAMP, UNKNOWN, Flat, flatten
from tailrace.spark.fold import alive, as_entries, entries, key_columns, merge
from tailrace.spark.keys import buckets
from tailrace.spark.parquet import ParquetFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.spark.flat import Target
    from tailrace.spark.state import Base, Piece
    from tailrace.spark.tasks import Report

_ROW_GROUP: Final = 1 << 18
_PENDING_ROWS: Final = 1 << 20
"""Entries that are folded into the rest at once, at least."""


@dataclass(frozen=True)
class CutJob:
    """Cut a piece of changes, or a base's file, into buckets: spill files in ``folder``."""

    target: Target
    source: Piece | Base
    buckets: int
    partial: bool
    folder: Path


@dataclass(frozen=True)
class FoldJob:
    """Put the rows of a table, or of one bucket, together and write them to ``out``.

    Upon the rows of ``base`` come ``pieces``, or ``spills`` that were cut of them, in log order.
    """

    target: Target
    base: Base | None
    pieces: tuple[Piece, ...]
    spills: tuple[str, ...]
    partial: bool
    out: Path


@dataclass(frozen=True)
class Folded:
    """What a `FoldJob` wrote: figures of its file, or why there can be none."""

    path: str = ""
    rows: int = 0
    size: int = 0
    memory: int = 0
    unseen: int = 0
    refused: str | None = None


def cut(job: CutJob, report: Report) -> dict[int, str] | RefusedError:
    """Write a spill file for each bucket that has any changes, and give their paths."""
    del report
    try:
        return _cut(job)
    except RefusedError as error:
        return error


def _cut(job: CutJob) -> dict[int, str]:
    writers: dict[int, pa.RecordBatchFileWriter] = {}
    schemas: dict[int, pa.Schema] = {}
    paths: dict[int, str] = {}
    try:
        for number, table in enumerate(_spillable(job)):
            keyed = key_columns([table], _spill_key(job, table))
            places = buckets(keyed, job.buckets)
            for bucket in np.unique(places).tolist():
                part = table.filter(pa.array(places == bucket))
                path = job.folder / f"{bucket}.{number}.arrow"
                with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, part.schema) as out:
                    out.write_table(part)
                paths.setdefault(bucket, str(path))
    except OSError as error:
        raise PipelineError(f"cannot write {job.folder}: {error}") from error
    del writers, schemas
    return paths
