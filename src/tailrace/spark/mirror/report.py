"""What a run of `mirror` did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tailrace.log.readable import statement_of
from tailrace.spark.manifest.manifest import INCOMPLETE, SET_ASIDE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tailrace.events import Event
    from tailrace.spark.input.lag import SourceMoment
    from tailrace.spark.lake.plan import Made
    from tailrace.spark.manifest.manifest import Manifest, Status, TableRows, TableState


@dataclass(frozen=True)
class SkippedStatements:
    """Changes of a source that are not in the lake: they were logged as statements (``statements``
    is ``skip``). ``first`` is where the first one stands, and what it is.
    """

    count: int
    first: str

    @classmethod
    def of(cls, event: Event) -> SkippedStatements:
        """The one of an event."""
        return cls(1, f"{event.file}:{event.offset}: {statement_of(event)}")

    def __add__(self, other: SkippedStatements) -> SkippedStatements:
        """These, then others."""
        return SkippedStatements(self.count + other.count, self.first)


@dataclass(frozen=True)
class TableReport:
    """A table of the lake after a run.

    ``changes`` counts the run's new changes by operation, ``rows`` the rows that the table has now
    (None if it has no current state and no history: ``refused`` says why, or it was dropped).
    ``size`` is the bytes of all its files, ``seconds`` the tasks' time for it in this run,
    ``names`` where column names came from, if not all from the log (``given``, ``ddl``,
    ``server``, ``none``).
    ``notes`` are sentences that a reader of the table should know. ``states`` say why it is not its
    source's table, where it is set aside or incomplete (`manifest.manifest`). The rows of one
    that is ``unread``, set aside with all that is kept of it, are not read and not counted.
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
    states: tuple[Status, ...] = ()
    unread: bool = False

    @property
    def set_aside(self) -> Status | None:
        """Why it stands still, if it does."""
        return next((each for each in self.states if each.kind == SET_ASIDE), None)


@dataclass(frozen=True)
class MirrorReport:
    """A run of `mirror`: its tables, and where it resumes in each source's log.

    ``version`` is the lake's committed version, ``log_bytes`` what was read of logs. ``seconds``
    has the wall-clock time of ``start`` (of Spark, and planning), ``read``, ``cascades``,
    ``current``, ``history`` and ``commit``, as far as the run had them. ``held`` has the sources
    with an in-doubt XA transaction, and where it begins: what comes after it waits. ``cascades``
    has the tables whose rows foreign keys change without a log of it, and these keys as SQL
    (`tailrace.spark.state.cascade.naming`). ``skipped`` has the changes that are missing, by
    source.
    """

    version: int
    tables: tuple[TableReport, ...]
    positions: dict[str, str]
    log_bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    cascades: dict[str, tuple[str, ...]] = field(default_factory=dict)
    skipped: dict[str, SkippedStatements] = field(default_factory=dict)

    @property
    def set_aside(self) -> dict[str, Status]:
        """The tables that stand still, by name."""
        found = ((table.name, table.set_aside) for table in self.tables)
        return {name: status for name, status in found if status is not None}

    @property
    def changes(self) -> int:
        """All new changes."""
        return sum(sum(table.changes.values()) for table in self.tables)


@dataclass(frozen=True)
class Moment:
    """A trigger of a mirror that follows: what its batch did (None: nothing was new).

    ``batches`` counts those since it began, ``rate`` is in bytes of log a second over the last
    while, ``seconds`` what the batch took. ``set_aside`` are the tables that stand still, by name,
    at every trigger.
    """

    batches: int
    report: MirrorReport | None
    sources: tuple[SourceMoment, ...]
    rate: float
    seconds: float
    set_aside: Mapping[str, Status] = field(default_factory=dict)


