"""Which rows of a source count: those of transactions that were committed and not rolled back.

A log holds what was committed, with three exceptions: a group that ends in ROLLBACK (it was logged
because it changed tables without transactions), ROLLBACK TO a savepoint inside a group, and an XA
transaction that was prepared and later rolled back. `Rollbacks` finds these; `Committed` also the
transactions without an end. It is fed with the events of a series, from the start of a transaction;
rows are not decoded. Where kernels are available, they find the same ranges faster
(`tailrace.columns.read.committed.committed_in`).
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar

from tailrace.constants import EventType
from tailrace.errors import BoundaryError, LogError
from tailrace.events import DecodeContext
from tailrace.events.payload import TransactionPayloadEvent, events_in
from tailrace.events.query import QueryEvent
from tailrace.events.transaction import XaPrepareEvent
from tailrace.position import Position
from tailrace.transaction.grammar import Boundary, BoundaryParser
from tailrace.transaction.statements import (
    rolls_back,
    savepoint_of_rollback,
    savepoint_set,
    xa_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tailrace.events.base import Event
    from tailrace.events.description import FormatDescription
    from tailrace.events.transaction import XaName


T = TypeVar("T")
TO_THE_END: Final = 1 << 62
"""An offset past the end of every file."""
Range = tuple[str, int, int]
"""File, start and end: the events that begin at or after ``start`` and before ``end``."""
NO_SAVEPOINT: Final = "no savepoint of that name comes before it"


class TransactionParts:
    """The transaction under way while the events of a series are fed, and the files that it is in.

    ``parts`` has, by file and in order, the offset at which the transaction begins in that file: in
    relay logs it may continue in the next file. ``void`` has the parts of a transaction that the
    last event made void.
    """

    def __init__(self) -> None:
        self.parser = BoundaryParser()
        self.parts: dict[str, int] = {}
        self.void: dict[str, int] = {}

    def feed(self, event: Event) -> Boundary:
        """The event's role. Raises BoundaryError where the grammar does not allow the event."""
        if not self.parser.inside:
            self.parts = {}
        boundary = self.parser.feed(event)
        self.void = {}
        if self.parser.discarded:
            self.void, self.parts = self.parts, {}
        self.parts.setdefault(event.file or "", event.offset or 0)
        return boundary


class Savepoints(Generic[T]):
    """The savepoints of the transaction under way, each with the place at which it was set."""

    def __init__(self) -> None:
        self._places: dict[str, T] = {}

    def clear(self) -> None:
        """Another transaction begins."""
        self._places.clear()

    def set(self, name: str, here: T) -> None:
        """Set one; one that has this name already is replaced."""
        self._places.pop(name, None)
        self._places[name] = here

    def release(self, name: str) -> T:
        """The place of one, which is forgotten, as are those that were set after it.

        Raises BoundaryError for a savepoint that is not set.
        """
        if name not in self._places:
            raise BoundaryError(NO_SAVEPOINT)
        later = [*self._places]
        here = self._places[name]
        for each in later[later.index(name) :]:
            del self._places[each]
        return here

    def back_to(self, name: str) -> T:
        """The place of one, which stays set; those that were set after it are forgotten.

        Raises BoundaryError for a savepoint that is not set.
        """
        here = self._places[name] = self.release(name)
        return here


