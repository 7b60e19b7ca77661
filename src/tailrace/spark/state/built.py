"""What a builder makes of a table: the manifest's entry, and where the entry's files are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from tailrace.spark.manifest.manifest import TableRows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.spark.manifest.manifest import DataFile
    from tailrace.spark.parquet.deleted import Rows
    from tailrace.spark.state.failure import Failure

    State = tuple[TableRows, tuple[str | None, ...]]


@dataclass(frozen=True)
class ClosedFile:
    """A new file of versions that ended; ``columns`` are those that the table had."""

    file: DataFile
    path: str
    columns: pa.Schema


@dataclass(frozen=True)
class Built:
    """A table's current state or history in the making.

    The names of the new files in ``rows`` are not those that they will have. ``paths`` has a path,
    committed or new, for each of its places. ``closed`` are the new files of closed versions, in
    log order, which ``rows`` does not list yet. ``deleted`` are the rows that the batch deletes, by
    the path of their file. With ``failed`` nothing was made: the entry is none of a lake's, or, if
    it was ``moved``, the last state that a table had under another name.
    """

    rows: TableRows
    paths: tuple[str | None, ...] = ()
    closed: tuple[ClosedFile, ...] = ()
    seconds: float = 0.0
    failed: Failure | None = None
    moved: bool = False
    deleted: Mapping[str, Rows] = field(default_factory=dict)


def failed(cause: Failure) -> Built:
    """A table of which nothing was made. Its entry says why one is unsupported by what it is, and
    not for the tables that it has rows of.
    """
    if cause.rejected and not cause.origins:
        return Built(TableRows(pa.schema([]), (), refused=cause.reason))
    return Built(TableRows(pa.schema([]), ()), failed=cause)
