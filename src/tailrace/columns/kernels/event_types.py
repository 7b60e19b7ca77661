"""Families of event types."""

from __future__ import annotations

from tailrace.columns.frames import event_codes as e
from tailrace.columns.kernels.memory import helper


@helper
def is_rows(kind):
    """Whether an event holds its rows in one piece, plain or in MariaDB's compressed form."""
    return (
        e.WRITE_ROWS <= kind <= e.DELETE_ROWS
        or kind == e.PARTIAL_UPDATE_ROWS
        or e.WRITE_ROWS_V1 <= kind <= e.DELETE_ROWS_V1
        or e.FIRST_COMPRESSED_ROWS <= kind <= e.LAST_COMPRESSED_ROWS
    )


@helper
def operation_of(kind):
    """What a rows event does: 0 inserts, 1 updates, 2 deletes."""
    if kind >= e.FIRST_COMPRESSED_ROWS:
        return (kind - e.FIRST_COMPRESSED_ROWS) % 3
    if kind == e.PARTIAL_UPDATE_ROWS:
        return 1
    return kind - (e.WRITE_ROWS if kind >= e.WRITE_ROWS else e.WRITE_ROWS_V1)
