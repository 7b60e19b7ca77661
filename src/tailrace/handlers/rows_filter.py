"""Keeps a statement well-formed when some of its rows are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.constants import RowsFlag
from tailrace.errors import UnsupportedType
from tailrace.events import (
    Event,
    GtidEvent,
    MariadbGtidEvent,
    PartialRowDataEvent,
    PreGaRowsEvent,
    QueryEvent,
    RowsEvent,
    TableMapEvent,
)
from tailrace.handlers.base import CONSUMED, Handler, Outcome, placed, several

if TYPE_CHECKING:
    from tailrace.events import AnnotateRowsEvent, RowsQueryEvent


class RowsFilter(Handler):
    """The base of filters that drop rows events and keep the rest well-formed.

    The rules: events that introduce a statement's rows (table maps, the statement's text) are held
    until the first of its rows events passes, and are dropped if none does. A rows event that
    passes and does not end its statement is held until the next one. It can then be made the
    statement's end (STMT_END) if the rest is dropped. A transaction that lost all its rows stays,
    empty, with its GTID: a replica must see every GTID. Where a group of one statement loses all
    its rows, an empty transaction (MySQL) or a statement that is only a comment (MariaDB) replaces
    it. Payloads are opened and rebuilt. Statements pass (`statement`).

    A subclass defines what it keeps: `wants_map`, `wants_rows`.
    """

    opens_payloads = True

    def __init__(self) -> None:
        self.at_start()

    def at_start(self) -> None:
        self._head: list[Event] = []
        self._held: RowsEvent | None = None
        self._left_out = False
        self._single: GtidEvent | MariadbGtidEvent | None = None

    def wants_map(self, _event: TableMapEvent, /) -> bool:
        """Whether a table map passes (with rows of its table)."""
        return True

    def wants_rows(self, _event: RowsEvent, /) -> bool:
        """Whether a rows event passes."""
        raise NotImplementedError

    def on_table_map(self, event: TableMapEvent) -> Outcome:
        if self.wants_map(event):
            self._head.append(event)
        else:
            self._left_out = True
        return CONSUMED

    def on_rows_query(self, event: RowsQueryEvent) -> Outcome:
        self._head.append(event)
        return CONSUMED

    def on_annotate_rows(self, event: AnnotateRowsEvent) -> Outcome:
        self._head.append(event)
        return CONSUMED

    def on_rows(self, event: RowsEvent) -> Outcome:
        """Pass wanted rows, one event late unless they end the statement."""
        if event.is_dummy:
            return self._end_by_dummy(event)
        if self.wants_rows(event):
            out = [*self._held_rows(), *self._head]
            self._head.clear()
            if event.stmt_end:
                out.append(event)
                self._left_out = False
            else:
                self._held = event
            self._single = None
            return out
        self._left_out = True
        if not event.stmt_end:
            return CONSUMED
        self._head.clear()
        self._left_out = False
        held = self._held_rows()
        if held:
            last = held[0]
            return placed(last.replace(flags=last.flags | RowsFlag.STMT_END), last)
        return self._in_place_of(event)

    def _held_rows(self) -> list[RowsEvent]:
        held = [] if self._held is None else [self._held]
        self._held = None
        return held

    def _end_by_dummy(self, event: RowsEvent) -> Outcome:
        """A rows event that only ends the statement; it passes if any rows of the statement do."""
        if self._left_out and self._held is None:
            self._head.clear()
            self._left_out = False
            return CONSUMED
        return [*self._flush(), event]

    def _in_place_of(self, event: Event) -> Outcome:
        """The replacement for a dropped event, if the event was all that its group held."""
        single, self._single = self._single, None
        if single is None:
            return CONSUMED
        if isinstance(single, GtidEvent):
            return [_statement(event, "BEGIN"), _statement(event, "COMMIT")]
        return _statement(event, "# left out")

    def _flush(self) -> list[Event]:
        """Give what is held, because the next event does not belong to the statement."""
        if self._held is None and not self._head:
            return []
        out = [*self._held_rows(), *self._head]
        self._head.clear()
        self._left_out = False
        return out

    def on_gtid(self, event: GtidEvent) -> Outcome:
        """A group begins, perhaps of one statement."""
        out = self._passing(event)
        self._single = event
        return out

    def on_mariadb_gtid(self, event: MariadbGtidEvent) -> Outcome:
        """A group begins; of one statement if its flags say so."""
        out = self._passing(event)
        self._single = event if event.standalone else None
        return out

    def on_pre_ga_rows(self, event: PreGaRowsEvent) -> Outcome:
        return self._reject(event)

    def on_partial_row_data(self, event: PartialRowDataEvent) -> Outcome:
        return self._reject(event)

    @staticmethod
    def _reject(event: Event) -> Outcome:
        raise event.error("rows in events of this type cannot be filtered", UnsupportedType)

    def leave_out(self, event: Event) -> Outcome:
        """Drop an event that is not a rows event; return a replacement if its group needs one."""
        return [*self._flush(), *several(self._in_place_of(event))]

    def on_event(self, event: Event) -> Outcome:
        return self._passing(event)

    def _passing(self, event: Event) -> Outcome:
        self._single = None
        if self._held is None and not self._head:
            return event
        return [*self._flush(), event]

    def at_end(self) -> Outcome:
        """Give what is held of a statement whose end is not in the log."""
        return self._flush()


def _statement(event: Event, sql: str) -> QueryEvent:
    """A statement that changes nothing, at the position of an event."""
    header = event.header
    made = QueryEvent.make(
        sql=sql, timestamp=header.timestamp, server_id=header.server_id, form=event.form
    )
    return placed(made, event)