class Rollbacks:
    """Finds what was rolled back. Fed with a series' statements and XA_PREPARE events in order.

    ``ranges`` are those of rows events that were rolled back; for a compressed transaction, that of
    the payload event. ``unmatched`` is set where an XA transaction is rolled back whose prepare was
    not seen: it was prepared in another log, or in a payload that was not fed.
    Rows before ``delivered`` were already given to the caller: rolling them back is an error. A
    statement before ``seen`` raises none: the log was known up to there when those rows were given,
    and they were left out.
    """

    def __init__(self, delivered: Position | None = None, seen: Position | None = None) -> None:
        self.delivered = delivered
        self.seen = seen
        self.ranges: list[Range] = []
        self.unmatched = False
        self._prepared: dict[XaName, tuple[Position, list[Range]]] = {}
        self._savepoints: Savepoints[Position] = Savepoints()
        self._group: Position | None = None

    def feed(self, event: Event, parts: Mapping[str, int]) -> None:
        """Take in an event of the transaction that has these parts so far (`TransactionParts`).

        Raises BoundaryError where rows are rolled back that were already delivered.
        """
        known = len(self.ranges)
        here = _start_of(event)
        self._feed(event, parts, here)
        if len(self.ranges) > known and (self.seen is None or here >= self.seen):
            self._check(self.ranges[known:], here)

    def _check(self, ranges: list[Range], here: Position) -> None:
        for file, start, _ in ranges:
            if self.delivered is not None and Position(file, start) < self.delivered <= here:
                raise BoundaryError(
                    "an XA transaction was rolled back whose rows were already read up to "
                    f"{self.delivered}: copy its tables again",
                    file=file,
                    offset=start,
                )

    @property
    def in_doubt(self) -> Position | None:
        """The start of the first in-doubt XA transaction (prepared, neither committed nor rolled
        back) whose rows were not delivered.
        """
        places = [begin for begin, _ in self._prepared.values()]
        if self.delivered is not None:
            places = [place for place in places if not place < self.delivered]
        return min(places, default=None)

    def deliver(self, end: Position, seen: Position) -> None:
        """All up to ``end`` is delivered, as the log up to ``seen`` says: ranges that were rolled
        back before ``end`` are dropped.
        """
        self.delivered, self.seen = end, seen
        self.ranges = [each for each in self.ranges if not Position(each[0], each[1]) < end]

    def _feed(self, event: Event, parts: Mapping[str, int], here: Position) -> None:
        if isinstance(event, QueryEvent):
            sql = event.sql
            try:
                known = self.savepoint(sql, parts, here)
            except BoundaryError as error:
                raise error.at(here.file, here.offset, event.name) from None
            if not known:
                self._end(event, parts, here)
        elif isinstance(event, XaPrepareEvent):
            if not event.one_phase:
                self.prepared(event.xid, parts, here)
        elif isinstance(event, TransactionPayloadEvent):
            inside = prepared_in(event.pieces(), event.form)
            if inside is not None:
                self.prepared(inside, parts, Position(here.file, here.offset + 1))

    def savepoint(self, sql: str, parts: Mapping[str, int], here: Position) -> bool:
        """Take in a statement that sets a savepoint or rolls back to one; False for any other.

        ``parts`` are those of its transaction (`TransactionParts`), ``here`` is where its event
        begins. Raises BoundaryError for a savepoint that was not set.
        """
        group = Position(*next(iter(parts.items())))
        if group != self._group:
            self._group = group
            self._savepoints.clear()
        if (name := savepoint_set(sql)) is not None:
            self._savepoints.set(name, here)
            return True
        if (name := savepoint_of_rollback(sql)) is None:
            return False
        start = self._savepoints.back_to(name)
        files = list(parts)
        later = {file: parts[file] for file in files[files.index(start.file) :]}
        self.ranges += ranges_of({**later, start.file: start.offset}, here)
        return True

    def prepared(self, name: XaName, parts: Mapping[str, int], end: Position) -> None:
        """An XA transaction of these parts was prepared; its rows end before ``end``."""
        self._prepared[name] = Position(*next(iter(parts.items()))), ranges_of(parts, end)

    def _end(self, event: QueryEvent, parts: Mapping[str, int], here: Position) -> None:
        """Take in a statement that may roll back this transaction, or end a prepared one."""
        if rolls_back(event.sql_bytes):
            self.ranges += ranges_of(parts, here)
        elif (said := xa_name(event)) is not None and said[0] != "START":
            prepared = self._prepared.pop(said[1], None)
            if said[0] == "ROLLBACK":
                if prepared is None:
                    self.unmatched = True
                    return
                self.ranges += prepared[1]


def ranges_of(parts: Mapping[str, int], end: Position | None = None) -> list[Range]:
    """The ranges of a transaction's parts; in the file of ``end``, up to ``end``."""
    return [
        (file, start, TO_THE_END if end is None or file != end.file else end.offset)
        for file, start in parts.items()
    ]


def prepared_in(pieces: Iterable[bytes], form: FormatDescription | None) -> XaName | None:
    """The XA transaction that a payload's plain bytes prepare; None if they prepare none, or commit
    it.

    Only if the first event is an XA statement are all events read. Raises EventDecodeError,
    TruncatedEvent.
    """
    context = DecodeContext(form)
    number = 0
    for number, raw in enumerate(events_in(pieces)):
        if number == 0:
            first = context.decode(raw)
            if not isinstance(first, QueryEvent) or xa_name(first) is None:
                return None
        elif raw[4] == EventType.XA_PREPARE:
            said = xa_name(context.decode(raw))
            return None if said is None else said[1]
    return None


