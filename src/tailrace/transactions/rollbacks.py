"""Which rows of a log were taken back by a statement that stands behind them.

A log holds what was committed, with three exceptions: a group that ends in ROLLBACK (it had to be
logged for what it did to tables without transactions), ROLLBACK TO a savepoint inside a group, and
an XA transaction that was prepared and later rolled back. A reader of rows leaves these out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from tailrace.constants import EventType
from tailrace.errors import BoundaryError
from tailrace.events import DecodeContext
from tailrace.events.payload import TransactionPayloadEvent, events_in
from tailrace.events.query import QueryEvent
from tailrace.events.transaction import XaPrepareEvent
from tailrace.position import Position
from tailrace.transactions.grammar import Boundary, BoundaryParser
from tailrace.transactions.statements import (
    XaName,
    rolls_back,
    savepoint_of_rollback,
    savepoint_set,
    xa_name,
    xa_statement,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tailrace.events.base import Event
    from tailrace.events.description import FormatDescription

TO_THE_END: Final = 1 << 62
"""An offset past the end of every file."""
Range = tuple[str, int, int]
"""File, start and end: the events that begin from ``start`` on and before ``end``."""
NO_SAVEPOINT: Final = "no savepoint of that name stands before it"


class TransactionParts:
    """The transaction under way, while the events of a series pass, and the files that it is in.

    ``parts`` has by file, in order, the offset at which the transaction begins there: in relay logs
    it may continue in the next file. ``void`` has the parts of one that the last event made void.
    """

    def __init__(self) -> None:
        self.parser = BoundaryParser()
        self.parts: dict[str, int] = {}
        self.void: dict[str, int] = {}

    def feed(self, event: Event) -> Boundary:
        """Where the event stands. Raises BoundaryError where it cannot stand."""
        if not self.parser.inside:
            self.parts = {}
        boundary = self.parser.feed(event)
        self.void = {}
        if self.parser.discarded:
            self.void, self.parts = self.parts, {}
        self.parts.setdefault(event.file or "", event.offset or 0)
        return boundary


class Rollbacks:
    """Fed with a series' statements and XA_PREPARE events in order, it finds what was undone.

    ``ranges`` are those of rows events that were rolled back; of a compressed transaction, of the
    payload event. Where an XA transaction is rolled back that was not seen to be prepared,
    ``unmatched`` is set: it was prepared in another log, or in a payload that was not fed.
    """

    def __init__(self) -> None:
        self.ranges: list[Range] = []
        self.unmatched = False
        self._prepared: dict[XaName, tuple[Position, list[Range]]] = {}
        self._savepoints: dict[str, Position] = {}
        self._group: Position | None = None

    @classmethod
    def of(cls, events: Iterable[Event]) -> Self:
        """What the events of a series say, its payloads as one event each."""
        found = cls()
        found.feed_all(events)
        return found

    def feed_all(self, events: Iterable[Event]) -> None:
        """Take in the events of a series from its first on."""
        group = TransactionParts()
        for event in events:
            group.feed(event)
            self.feed(event, group.parts)

    def feed(self, event: Event, parts: Mapping[str, int]) -> None:
        """Take in an event of the transaction that has these parts by now (`TransactionParts`)."""
        here = Position(event.file or "", event.offset or 0)
        group = Position(*next(iter(parts.items())))
        if group != self._group:
            self._group = group
            self._savepoints.clear()
        if isinstance(event, XaPrepareEvent):
            if not event.one_phase:
                xid = event.xid
                self.prepared((xid.format_id, xid.gtrid, xid.bqual), parts, here)
        elif isinstance(event, TransactionPayloadEvent):
            inside = prepared_in(event.pieces(), event.form)
            if inside is not None:
                self.prepared(inside, parts, Position(here.file, here.offset + 1))
        elif isinstance(event, QueryEvent):
            self._statement(event, parts, here)

    def prepared(self, name: XaName, parts: Mapping[str, int], end: Position) -> None:
        """An XA transaction of these parts was prepared; its rows end before ``end``."""
        self._prepared[name] = Position(*next(iter(parts.items()))), _ranges(parts, end)

    def _statement(self, event: QueryEvent, parts: Mapping[str, int], here: Position) -> None:
        sql = event.sql
        if (name := savepoint_set(sql)) is not None:
            self._savepoints[name] = here
        elif (name := savepoint_of_rollback(sql)) is not None:
            start = self._savepoints.get(name)
            if start is None:
                raise event.error(NO_SAVEPOINT, BoundaryError)
            files = list(parts)
            later = {file: parts[file] for file in files[files.index(start.file) :]}
            self.ranges += _ranges({**later, start.file: start.offset}, here)
        elif rolls_back(event.sql_bytes):
            self.ranges += _ranges(parts, here)
        elif (said := xa_statement(sql)) is not None and said[0] != "START":
            prepared = self._prepared.pop(said[1], None)
            if said[0] == "ROLLBACK":
                if prepared is None:
                    self.unmatched = True
                    return
                self.ranges += prepared[1]


def _ranges(parts: Mapping[str, int], end: Position) -> list[Range]:
    """The parts of a transaction up to ``end``, which is in the last of their files."""
    return [
        (file, start, end.offset if file == end.file else TO_THE_END)
        for file, start in parts.items()
    ]


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
            if not isinstance(first, QueryEvent) or xa_statement(first.sql) is None:
                return None
        elif raw[4] == EventType.XA_PREPARE:
            said = xa_name(context.decode(raw))
            return None if said is None else said[1]
    return None


def is_rollback(event: Event) -> bool:
    """Whether rows before this event may be taken back, so that one has to look on."""
    if isinstance(event, XaPrepareEvent):
        return not event.one_phase
    if not isinstance(event, QueryEvent):
        return False
    return rolls_back(event.sql_bytes) or savepoint_of_rollback(event.sql) is not None
