"""Jobs of tasks: apply changes to the rows of a table, or of one of its buckets, and write them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tailrace.spark.manifest.manifest import DataFile
from tailrace.spark.state.current.flat import unpack
from tailrace.spark.state.current.pieces import base_rows, bytes_in, changes
from tailrace.spark.state.current.rows import CURRENT_FIELDS, empty_rows, write_rows
from tailrace.spark.state.failure import Failure, attempt
from tailrace.spark.state.spill import read_spill

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tailrace.spark.parquet.data_folder import DataFolder
    from tailrace.spark.parquet.deleted import Rows
    from tailrace.spark.state.current.flat import Flat, Target
    from tailrace.spark.state.current.pieces import Base, Piece

    Written = tuple[DataFile | None, str | None]

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


def do_all(jobs: tuple[Work, ...]) -> list[Done | Failure]:
    """Do several jobs, one after another."""
    return [attempt(_timed, job) for job in jobs]


def _timed(job: Work) -> Done:
    start = time.perf_counter()
    return replace(job.do(), seconds=time.perf_counter() - start)
