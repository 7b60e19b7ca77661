"""Transactions, each with its events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.events import (
    AnnotateRowsEvent,
    GtidEvent,
    MariadbGtidEvent,
    QueryEvent,
    RowsEvent,
    RowsQueryEvent,
    TableMapEvent,
    TransactionPayloadEvent,
)
from tailrace.position import Position
from tailrace.table_name import TableName
from tailrace.times import time_text
from tailrace.transaction.grammar import Boundary, BoundaryParser, TransactionKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.events import Event
    from tailrace.gtid import AnyGtid


@dataclass(slots=True)
class Transaction:
    """The events of one transaction, from its GTID (if it has one) to its end.

    A compressed transaction holds its payload event; `all_events` opens it. ``kind`` is None where
    ``complete`` is false: the log ended, or the server crashed, before the transaction ended.
    """

    events: list[Event]
    kind: TransactionKind | None

    @property
    def complete(self) -> bool:
        """Whether the log holds the transaction up to its end."""
        return self.kind is not None

    @property
    def gtid_event(self) -> GtidEvent | MariadbGtidEvent | None:
        """The first event, if it is a GTID event (or an anonymous one)."""
        first = self.events[0]
        return first if isinstance(first, (GtidEvent, MariadbGtidEvent)) else None

    @property
    def gtid(self) -> AnyGtid | None:
        """Its GTID, None without one."""
        event = self.gtid_event
        return event.gtid if event else None

    @property
    def start(self) -> Position | None:
        """Where its first event begins; None if the position of the events is unknown."""
        first = self.events[0]
        return _position(first.file, first.offset)

    @property
    def end(self) -> Position | None:
        """Where its last event ends: a position to resume at, if the transaction is complete."""
        last = self.events[-1]
        return _position(last.file, last.end_offset)

    @property
    def timestamp(self) -> int:
        """Seconds UTC of its last event."""
        return self.events[-1].timestamp

    @property
    def commit_timestamp(self) -> int | None:
        """Microseconds UTC of the commit on the originating server; None in logs without it."""
        event = self.gtid_event
        return event.commit_timestamp if isinstance(event, GtidEvent) else None

    @property
    def size(self) -> int:
        """Bytes in the log."""
        return sum(event.header.length for event in self.events)

    def _repr_html_(self) -> str:
        """Where it is and its events, for a notebook."""
        from tailrace.notebook import table  # noqa: PLC0415 - in notebooks only

        kind = "without an end" if self.kind is None else self.kind.name
        time = time_text(self.timestamp * 1_000_000)
        return table(
            f"Transaction {self.gtid or ''}, {self.start} to {self.end}, {kind}, {time} UTC",
            ("position", "event", "table or statement", "bytes"),
            (
                (f"{each.file or ''}:{each.offset}", each.name, _subject(each), each.header.length)
                for each in self.all_events()
            ),
        )

    def all_events(self) -> Iterator[Event]:
        """Its events; after a payload event, the events inside it."""
        for event in self.events:
            yield event
            if isinstance(event, TransactionPayloadEvent):
                yield from event


def _subject(event: Event) -> str:
    """The table, the statement or the GTID that an event is about."""
    if isinstance(event, RowsEvent):
        return "" if event.is_dummy else _subject(event.table_map)
    if isinstance(event, TableMapEvent):
        return str(TableName(event.database, event.table))
    if isinstance(event, (QueryEvent, RowsQueryEvent, AnnotateRowsEvent)):
        return event.sql
    if isinstance(event, (GtidEvent, MariadbGtidEvent)):
        return str(event.gtid or "")
    return ""


def _position(file: str | None, offset: int | None) -> Position | None:
    return None if file is None or offset is None else Position(file, offset)


class TransactionAssembler:
    """Gathers the events of each transaction. Feed it like `BoundaryParser`.

    It holds one transaction's events at a time; ``boundary`` is that of the last event. Control
    events belong to no transaction.
    """

    __slots__ = ("_events", "_parser", "boundary")

    def __init__(self) -> None:
        self._parser = BoundaryParser()
        self._events: list[Event] = []
        self.boundary = Boundary.OUTSIDE

    @property
    def control(self) -> bool:
        """Whether the last event belongs to no transaction, even if it came inside one."""
        return self._parser.control

    def feed(self, event: Event) -> Transaction | None:
        """The transaction that this event ended or made void. Raises BoundaryError."""
        if event.inner_index is not None:
            return None
        parser = self._parser
        self.boundary = boundary = parser.feed(event)
        if parser.discarded:
            return self.finish()
        if parser.control:
            return None
        self._events.append(event)
        if boundary is not Boundary.END:
            return None
        done = Transaction(self._events, parser.kind)
        self._events = []
        return done

    def finish(self) -> Transaction | None:
        """The events so far of an unfinished transaction; None between transactions."""
        if not self._events:
            return None
        left = Transaction(self._events, None)
        self._events = []
        return left
