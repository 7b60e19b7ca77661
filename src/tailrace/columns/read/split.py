"""A part of a log file that is decoded on its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.errors import StorageError
from tailrace.values.surrogates import has_surrogates

if TYPE_CHECKING:
    from tailrace.columns.read.table_changes import TableChange
    from tailrace.schema.catalogue import Catalogue
    from tailrace.schema.tables import TableState
    from tailrace.storage import LogFile, LogSeries


@dataclass(frozen=True, slots=True)
class Inside:
    """The transaction inside which a part of a file begins.

    It began at the offset ``began`` of the same file, with the GTID event whose bytes are
    ``opening``: change records take what they say about their transaction from these. Logs without
    GTID events have no such bytes, and need none.
    """

    began: int
    opening: bytes = b""


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a log file, between two bounds: starts of transactions, or of statements' rows.

    ``start`` and ``end`` are 64-bit offsets into the plain log. It pickles, and holds all that
    decoding needs in addition to the file (for an encrypted one, where its key is, not the key):
    ``catalogue`` has the tables that are known where it begins, ``changes`` what statements inside
    it change about tables.
    """

    source: str
    log: LogFile
    start: int
    end: int
    catalogue: Catalogue
    changes: tuple[TableChange, ...] = ()
    left_out: tuple[tuple[int, int], ...] = ()
    """Ranges of offsets whose rows do not count (see `tailrace.transaction.committed`)."""
    inside: Inside | None = None
    """The transaction that began in an earlier split; None if a transaction begins here."""
    whole: frozenset[tuple[str, str]] = frozenset()
    """The tables that are whole where it ends (`tailrace.schema.catalogue.Catalogue`)."""
    apart: bool = False
    """It begins with a statement that changes tables with foreign keys that change rows."""
    keys: tuple[TableState, ...] = ()
    """The tables with such foreign keys where it ends, and the tables that they refer to."""

    @property
    def file(self) -> str:
        """The file's name, as positions give it."""
        return self.log.name


def overlapping(
    ranges: tuple[tuple[int, int], ...] | list[tuple[int, int]], start: int, end: int
) -> tuple[tuple[int, int], ...]:
    """The ranges that overlap the one from ``start`` to ``end``, in order."""
    return tuple(sorted(each for each in ranges if each[0] < end and start < each[1]))


def check_names(series: LogSeries) -> None:
    """Raise StorageError for a name that is not UTF-8, which record batches hold as text."""
    for path, name in ((series.name, series.name), *((log.path, log.name) for log in series.files)):
        if has_surrogates(name):
            raise StorageError(
                f"{path}: its name is not UTF-8, and record batches name their log: rename it"
            )
