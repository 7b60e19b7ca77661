"""Which rows of a log were taken back by a statement that stands behind them.

A log holds what was committed, with three exceptions: a group that ends in ROLLBACK (it had to be
logged for what it did to tables without transactions), ROLLBACK TO a savepoint inside a group, and
an XA transaction that was prepared and later rolled back. A reader of rows leaves these out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tailrace.errors import BoundaryError
from tailrace.events.query import QueryEvent
from tailrace.events.transaction import XaPrepareEvent
from tailrace.position import Position
from tailrace.schema.classify import StatementKind, classify

if TYPE_CHECKING:
    from tailrace.events.base import Event

_SAVEPOINT: Final = re.compile(r"\s*SAVEPOINT\s+(.+?)\s*\Z", re.IGNORECASE | re.DOTALL)
_ROLLBACK_TO: Final = re.compile(
    r"\s*ROLLBACK\s+(?:WORK\s+)?TO\s+(?:SAVEPOINT\s+)?(.+?)\s*\Z", re.IGNORECASE | re.DOTALL
)
_ROLLBACK: Final = re.compile(r"\s*ROLLBACK\b", re.IGNORECASE)
_XA_END: Final = re.compile(
    r"\s*XA\s+(COMMIT|ROLLBACK)\s+X'([0-9a-f]*)'\s*,\s*X'([0-9a-f]*)'\s*,\s*(\d+)", re.IGNORECASE
)

XaName = tuple[int, bytes, bytes]


class Rollbacks:
    """Fed with a series' statements and XA_PREPARE events in order, it finds what was undone.

    ``ranges`` holds (file, start, end): rows events that begin at the offsets from ``start`` up to
    ``end`` of that file were taken back.
    """

    def __init__(self) -> None:
        self.ranges: list[tuple[str, int, int]] = []
        self._prepared: dict[XaName, tuple[Position, int]] = {}
        self._savepoints: dict[str, int] = {}
        self._group: Position | None = None

    def feed(self, event: Event, began: int) -> None:
        """Take in an event of the group that began at the offset ``began`` of its file."""
        file, offset = event.file or "", event.offset or 0
        group = Position(file, began)
        if group != self._group:
            self._group = group
            self._savepoints.clear()
        if isinstance(event, XaPrepareEvent):
            if not event.one_phase:
                xid = event.xid
                name = (xid.format_id, xid.gtrid, xid.bqual)
                self._prepared[name] = (group, offset)
        elif isinstance(event, QueryEvent):
            self._statement(event, event.sql, file, offset)

    def _statement(self, event: Event, sql: str, file: str, offset: int) -> None:
        if savepoint := _SAVEPOINT.match(sql):
            self._savepoints[savepoint[1].lower()] = offset
        elif target := _ROLLBACK_TO.match(sql):
            start = self._savepoints.get(target[1].lower())
            if start is None:
                raise event.error("no savepoint of that name stands before it", BoundaryError)
            self.ranges.append((file, start, offset))
        elif _ROLLBACK.match(sql) and self._group is not None:
            self.ranges.append((file, self._group.offset, offset))
        elif ended := _XA_END.match(sql):
            name = (int(ended[4]), bytes.fromhex(ended[2]), bytes.fromhex(ended[3]))
            prepared = self._prepared.pop(name, None)
            if prepared is not None and ended[1].upper() == "ROLLBACK":
                prepared_at, end = prepared
                self.ranges.append((prepared_at.file, prepared_at.offset, end))


def is_rollback(event: Event) -> bool:
    """Whether rows before this event may be taken back, so that one has to look on."""
    if isinstance(event, XaPrepareEvent):
        return not event.one_phase
    return isinstance(event, QueryEvent) and _ROLLBACK.match(event.sql) is not None


_ENDS: Final = re.compile(
    r"\s*(?:ROLLBACK(?!\s+(?:WORK\s+)?TO\b)|COMMIT|XA\s+(?:COMMIT|ROLLBACK))\b", re.IGNORECASE
)
_GOES_ON: Final = re.compile(r"\bSTART\s+TRANSACTION\s*\Z", re.IGNORECASE)


def ends_transaction(event: Event) -> bool:
    """Whether a statement or an XA_PREPARE event ends its transaction (or is one by itself)."""
    if isinstance(event, XaPrepareEvent):
        return True
    if not isinstance(event, QueryEvent):
        return False
    kind = classify(event.sql)
    if kind is StatementKind.CONTROL:
        return _ENDS.match(event.sql) is not None
    # CREATE TABLE ... START TRANSACTION is followed by the rows of its SELECT.
    return not kind.changes_rows and not _GOES_ON.search(event.sql)
