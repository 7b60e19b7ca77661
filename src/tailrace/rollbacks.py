"""Which rows of a log were taken back by a statement that stands behind them.

A log holds what was committed, with three exceptions: a group that ends in ROLLBACK (it had to be
logged for what it did to tables without transactions), ROLLBACK TO a savepoint inside a group, and
an XA transaction that was prepared and later rolled back. A reader of rows leaves these out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Self

from tailrace.constants import EventType
from tailrace.errors import BoundaryError
from tailrace.events import DecodeContext
from tailrace.events.payload import TransactionPayloadEvent, events_in
from tailrace.events.query import QueryEvent
from tailrace.events.transaction import XaPrepareEvent
from tailrace.position import Position
from tailrace.transactions import BoundaryParser

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.events.base import Event
    from tailrace.events.description import FormatDescription

_SAVEPOINT: Final = re.compile(r"\s*+SAVEPOINT\s", re.IGNORECASE)
_ROLLBACK_TO: Final = re.compile(
    r"\s*+ROLLBACK\s++(?:WORK\s++)?TO\s++(?:SAVEPOINT\s++)?", re.IGNORECASE
)
_ROLLBACK: Final = re.compile(r"\s*ROLLBACK\b", re.IGNORECASE)
_XA: Final = re.compile(
    r"\s*XA\s+(START|COMMIT|ROLLBACK)\s+X'((?:[0-9a-f]{2})*+)'\s*,\s*X'((?:[0-9a-f]{2})*+)'"
    r"\s*,\s*([0-9]{1,20}+)",
    re.IGNORECASE,
)

XaName = tuple[int, bytes, bytes]
NO_SAVEPOINT: Final = "no savepoint of that name stands before it"


class Rollbacks:
    """Fed with a series' statements and XA_PREPARE events in order, it finds what was undone.

    ``ranges`` holds (file, start, end): rows events that begin at the offsets from ``start`` up to
    ``end`` of that file were taken back; of a compressed transaction, the payload event's. Where
    an XA transaction is rolled back that was not seen to be prepared, ``unmatched`` is set: it was
    prepared in another log, or in a payload that was not fed.
    """

    def __init__(self) -> None:
        self.ranges: list[tuple[str, int, int]] = []
        self.unmatched = False
        self._prepared: dict[XaName, tuple[Position, int]] = {}
        self._savepoints: dict[str, int] = {}
        self._group: Position | None = None

    @classmethod
    def of(cls, events: Iterable[Event]) -> Self:
        """What the events of a series say, its payloads as one event each."""
        found = cls()
        parser = BoundaryParser()
        began = 0
        for event in events:
            if not parser.inside:
                began = event.offset or 0
            parser.feed(event)
            found.feed(event, began)
        return found

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
                self.prepared((xid.format_id, xid.gtrid, xid.bqual), group, offset)
        elif isinstance(event, TransactionPayloadEvent):
            inside = prepared_in(event.pieces(), event.form)
            if inside is not None:
                self.prepared(inside, group, offset + 1)
        elif isinstance(event, QueryEvent):
            self._statement(event, event.sql, file, offset)

    def prepared(self, name: XaName, group: Position, end: int) -> None:
        """An XA transaction was prepared: its group begins at ``group``, and its rows end before
        ``end``.
        """
        self._prepared[name] = (group, end)

    def _statement(self, event: Event, sql: str, file: str, offset: int) -> None:
        if (name := savepoint_set(sql)) is not None:
            self._savepoints[name] = offset
        elif (name := savepoint_of_rollback(sql)) is not None:
            start = self._savepoints.get(name)
            if start is None:
                raise event.error(NO_SAVEPOINT, BoundaryError)
            self.ranges.append((file, start, offset))
        elif _ROLLBACK.match(sql) and self._group is not None:
            self.ranges.append((file, self._group.offset, offset))
        elif (ended := _XA.match(sql)) and ended[1].upper() != "START":
            prepared = self._prepared.pop(_xa_name(ended), None)
            if ended[1].upper() == "ROLLBACK":
                if prepared is None:
                    self.unmatched = True
                    return
                prepared_at, end = prepared
                self.ranges.append((prepared_at.file, prepared_at.offset, end))


def savepoint_set(sql: str) -> str | None:
    """The name that ``SAVEPOINT name`` gives, as savepoints compare; None for anything else."""
    found = _SAVEPOINT.match(sql)
    return None if found is None else sql[found.end() :].strip().lower() or None


def savepoint_of_rollback(sql: str) -> str | None:
    """The savepoint that ``ROLLBACK TO name`` goes back to; None for anything else."""
    found = _ROLLBACK_TO.match(sql)
    return None if found is None else sql[found.end() :].strip().lower() or None


def xa_statement(event: QueryEvent) -> tuple[str, XaName] | None:
    """What an XA statement does, as servers log it: START, COMMIT or ROLLBACK, and to which."""
    found = _XA.match(event.sql)
    return None if found is None else (found[1].upper(), _xa_name(found))


def _xa_name(found: re.Match[str]) -> XaName:
    return int(found[4]), bytes.fromhex(found[2]), bytes.fromhex(found[3])


def xa_name(event: Event) -> tuple[str, XaName] | None:
    """What an event says of an XA transaction (``START``, ``PREPARE``, ``COMMIT``, ``ROLLBACK``),
    and which one; None for other events, and for one that is committed in one phase.
    """
    if isinstance(event, XaPrepareEvent):
        xid = event.xid
        return None if event.one_phase else ("PREPARE", (xid.format_id, xid.gtrid, xid.bqual))
    return xa_statement(event) if isinstance(event, QueryEvent) else None


def prepared_in(pieces: Iterable[bytes], form: FormatDescription | None) -> XaName | None:
    """The XA transaction that a payload's plain bytes prepare; None: none, or it is committed.

    All of them are gone through only where the first event is an XA statement. Raises
    EventDecodeError, TruncatedEvent.
    """
    context = DecodeContext(form)
    number = 0
    for number, raw in enumerate(events_in(pieces)):
        if number == 0:
            first = context.decode(raw)
            if not isinstance(first, QueryEvent) or xa_statement(first) is None:
                return None
        elif raw[4] == EventType.XA_PREPARE:
            said = xa_name(context.decode(raw))
            return None if said is None else said[1]
    return None


def is_rollback(event: Event) -> bool:
    """Whether rows before this event may be taken back, so that one has to look on."""
    if isinstance(event, XaPrepareEvent):
        return not event.one_phase
    return isinstance(event, QueryEvent) and _ROLLBACK.match(event.sql) is not None


_GOES_ON: Final = re.compile(rb"\sSTART\s+TRANSACTION\Z", re.IGNORECASE)
_LONGEST_END: Final = 100
"""Characters from the end in which ``START TRANSACTION`` is looked for."""


def without_start_transaction(sql: bytes) -> bytes | None:
    """``CREATE TABLE … START TRANSACTION`` without its last words; None for any other statement.

    A server writes them itself, at the end of what it logs of a ``CREATE TABLE … SELECT``.
    """
    sql = sql.rstrip()
    start = max(0, len(sql) - _LONGEST_END)
    found = _GOES_ON.search(sql, start)
    return None if found is None else sql[: found.start()].rstrip()
