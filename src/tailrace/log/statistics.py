"""Counts of what logs hold: tables, events, transactions."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from tailrace.events import QueryEvent, TransactionPayloadEvent
from tailrace.log.changes import Changes
from tailrace.log.reader import Step
from tailrace.log.timeline import Timeline
from tailrace.position import Position
from tailrace.printable import size
from tailrace.schema.classify import StatementKind, changes_nothing, classify, is_temporary
from tailrace.times import time_text
from tailrace.transaction import Boundary
from tailrace.transaction.statements import BEGIN_AND_COMMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tailrace.log.changes import Change
    from tailrace.log.reader import Reader, TransactionHead


_DEFINES: Final = frozenset(
    {StatementKind.DDL_TABLE, StatementKind.CREATE_SELECT, StatementKind.DDL_OTHER}
)
_LONGEST: Final = 500
"""Characters of a statement that are kept."""


@dataclass(slots=True)
class TableCounts:
    """Rows by operation, and the bytes of their events (in a compressed transaction: inflated)."""

    insert: int = 0
    update: int = 0
    delete: int = 0
    bytes: int = 0

    @property
    def changes(self) -> int:
        """All its changed rows."""
        return self.insert + self.update + self.delete


@dataclass(slots=True)
class EventCounts:
    """Events of a type; ``bytes`` are those in the file, 0 for events inside a payload."""

    events: int = 0
    bytes: int = 0


@dataclass(slots=True)
class TransactionCounts:
    """One transaction: where it begins, its rows, its bytes in the file and how long it took.

    ``first`` and ``last`` are seconds UTC: the start of the first statement, and the commit.
    """

    start: Position
    gtid: str | None
    rows: int = 0
    bytes: int = 0
    first: int = 0
    last: int = 0

    @property
    def seconds(self) -> int:
        """How long it took, in whole seconds: the log has no finer start time of a statement."""
        return max(0, self.last - self.first)


@dataclass(frozen=True, slots=True)
class Definition:
    """A statement that defines something (DDL): where it is, when it was executed (seconds UTC),
    and its first 500 characters.
    """

    start: Position
    gtid: str | None
    second: int
    database: str
    statement: str


@dataclass(slots=True)
class Sizes:
    """How many transactions are of a size: by the binary digits of their bytes, and of their rows.

    ``bytes[n]`` of them have from ``2 ** (n - 1)`` up to ``2 ** n - 1`` bytes, ``rows[0]`` have no
    rows.
    """

    bytes: Counter[int] = field(default_factory=Counter)
    rows: Counter[int] = field(default_factory=Counter)

    def merge(self, other: Sizes) -> None:
        """Add the counts of another part of the log."""
        self.bytes.update(other.bytes)
        self.rows.update(other.rows)


@dataclass(slots=True)
class Statistics:
    """Counts of a log. ``tables`` count committed rows, ``timeline`` has them over time.

    ``bytes`` are the files'; for a log that is not in files, up to the last event that was read
    of each. ``first`` and ``last`` are seconds UTC, of the first and last event that has a time.
    ``definitions`` are the first ``most_definitions`` statements that define something, of any
    table; ``timeline`` counts all of them. ``sizes`` count all transactions, those that were rolled
    back, too, and those without rows. Memory is bounded: it grows with the number of tables only.
    """

    most: int = 10
    most_definitions: int = 200
    files: int = 0
    bytes: int = 0
    transactions: int = 0
    statement_changes: int = 0
    rolled_back: int = 0
    unfinished: int = 0
    first: int = 0
    last: int = 0
    tables: dict[str, TableCounts] = field(default_factory=dict)
    events: dict[str, EventCounts] = field(default_factory=dict)
    timeline: Timeline = field(default_factory=Timeline)
    sizes: Sizes = field(default_factory=Sizes)
    definitions: list[Definition] = field(default_factory=list)
    _largest: list[tuple[int, int, TransactionCounts]] = field(default_factory=list)
    _order: Any = field(default_factory=count)
    _current: TransactionCounts | None = None
    _group: TransactionHead | None = None
    _late: TransactionCounts | None = None

    def read(
        self, reader: Reader, parts: Iterable[Step | Callable[[Statistics], None]] | None = None
    ) -> None:
        """Count all steps of a reader; or ``parts``: steps and objects with counts of their own."""
        changes = Changes(reader, statements="skip")
        ends: dict[str, int] = {}
        for step in reader if parts is None else parts:
            if not isinstance(step, Step):
                step(self)
                continue
            event = step.event
            self._count_event(step)
            if isinstance(event, QueryEvent):
                self._count_definition(event, step.group)
            ends[event.file or ""] = event.end_offset or 0
            for change in changes.feed(step):
                self._count_change(change)
        self._close()
        for change in changes.finish():
            self._count_change(change)
        self.files += len(ends)
        if reader.series is None:
            self.bytes += sum(ends.values())
        else:
            self.bytes += sum(file.length() for file in reader.series.files if file.name in ends)
        self.statement_changes += changes.skipped_statements
        self.rolled_back += changes.rolled_back
        self.unfinished += changes.unfinished

    def add_table(self, name: str, counts: Mapping[str, int]) -> None:
        """Count more rows of a table, by operation, and ``bytes``."""
        table = self.tables.get(name)
        if table is None:
            table = self.tables[name] = TableCounts()
        for kind, number in counts.items():
            setattr(table, kind, getattr(table, kind) + number)

    def add_events(self, name: str, number: int, size: int) -> None:
        """Count more events of a type."""
        known = self.events.get(name)
        if known is None:
            known = self.events[name] = EventCounts()
        known.events += number
        known.bytes += size

    def add_time(self, first: int, last: int) -> None:
        """Take in the seconds of events, 0 for none."""
        self.first = min(self.first or first, first or self.first)
        self.last = max(self.last, last)

    def add_transaction(self, transaction: TransactionCounts) -> None:
        """Take in a transaction, in the log's order, if it is among the largest.

        It is not counted in ``sizes``.
        """
        self._close()
        self._group = None
        self._keep_largest(transaction)

    @property
    def largest(self) -> list[TransactionCounts]:
        """The largest transactions by bytes, the largest first."""
        ordered = sorted(self._largest, key=lambda item: (-item[0], item[1]))
        return [transaction for _, _, transaction in ordered]

    @property
    def not_counted(self) -> list[str]:
        """What the log holds that the tables' counts leave out, a sentence for each kind of it."""
        return [
            f"{number:,} {what}"
            for number, what in (
                (
                    self.statement_changes,
                    "changes logged as statements: their rows are not counted",
                ),
                (self.rolled_back, "rows events rolled back, not counted"),
                (self.unfinished, "rows events of a transaction without an end, not counted"),
            )
            if number
        ]

    def _repr_html_(self) -> str:
        """Its counts, for a notebook: of the log, by table, and the largest transactions."""
        from tailrace.notebook import pairs, table  # noqa: PLC0415 - in notebooks only

        shown: list[tuple[str, object]] = [
            ("files", self.files),
            ("bytes", size(self.bytes)),
            ("transactions", self.transactions),
        ]
        if self.first:
            times = [f"{time_text(each * 1_000_000)} UTC" for each in (self.first, self.last)]
            shown += zip(("first", "last"), times, strict=True)
        shown += [("note", note) for note in self.not_counted]
        tables = sorted(self.tables.items(), key=lambda item: -item[1].bytes)
        return (
            pairs("Statistics", shown)
            + table(
                "Tables, the largest first",
                ("table", "inserts", "updates", "deletes", "bytes"),
                (
                    (name, each.insert, each.update, each.delete, size(each.bytes))
                    for name, each in tables
                ),
                total=len(tables),
            )
            + table(
                "Largest transactions",
                ("position", "GTID", "rows", "bytes", "seconds"),
                (
                    (str(each.start), each.gtid or "", each.rows, size(each.bytes), each.seconds)
                    for each in self.largest
                ),
            )
        )

    def _count_event(self, step: Step) -> None:
        event = step.event
        length = 0 if event.inner_index is not None else event.header.length
        self.add_events(event.name, 1, length)
        self.add_time(event.timestamp, event.timestamp)
        self.transactions += step.boundary is Boundary.END
        if step.group is not self._group:
            self._close()
            self._group = step.group
            if step.group is not None:
                self._current = TransactionCounts(step.group.start, step.group.gtid)
                if step.group.time is not None:
                    self._current.last = step.group.time // 1_000_000
        if self._current is not None and step.group is not None:
            self._count_in_transaction(self._current, step, length)

    @staticmethod
    def _count_in_transaction(current: TransactionCounts, step: Step, length: int) -> None:
        current.bytes += length
        stamp = step.event.timestamp
        if stamp and not isinstance(step.event, TransactionPayloadEvent):
            current.first = min(current.first or stamp, stamp)
            current.last = max(current.last, stamp)

    def _count_change(self, change: Change) -> None:
        event, schema = change.event, change.schema
        rows = len(change.rows())
        table, size = str(schema.full_name), event.header.length
        self.add_table(table, {event.kind: rows, "bytes": size})
        self.timeline.add(table, change.group.time_of(event) // 1_000_000, rows, size)
        if self._current is not None and change.group is self._group:
            self._current.rows += rows
        else:
            self._count_late(change.group.start, rows)

    def _count_late(self, start: Position, rows: int) -> None:
        """Rows of a transaction that was prepared and counted before: one after the other."""
        if self._late is None or self._late.start != start:
            among = (kept for _, _, kept in self._largest if kept.start == start)
            self._late = next(among, TransactionCounts(start, None))
        self.sizes.rows -= Counter([self._late.rows.bit_length()])
        self._late.rows += rows
        self.sizes.rows[self._late.rows.bit_length()] += 1

    def _count_definition(self, event: QueryEvent, group: TransactionHead | None) -> None:
        if event.sql_bytes in BEGIN_AND_COMMIT:
            return
        sql = event.sql
        if classify(sql) not in _DEFINES or changes_nothing(sql) or is_temporary(sql):
            return
        from tailrace.schema.session import is_half  # noqa: PLC0415 - seldom needed

        if is_half(event):
            return
        second = event.timestamp if group is None else group.time_of(event) // 1_000_000
        self.timeline.add_definition(second)
        if len(self.definitions) < self.most_definitions:
            start = Position(event.file or "", event.offset or 0)
            gtid = None if group is None else group.gtid
            self.definitions.append(Definition(start, gtid, second, event.database, sql[:_LONGEST]))

    def _close(self) -> None:
        """The transaction under way is over: count it, and keep it if it is among the largest."""
        current, self._current = self._current, None
        if current is not None:
            self.sizes.bytes[current.bytes.bit_length()] += 1
            self.sizes.rows[current.rows.bit_length()] += 1
            self._keep_largest(current)

    def _keep_largest(self, current: TransactionCounts) -> None:
        item = (current.bytes, -next(self._order), current)
        if len(self._largest) < self.most:
            heapq.heappush(self._largest, item)
        else:
            heapq.heappushpop(self._largest, item)
