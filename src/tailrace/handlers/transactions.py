"""Handlers that follow transactions: as a whole (`Assembler`), or by table (`TableIndex`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tailrace.events import (
    Event,
    GtidEvent,
    MariadbGtidEvent,
    RowsEvent,
    TableMapEvent,
    TransactionPayloadEvent,
)
from tailrace.handlers.base import CONSUMED, Handler, Outcome
from tailrace.transaction import (
    Boundary,
    BoundaryParser,
    Transaction,
    TransactionAssembler,
    TransactionKind,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.gtid import AnyGtid


class Assembler(Handler):
    """Gives each transaction to ``to`` as a whole, when its last event arrives (`Transaction`).

    Its ``kind`` says how it ended: commit, rollback, XA prepare, DDL, MariaDB's standalone group. A
    transaction that the log does not end, or that a crash cut short, is given with ``complete``
    false: at the log's end, or at the point where the crash is detected. Events are passed on; with
    ``consume``, events that belong to a transaction are not. Control events are always passed on.
    One transaction is held in memory at a time.
    """

    def __init__(self, to: Callable[[Transaction], object], *, consume: bool = False) -> None:
        self._to = to
        self._consume = consume
        self.at_start()

    def at_start(self) -> None:
        self._assembler = TransactionAssembler()
        self._inside = False

    def on_event(self, event: Event) -> Outcome:
        if event.inner_index is None:
            done = self._assembler.feed(event)
            if done is not None:
                self._to(done)
            self._inside = not self._assembler.control
        return CONSUMED if self._consume and self._inside else event

    def at_end(self) -> Outcome:
        left = self._assembler.finish()
        if left is not None:
            self._to(left)
        return None


@dataclass(slots=True)
class IndexedTable:
    """A table in a transaction: its last table map, and its rows events in order."""

    table_map: TableMapEvent
    rows: list[RowsEvent] = field(default_factory=list)


class TableIndex(Handler):
    """An index of the current transaction: its tables and their rows events.

    ``tables`` holds each table by (database, table), in the order of the table maps. Tables that
    were mapped but got no rows are included, and so are those in a payload, when its event arrives.
    ``gtid`` is the transaction's. The index is complete when the transaction's last event is given
    (``kind`` then says how it ended; before, it is None). It is emptied when the next event
    arrives. It passes all events on. It holds the transaction's rows events, so it takes as much
    memory as their bytes.
    """

    def __init__(self) -> None:
        self.at_start()

    def at_start(self) -> None:
        self._parser = BoundaryParser()
        self._reset()

    def _reset(self) -> None:
        self.tables: dict[tuple[str, str], IndexedTable] = {}
        self.gtid: AnyGtid | None = None
        self.kind: TransactionKind | None = None

    def on_event(self, event: Event) -> Outcome:
        if event.inner_index is not None:
            return event  # it came with its payload
        parser = self._parser
        inside = parser.inside
        boundary = parser.feed(event)
        if not inside or parser.discarded:
            self._reset()
            if isinstance(event, (GtidEvent, MariadbGtidEvent)):
                self.gtid = event.gtid
        if isinstance(event, TransactionPayloadEvent):
            for inner in event:
                self._add(inner)
        else:
            self._add(event)
        if boundary is Boundary.END:
            self.kind = parser.kind
        return event

    def _add(self, event: Event) -> None:
        if isinstance(event, TableMapEvent):
            self._table(event)
        elif isinstance(event, RowsEvent) and not event.is_dummy:
            self._table(event.table_map).rows.append(event)

    def _table(self, table_map: TableMapEvent) -> IndexedTable:
        table = self.tables.setdefault(
            (table_map.database, table_map.table), IndexedTable(table_map)
        )
        table.table_map = table_map
        return table
