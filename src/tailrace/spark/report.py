"""What a run of `mirror` did."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class TableReport:
    """A table of the lake after a run.

    ``changes`` counts the run's new changes by operation, ``rows`` the rows that the table has now
    (None where it has no current state: ``refused`` says why, or it was dropped). ``size`` is the
    bytes of all its files, ``seconds`` the tasks' time for it in this run, ``names`` where column
    names came from, if not all from the log (``given``, ``ddl``, ``none``). ``notes`` are sentences
    that a reader of the table should know.
    """

    name: str
    changes: dict[str, int]
    rows: int | None
    size: int
    seconds: float
    refused: str | None = None
    dropped: bool = False
    names: str = "log"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class MirrorReport:
    """A run of `mirror`: its tables, and where each source's log will be gone on with.

    ``version`` is the lake's committed version, ``log_bytes`` what was read of logs. ``seconds``
    has the wall-clock time of ``start`` (of Spark, and planning), ``read``, ``current`` and
    ``commit``.
    """

    version: int
    tables: tuple[TableReport, ...]
    positions: dict[str, str]
    log_bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def changes(self) -> int:
        """All new changes."""
        return sum(sum(table.changes.values()) for table in self.tables)
