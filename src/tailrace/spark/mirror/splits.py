"""What a task does with a split of a log: decode it and write its tables' changelog files."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from tailrace.columns import read_split
from tailrace.errors import table_of
from tailrace.spark.mirror.report import SkippedStatements
from tailrace.spark.state.changelog import ChangelogFiles
from tailrace.spark.state.failure import Failure, failure
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.columns import Split
    from tailrace.columns.read.walk import Array
    from tailrace.spark.manifest.making import Making
    from tailrace.spark.state.changelog import ChangeFile, Named, Unnamed
    from tailrace.table_filter import TableFilter


@dataclass(frozen=True)
class SplitJob:
    """A split to decode; changelog files go where ``to`` gives, others to ``folder``.

    With ``shards`` the files have a column ``_source``; with ``named`` they hold no rows of tables
    whose columns nobody names, and ``defined`` is as in `ChangelogFiles`. ``skip`` are tables whose
    rows are left out; with ``only``, so are those of all others than these.
    """

    split: Split
    tables: TableFilter
    statements: Literal["error", "skip"]
    folder: Path
    to: Making
    shards: bool = False
    skip: frozenset[TableName] = frozenset()
    only: frozenset[TableName] | None = None
    named: bool = False
    defined: bool = False
    cascades: bool = False
    """Whether to note which changes do nothing to other rows (`Written.quiet`)."""

    @property
    def size(self) -> int:
        """Bytes of the log."""
        return self.split.end - self.split.start

    def wants(self, database: str, table: str) -> bool:
        """Whether a table that is mirrored is read here."""
        name = database, table
        return name not in self.skip and (self.only is None or name in self.only)


class Written(NamedTuple):
    """The changelog files of a split, and the tables that it has rows of, where these are kept.

    ``failed`` has the tables of which there is no file, and why; ``unnamed`` those of which rows
    were left out, ``lacking`` those of which updates lack columns, and ``by_log`` those whose
    columns the log names, where few are read.
    """

    files: list[ChangeFile]
    met: frozenset[TableName] = frozenset()
    failed: tuple[tuple[TableName, Failure], ...] = ()
    unnamed: tuple[tuple[TableName, Unnamed], ...] = ()
    lacking: tuple[tuple[TableName, Unnamed], ...] = ()
    by_log: tuple[tuple[TableName, Named], ...] = ()
    skipped: SkippedStatements | None = None
    quiet: str | None = None
    """A file of the updates and deletes that do nothing to other rows (`read_split`), if any."""


def write_split(job: SplitJob) -> Written:
    """Decode a split and write a file for each of its tables; without those whose rows cannot be
    had, if that is so of any: it is read again without them.

    A task that is run twice writes twice: what counts are the files of the result that Spark brings
    back. Raises what `read_split` raises that is not one table's failure.
    """
    failed: dict[TableName, Failure] = {}
    while True:
        source = job.split.source if job.shards else None
        files = ChangelogFiles(job.to, source=source, named=job.named, defined=job.defined)
        try:
            return _written(job, files)._replace(failed=tuple(failed.items()))
        except Exception as error:
            files.remove()
            table = table_of(error)
            if table is None or table in failed:
                raise
            failed[TableName(*table)] = failure(error)
            job = replace(job, skip=job.skip | failed.keys())


def _written(job: SplitJob, files: ChangelogFiles) -> Written:
    split = job.split
    quiet: list[Array] = []
    skipped: list[SkippedStatements] = []
    start = time.perf_counter()
    batches = read_split(
        split,
        tables=job.tables,
        statements=job.statements,
        notice=files.meet,
        also=job.wants,
        unnamed=files.leave_out if job.named else None,
        no_cascades=quiet.append if job.cascades else None,
        skipped=lambda event: skipped.append(SkippedStatements.of(event)),
    )
    for batch in batches:
        files.add(batch, time.perf_counter() - start)
        start = time.perf_counter()
    written = files.finish()
    path = job.folder / f"{uuid.uuid4().hex}.npy" if quiet else None
    if path is not None:
        job.folder.mkdir(parents=True, exist_ok=True)
        np.save(path, np.concatenate(quiet))
    return Written(
        written,
        frozenset(job.tables.met or ()),
        unnamed=tuple(files.unnamed.items()),
        lacking=tuple(files.lacking.items()),
        by_log=() if job.only is None else tuple(files.by_log.items()),
        skipped=replace(skipped[0], count=len(skipped)) if skipped else None,
        quiet=None if path is None else str(path),
    )
