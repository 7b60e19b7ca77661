"""Which rows of a log were rolled back by a statement after them.

A log holds what was committed, with three exceptions: a group that ends in ROLLBACK (it had to be
logged for what it did to tables without transactions), ROLLBACK TO a savepoint inside a group, and
an XA transaction that was prepared and later rolled back. A reader of rows leaves these out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
    """Fed with a series' statements and XA_PREPARE events in order, it finds what was rolled back.

    ``ranges`` are those of rows events that were rolled back; of a compressed transaction, of the
    payload event. Where an XA transaction is rolled back that was not seen to be prepared,
    ``unmatched`` is set: it was prepared in another log, or in a payload that was not fed.
    Rows before ``delivered`` were given to whoever asked: that they are rolled back is an error.
    """

    def __init__(self, delivered: Position | None = None) -> None:
        self.delivered = delivered
        self.ranges: list[Range] = []
        self.unmatched = False
        self._prepared: dict[XaName, tuple[Position, list[Range]]] = {}
        self._savepoints: dict[str, Position] = {}
        self._group: Position | None = None

    def feed(self, event: Event, parts: Mapping[str, int]) -> None:
        """Take in an event of the transaction that has these parts by now (`TransactionParts`).

        Raises BoundaryError where rows are rolled back that were delivered.
        """
        known = len(self.ranges)
        self._feed(event, parts)
        if self.delivered is not None and len(self.ranges) > known:
            self._check(self.ranges[known:], Position(event.file or "", event.offset or 0))

    def _check(self, ranges: list[Range], here: Position) -> None:
        for file, start, _ in ranges:
            if self.delivered is not None and Position(file, start) < self.delivered <= here:
                raise BoundaryError(
                    "an XA transaction was rolled back whose rows were read up to "
                    f"{self.delivered} before: copy its tables anew",
                    file=file,
                    offset=start,
                )

    @property
    def undecided(self) -> Position | None:
        """Where the first XA transaction begins that is prepared and not decided, and whose rows
        were not delivered.
        """
        places = [begin for begin, _ in self._prepared.values()]
        if self.delivered is not None:
            places = [place for place in places if not place < self.delivered]
        return min(places, default=None)

    def deliver(self, end: Position) -> None:
        """All up to ``end`` is delivered: what was rolled back before is of no use any more."""
        self.delivered = end
        self.ranges = [each for each in self.ranges if not Position(each[0], each[1]) < end]

    def _feed(self, event: Event, parts: Mapping[str, int]) -> None:
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
        self._prepared[name] = Position(*next(iter(parts.items()))), ranges_of(parts, end)

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
            self.ranges += ranges_of({**later, start.file: start.offset}, here)
        elif rolls_back(event.sql_bytes):
            self.ranges += ranges_of(parts, here)
        elif (said := xa_statement(sql)) is not None and said[0] != "START":
            prepared = self._prepared.pop(said[1], None)
            if said[0] == "ROLLBACK":
                if prepared is None:
                    self.unmatched = True
                    return
                self.ranges += prepared[1]


def ranges_of(parts: Mapping[str, int], end: Position | None = None) -> list[Range]:
    """The parts of a transaction, in the file of ``end`` up to there."""
    return [
        (file, start, TO_THE_END if end is None or file != end.file else end.offset)
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
    """Whether rows before this event may be rolled back, which only what follows tells."""
    if isinstance(event, XaPrepareEvent):
        return not event.one_phase
    if not isinstance(event, QueryEvent):
        return False
    return rolls_back(event.sql_bytes) or savepoint_of_rollback(event.sql) is not None