class Totals:
    """Sums of the reports of many batches."""

    def __init__(self, reports: Iterable[MirrorReport] = ()) -> None:
        self._changes: dict[str, Counter[str]] = {}
        self._seconds: dict[str, float] = {}
        self._bytes = 0
        self._last: MirrorReport | None = None
        self._spent: dict[str, float] = {}
        self._skipped: dict[str, SkippedStatements] = {}
        self._dropped: dict[str, tuple[str, ...]] = {}
        for each in reports:
            self.add(each)

    def add(self, report: MirrorReport) -> None:
        """Count a batch."""
        self._last = report
        self._bytes += report.log_bytes
        for source, skipped in report.skipped.items():
            known = self._skipped.get(source)
            self._skipped[source] = skipped if known is None else known + skipped
        for phase, seconds in report.seconds.items():
            self._seconds[phase] = self._seconds.get(phase, 0.0) + seconds
        for table in report.tables:
            if table.dropped and table.notes:
                self._dropped[table.name] = table.notes
            self._changes.setdefault(table.name, Counter()).update(table.changes)
            self._spent[table.name] = self._spent.get(table.name, 0.0) + table.seconds

    def report(self, manifest: Manifest) -> MirrorReport:
        """One report over all, of a lake that is at ``manifest``."""
        last = self._last or report_of(manifest)
        tables = tuple(
            replace(
                table,
                changes=dict(self._changes.get(table.name, {})),
                seconds=self._spent.get(table.name, 0.0),
                notes=table.notes or (self._dropped.get(table.name, ()) if table.dropped else ()),
            )
            for table in last.tables
        )
        return replace(
            last,
            tables=tables,
            log_bytes=self._bytes,
            seconds=self._seconds,
            skipped=self._skipped,
        )


def report_of(
    manifest: Manifest,
    made: Made | None = None,
    size: int = 0,
    seconds: dict[str, float] | None = None,
    back: Collection[str] = (),
) -> MirrorReport:
    """The report of a batch that was committed as ``manifest``: what was ``made`` of ``size`` bytes
    of log. ``back`` are tables that were set aside before.
    """
    files = made.files if made is not None else {}
    parts = (made.built, made.histories) if made is not None else ()
    tables = []
    for key, table in manifest.tables.items():
        fresh = files.get(key, ())
        changes = Counter[str]()
        for file in fresh:
            changes.update(file.operations)
        states = [each for each in (table.current, table.history) if each is not None]
        good = [each for each in states if each.refused is None]
        data = [*table.changelog, *(file for each in states for file in each.data)]
        spent = sum(file.seconds for file in fresh)
        spent += sum(part[key].seconds for part in parts if key in part)
        tables.append(
            TableReport(
                key,
                dict(+changes),
                good[0].rows if good else None,
                sum(file.size for file in data),
                spent,
                next((each.refused for each in states if each.refused is not None), None),
                table.dropped,
                next((file.names for file in fresh if file.names != "log"), table.names),
                _notes(table, good, gaps=bool(fresh) or not table.dropped or key in back),
                table.states,
                (aside := table.set_aside) is not None and not aside.reads(manifest.options.keep),
            )
        )
    positions = {name: str(at.position) for name, at in manifest.sources.items()}
    return MirrorReport(manifest.version, tuple(tables), positions, size, seconds or {})


def _notes(table: TableState, good: Sequence[TableRows], *, gaps: bool) -> tuple[str, ...]:
    """What is to be said of a table's states, with ``gaps`` of what its history lacks too."""
    notes: dict[str, None] = {}
    if (status := table.status(INCOMPLETE)) is not None and not table.dropped:
        notes[f"incomplete: {status.reason}"] = None
    for state in () if table.dropped else good:
        notes |= dict.fromkeys(state.notes)
        if state.unseen:
            more = "of its rows were inserted before the log begins, or by skipped statements"
            notes[f"{state.unseen} {more}; there may be more such rows"] = None
    if gaps and table.history is not None:
        notes |= dict.fromkeys(f"its history has {gap}" for gap in table.history.gaps)
    return tuple(notes)
