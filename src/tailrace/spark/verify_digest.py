"""Jobs of a comparison: a pair of numbers for each row, and the rows that are asked for by theirs.

A row's pair is a 64-bit checksum of its key and one of all its columns. They are computed from the
same Arrow types on both sides, so equal rows have equal pairs, whichever order the sides keep them
in and however the server compares the texts of keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tailrace.errors import AccessDenied, MalformedPacket, PipelineError, ServerError
from tailrace.spark.current.rows import RAW
from tailrace.spark.parquet.footer import as_written
from tailrace.spark.verify_server import reading, rows
from tailrace.spark.verify_values import checksums, from_lake
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.live.url import Source
    from tailrace.spark.lake.reading import LakeFile
    from tailrace.spark.tasks import Report
    from tailrace.spark.verify_server import Range, ServerTable
    from tailrace.spark.verify_values import Numbers, Values

Shown = dict[str, str | None]
"""A row for a person: values by column."""


@dataclass(frozen=True)
class SideJob:
    """Rows of a table on one side: of a range on the server, or of a file of the lake.

    Pairs go to ``out``; with ``keys`` the rows that have one of these checksums of keys are given
    back instead. ``shard``: of the lake's rows those of this ``_source`` alone.
    """

    table: ServerTable
    source: Source | None = None
    part: Range | None = None
    file: LakeFile | None = None
    out: Path | None = None
    keys: tuple[int, ...] = ()
    shard: str | None = None

    @property
    def name(self) -> str:
        """The table's full name."""
        return str(TableName(self.table.database, self.table.table))


@dataclass(frozen=True)
class SideResult:
    """What a job found; ``gone`` where the lake's file is not there any more.

    ``refused`` says why the rows are not all there; ``unread`` that it says nothing of them.
    """

    name: str
    number: int
    count: int = 0
    checksum: int = 0
    out: str | None = None
    rows: tuple[tuple[int, Shown], ...] = ()
    refused: str | None = None
    unread: bool = False
    gone: bool = False


def look(job: SideJob, report: Report) -> SideResult:
    """Do a job of either side."""
    number = job.part.number if job.part is not None else 0
    names = [column.name for column in job.table.columns]
    key = [names.index(name) for name in job.table.key]
    pairs: list[tuple[Numbers, Numbers]] = []
    found: list[tuple[int, Shown]] = []
    wanted = np.array(job.keys, np.int64)
    count = 0
    try:
        for columns in _columns(job, names):
            keys = checksums([columns[index] for index in key])
            count += len(keys)
            if job.keys:
                for row in np.flatnonzero(np.isin(keys, wanted)).tolist():
                    shown = {
                        name: each.shown(row) for name, each in zip(names, columns, strict=True)
                    }
                    found.append((int(keys[row]), shown))
            else:
                pairs.append((keys, checksums(columns)))
            report.done(count)
    except FileNotFoundError:
        return SideResult(job.name, number, gone=True)
    except (PipelineError, ServerError, MalformedPacket) as error:
        if isinstance(error, AccessDenied):
            raise
        unread = job.file is not None or not isinstance(error, PipelineError)
        return SideResult(job.name, number, refused=str(error), unread=unread)
    except MemoryError:
        why = "there is not enough memory for its rows"
        return SideResult(job.name, number, refused=why, unread=True)
    report.final(count)
    if job.keys or job.out is None:
        return SideResult(job.name, number, count, rows=tuple(found))
    both = _stacked(pairs)
    np.save(job.out, both)
    total = int(both[1].view(np.uint64).sum(dtype=np.uint64))
    return SideResult(job.name, number, count, total, f"{job.out}.npy")


def _columns(job: SideJob, names: list[str]) -> Iterator[list[Values]]:
    if job.file is not None:
        types = pa.schema(list(zip(names, job.table.types, strict=True)))
        for table in job.file.rows([*names, RAW], job.shard):
            yield from_lake(as_written(table, types), names)
    if job.source is None or job.part is None:
        return
    with reading(job.source) as connection:
        yield from rows(connection, job.table, job.part)


def _stacked(pairs: list[tuple[Numbers, Numbers]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Two rows: the keys' checksums, and those of all columns."""
    if not pairs:
        return np.zeros((2, 0), np.int64)
    return np.stack([np.concatenate(each) for each in zip(*pairs, strict=True)])


@dataclass(frozen=True)
class Pairs:
    """The pairs of one side of a table."""

    keys: Numbers
    rows: Numbers

    @classmethod
    def load(cls, results: list[SideResult]) -> Pairs:
        """Those of some jobs together."""
        parts = [np.load(each.out) for each in results if each.out is not None]
        both = np.concatenate(parts, axis=1) if parts else np.zeros((2, 0), np.int64)
        return cls(both[0], both[1])

    def without(self, other: Pairs) -> dict[int, int]:
        """Rows that the other side does not have like this, checksum of the row by its key's."""
        alone = ~np.isin(self.rows, other.rows)
        return dict(zip(self.keys[alone].tolist(), self.rows[alone].tolist(), strict=True))

    def doubled(self) -> list[int]:
        """Keys that are there more than once."""
        keys, counts = np.unique(self.keys, return_counts=True)
        twice: list[int] = keys[counts > 1].tolist()
        return twice
