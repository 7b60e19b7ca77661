"""What is left of a statement when some of its rows are left out."""

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
from tailrace.handlers.base import Handler, Outcome, placed, several

if TYPE_CHECKING:
    from tailrace.events import AnnotateRowsEvent, RowsQueryEvent


class RowsFilter(Handler):
    """The base of filters that leave out rows events, and leave well-formed what remains.

    The rules: what introduces a statement's rows (table maps, the statement's text) is held until
    the first of its rows events passes, and dropped where none does. A rows event that passes and
    does not end its statement is held until the next one, so that it can be made the statement's
    end (STMT_END) where the rest is left out. A transaction that lost all its rows stays, empty,
    with its GTID: a replica must have seen every GTID. Where what is left out was all that a group
    of one statement held, an empty transaction (MySQL) or a statement that is only a comment
    (MariaDB) stands for it. Payloads are opened and made anew. Statements pass (`statement`).

    A subclass says what it wants: `wants_map`, `wants_rows`.
    """

    opens_payloads = True

    def __init__(self) -> None:
        self.at_start()

    def at_start(self) -> None:
        """No statement has begun."""
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
        """Held until rows pass."""
        if self.wants_map(event):
            self._head.append(event)
        else:
            self._left_out = True
        return None

    def on_rows_query(self, event: RowsQueryEvent) -> Outcome:
        """Held until rows pass."""
        self._head.append(event)
        return None

    def on_annotate_rows(self, event: AnnotateRowsEvent) -> Outcome:
        """Held until rows pass."""
        self._head.append(event)
        return None

    def on_rows(self, event: RowsEvent) -> Outcome:
        """Pass rows that are wanted, one event late unless the statement ends."""
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
            return None
        self._head.clear()
        self._left_out = False
        held = self._held_rows()
        if held:
            last = held[0]
            return placed(last.replace(event_flags=last.flags | RowsFlag.STMT_END), last)
        return self._in_place_of(event)

    def _held_rows(self) -> list[RowsEvent]:
        held = [] if self._held is None else [self._held]
        self._held = None
        return held

    def _end_by_dummy(self, event: RowsEvent) -> Outcome:
        """A rows event that only ends the statement: where anything of it is left."""
        if self._left_out and self._held is None:
            self._head.clear()
            self._left_out = False
            return None
        return [*self._flush(), event]

    def _in_place_of(self, event: Event) -> Outcome:
        """What stands for a left out event, where it was all that its group held."""
        single, self._single = self._single, None
        if single is None:
            return None
        if isinstance(single, GtidEvent):
            return [_statement(event, "BEGIN"), _statement(event, "COMMIT")]
        return _statement(event, "# left out")

    def _flush(self) -> list[Event]:
        """What is held, because something else comes than the rest of a statement."""
        if self._held is None and not self._head:
            return []
        out = [*self._held_rows(), *self._head]
        self._head.clear()
        self._left_out = False
        return out

    def on_gtid(self, event: GtidEvent) -> Outcome:
        """A group begins, maybe of one statement."""
        out = self._passing(event)
        self._single = event
        return out

    def on_mariadb_gtid(self, event: MariadbGtidEvent) -> Outcome:
        """A group begins, of one statement where it says so."""
        out = self._passing(event)
        self._single = event if event.standalone else None
        return out

    def on_pre_ga_rows(self, event: PreGaRowsEvent) -> Outcome:
        """Refused: what table they are of is not known."""
        return self._refuse(event)

    def on_partial_row_data(self, event: PartialRowDataEvent) -> Outcome:
        """Refused: what table they are of is not known."""
        return self._refuse(event)

    @staticmethod
    def _refuse(event: Event) -> Outcome:
        raise event.error("rows in events of this type cannot be filtered", UnsupportedType)

    def leave_out(self, event: Event) -> Outcome:
        """Drop an event that is no rows event; what stands for it where its group needs it."""
        return [*self._flush(), *several(self._in_place_of(event))]

    def on_event(self, event: Event) -> Outcome:
        """All else passes."""
        return self._passing(event)

    def _passing(self, event: Event) -> Outcome:
        self._single = None
        if self._held is None and not self._head:
            return event
        return [*self._flush(), event]

    def at_end(self) -> Outcome:
        """What is held of a statement that the log does not end."""
        return self._flush()


def _statement(event: Event, sql: str) -> QueryEvent:
    """A statement that changes nothing, in the place of an event."""
    header = event.header
    made = QueryEvent.make(
        sql=sql, timestamp=header.timestamp, server_id=header.server_id, form=event.form
    )
    return placed(made, event)