def is_rollback(event: Event) -> bool:
    """Whether this event may roll back rows before it; only later events tell."""
    if isinstance(event, XaPrepareEvent):
        return not event.one_phase
    if not isinstance(event, QueryEvent):
        return False
    return rolls_back(event.sql_bytes) or savepoint_of_rollback(event.sql) is not None


def check_inside_payload(event: Event) -> None:
    """Raise BoundaryError for a statement of a payload that rolls back rows.

    A payload is committed, or prepared, as a whole: servers write no such statement into one.
    """
    if isinstance(event, QueryEvent) and is_rollback(event):
        raise event.error("rows inside a compressed transaction are rolled back", BoundaryError)


class XaRows(Enum):
    """When the rows of a prepared XA transaction are given."""

    AT_PREPARE = "at prepare"
    """At their position in the log, unless a later event rolls them back: for logs that can be read
    ahead.
    """
    AT_COMMIT = "at commit"
    """With the XA COMMIT, or at the log's end: for servers' logs and those that are followed, whose
    later events are not known yet.
    """

    @classmethod
    def of(cls, *, of_files: bool, follow: bool) -> XaRows:
        """The policy for a log: files, or a server's, and whether it is followed."""
        return cls.AT_PREPARE if of_files and not follow else cls.AT_COMMIT


class Committed:
    """The rows that were not committed: ``rollbacks`` has the ranges that were rolled back,
    ``unfinished`` those of transactions that have no end in the logs. ``end`` is where the last
    transaction ended. For ``delivered`` and ``seen`` see `Rollbacks`.
    """

    def __init__(self, delivered: Position | None = None, seen: Position | None = None) -> None:
        self.rollbacks = Rollbacks(delivered, seen)
        self.unfinished: list[Range] = []
        self.end = Position("", 0)
        self._transaction = TransactionParts()

    @classmethod
    def of(cls, events: Iterable[Event]) -> Self:
        """From all events of a series, up to damage: whoever reads the rows reports the damage."""
        found = cls()
        with suppress(LogError):
            found.feed_all(events)
        return found

    def feed_all(self, events: Iterable[Event]) -> None:
        """Take in all events of a series. Raises BoundaryError, and any error from reading them."""
        try:
            for event in events:
                self.feed(event)
        finally:
            if self._transaction.parser.inside:
                self.unfinished += ranges_of(self._transaction.parts)

    def feed(self, event: Event) -> None:
        """Take in the next event; for a payload, the payload event itself. Raises BoundaryError."""
        transaction = self._transaction
        boundary = transaction.feed(event)
        if transaction.void:
            self.unfinished += ranges_of(transaction.void, _start_of(event))
        self.rollbacks.feed(event, transaction.parts)
        if boundary is Boundary.END:
            self.end = Position(event.file or "", event.end_offset or 0)

    @property
    def left_out(self) -> list[Range]:
        """All ranges whose rows do not count."""
        return self.rollbacks.ranges + self.unfinished

    def rolled_back(self, event: Event) -> bool:
        """Whether the rows of an event, or of the payload that holds it, were rolled back."""
        return _is_in(self._rolled_back, event)

    def has_no_end(self, event: Event) -> bool:
        """Whether an event's transaction has no end in the logs that were read."""
        return self.is_later(event) or _is_in(self._unfinished, event)

    def is_later(self, event: Event) -> bool:
        """Whether an event comes after the last transaction that was read to its end."""
        return _start_of(event) >= self.end

    # Used only after all events were fed.

    @cached_property
    def _rolled_back(self) -> dict[str, list[tuple[int, int]]]:
        return _merged(self.rollbacks.ranges)

    @cached_property
    def _unfinished(self) -> dict[str, list[tuple[int, int]]]:
        return _merged(self.unfinished)


def _start_of(event: Event) -> Position:
    return Position(event.file or "", event.offset or 0)


def _merged(ranges: Iterable[Range]) -> dict[str, list[tuple[int, int]]]:
    """The ranges of each file in order; overlapping ranges are merged."""
    files: dict[str, list[tuple[int, int]]] = {}
    for file, start, end in sorted(ranges):
        known = files.setdefault(file, [])
        if known and start <= known[-1][1]:
            known[-1] = known[-1][0], max(known[-1][1], end)
        else:
            known.append((start, end))
    return files


def _is_in(files: dict[str, list[tuple[int, int]]], event: Event) -> bool:
    ranges, offset = files.get(event.file or "", []), event.offset or 0
    before = bisect_right(ranges, offset, key=lambda bounds: bounds[0]) - 1
    return before >= 0 and offset < ranges[before][1]
