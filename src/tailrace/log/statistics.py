"""Counts of what logs hold: tables, events, transactions."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from tailrace.events import TransactionPayloadEvent
from tailrace.log.changes import Changes
from tailrace.log.reader import Step
from tailrace.transaction import Boundary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tailrace.log.changes import Change
    from tailrace.log.reader import Reader, TransactionHead
    from tailrace.position import Position


@dataclass(slots=True)
class TableCounts:
    """Rows by operation, and the bytes of their events (in a compressed transaction: inflated)."""

    insert: int = 0
    update: int = 0
    delete: int = 0
    bytes: int = 0


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


@dataclass(slots=True)
class Statistics:
    """Counts of a log. ``tables`` count committed rows.

    ``bytes`` are the files'; for a log that is not in files, up to the last event that was read
    of each. ``first`` and ``last`` are seconds UTC, of the first and last event that has a time.
    """

    most: int = 10
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
    _largest: list[tuple[int, int, TransactionCounts]] = field(default_factory=list)
    _order: Any = field(default_factory=count)
    _current: TransactionCounts | None = None
    _group: TransactionHead | None = None

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
            ends[event.file or ""] = event.end_offset or 0
            for change in changes.feed(step):
                self._count_change(change)
        changes.finish()
        self._close()
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
        """Take in a transaction, in the log's order, if it is among the largest."""
        self._close()
        self._group = None
        self._current = transaction
        self._close()

    @property
    def largest(self) -> list[TransactionCounts]:
        """The largest transactions by bytes, the largest first."""
        ordered = sorted(self._largest, key=lambda item: (-item[0], item[1]))
        return [transaction for _, _, transaction in ordered]

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
        counts = {event.kind: rows, "bytes": event.header.length}
        self.add_table(f"{schema.database}.{schema.table}", counts)
        if self._current is not None:
            self._current.rows += rows

    def _close(self) -> None:
        """The transaction under way is over: keep it if it is among the largest."""
        current = self._current
        self._current = None
        if current is None:
            return
        item = (current.bytes, -next(self._order), current)
        if len(self._largest) < self.most:
            heapq.heappush(self._largest, item)
        else:
            heapq.heappushpop(self._largest, item)
