"""What a task does with a split of a log: decode it and write its tables' changelog files."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from tailrace.columns import read_split
from tailrace.errors import PipelineError
from tailrace.spark.changelog import ChangelogFiles

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.columns import Split
    from tailrace.selection import TableFilter, TableName
    from tailrace.spark.changelog import ChangeFile
    from tailrace.spark.tasks import Report


@dataclass(frozen=True)
class SplitJob:
    """A split to decode; its files go into a new folder below ``folder``.

    With ``shards`` the files have a column ``_source``.
    """

    split: Split
    tables: TableFilter
    statements: Literal["error", "skip"]
    folder: Path
    shards: bool = False


class Written(NamedTuple):
    """The changelog files of a split, and the tables that it has rows of, where these are kept."""

    files: list[ChangeFile]
    met: frozenset[TableName] = frozenset()


def write_split(job: SplitJob, report: Report) -> Written:
    """Decode a split and write a file for each of its tables; reports bytes of the log.

    A task that is run twice writes twice, each time into a folder of its own: what counts are the
    files of the result that Spark brings back. Raises what `read_split` raises, and `PipelineError`
    where a file cannot be written.
    """
    split = job.split
    folder = job.folder / uuid.uuid4().hex
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise PipelineError(f"cannot write {folder}: {error.strerror}") from error
    files = ChangelogFiles(folder, source=split.source if job.shards else None)
    start = time.perf_counter()
    batches = read_split(
        split,
        tables=job.tables,
        statements=job.statements,
        notice=files.meet,
    )
    for batch in batches:
        files.add(batch, time.perf_counter() - start)
        reached = batch.column("_pos")[batch.num_rows - 1].as_py()
        report.done(min(reached, split.end) - split.start)
        start = time.perf_counter()
    written = files.finish()
    report.final(split.end - split.start)
    return Written(written, frozenset(job.tables.met or ()))
