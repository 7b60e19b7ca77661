"""What stands in a log where rows are missing: statements, LOAD DATA, incidents, old events."""

from __future__ import annotations

from typing import Final

from tailrace.constants import EventType
from tailrace.errors import (
    BoundaryError,
    LogError,
    StatementChange,
    UnsupportedType,
    UsageError,
)
from tailrace.events import Event, QueryEvent
from tailrace.events.unreadable_rows import UnreadableRowsEvent
from tailrace.printable import short_repr

LOAD_DATA: Final = frozenset(
    {EventType.EXECUTE_LOAD_QUERY, EventType.LOAD, EventType.NEW_LOAD, EventType.EXEC_LOAD}
)
"""Events that execute LOAD DATA, of which the log has the file and not the rows."""


def check_readable(event: Event) -> None:
    """Raise BoundaryError where the server lost events, and UnsupportedType for rows in events that
    cannot be decoded.
    """
    if event.header.type == EventType.INCIDENT:
        raise event.error("the server lost events here: copy the tables again", BoundaryError)
    if isinstance(event, UnreadableRowsEvent):
        raise event.error("rows in events of this type cannot be decoded", UnsupportedType)


def check_statements(given: object) -> None:
    """Raise UsageError unless it says what to do about statements whose rows are not logged."""
    if given not in ("error", "skip"):
        raise UsageError(f'statements is "error" or "skip", and not {short_repr(given)}')


_SKIP: Final = (
    "leave such statements out (--statements skip, statements='skip'): their changes are then"
    " missing"
)


def statement_of(event: Event) -> str:
    """What an event that changed rows executes, for a message."""
    if isinstance(event, QueryEvent):
        return f"the statement «{' '.join(event.sql.split())[:60]}»"
    return "LOAD DATA"


def rows_not_logged(event: Event, advice: str = _SKIP) -> LogError:
    """The error of a statement, or a LOAD DATA, that changed rows which the log does not hold."""
    return event.error(
        f"the log holds {statement_of(event)} and not the rows that it changed (binlog_format is"
        f" not ROW); {advice}",
        StatementChange,
    )
