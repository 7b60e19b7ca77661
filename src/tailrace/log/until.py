"""Where reading ends that was asked to end at a position, at a time, or once GTIDs were read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.constants import MAGIC
from tailrace.errors import UsageError
from tailrace.events import (
    FormatDescriptionEvent,
    GtidListEvent,
    PreviousGtidsEvent,
    StartEncryptionEvent,
)
from tailrace.gtid import GtidState
from tailrace.log.events import Log
from tailrace.position import Position
from tailrace.storage import EventReader, LogSeries
from tailrace.storage.search import Beginnings, commit_time
from tailrace.times import Time
from tailrace.transaction import Boundary, BoundaryParser
from tailrace.transports import SeriesTransport, check_among
from tailrace.transports.gtids import Awaited, ReadGtids

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.events import Event
    from tailrace.selection import Start, Until
    from tailrace.transports import Record, Transport

_FARTHEST: Final = 1 << 62
_LISTS: Final = (
    FormatDescriptionEvent,
    PreviousGtidsEvent,
    GtidListEvent,
    StartEncryptionEvent,
)
"""What comes at a file's beginning, up to its list of GTIDs."""


class EndFinder:
    """Finds where reading ends in the events that it is given, in their order, from the start on.

    Reading ends before the first transaction that begins at ``until`` or after it, or was committed
    then or later; for GTIDs, after the last transaction of those that are ``awaited``.
    """

    def __init__(self, until: Until, awaited: Awaited | None) -> None:
        self._until = until
        self._awaited = awaited
        self._begins = Beginnings((), Position("", len(MAGIC)))
        self._first: Event | None = None

    def find(self, records: Iterable[Record]) -> Position | None:
        """The end, if it is among these events."""
        awaited = self._awaited
        for file, offset, raw in records:
            step = self._begins.step(file, offset, raw)
            if step is None:
                continue
            event, begins, boundary = step
            if awaited is not None and isinstance(event, (PreviousGtidsEvent, GtidListEvent)):
                awaited.take(event)
            if begins:
                if self._is_met(event):
                    return Position(file, offset)
                self._first = event
            if awaited is not None and boundary is Boundary.END and self._first is not None:
                awaited.take(self._first)
                if not awaited.left:
                    return Position(file, event.end_offset or 0)
        return None

    def _is_met(self, first: Event) -> bool:
        if self._awaited is not None:
            return not self._awaited.left
        return is_met(
            self._until, Position(first.file or "", first.offset or 0), commit_time(first)
        )

    def check_met(self, name: str, last: str) -> None:
        """The log ended in the file ``last``: raise UsageError if the end was to be after it."""
        if self._awaited is not None and self._awaited.left:
            raise UsageError(f"{name} ends, and these GTIDs were not read: {self._awaited.left}")
        check_reached(self._until, name, last)


def is_met(bound: object, begin: Position, time: int) -> bool:
    """Whether a transaction begins at or after a position, or was committed at a time (microseconds
    UTC) or later; False for GTIDs.
    """
    if isinstance(bound, Position):
        return begin >= bound
    return isinstance(bound, Time) and time >= bound.microseconds


def check_reached(bound: object, name: str, last: str) -> None:
    """Raise UsageError for a position in a file after the one in which a log ended."""
    if isinstance(bound, Position) and last and bound > Position(last, _FARTHEST):
        raise UsageError(f"{bound} is past the end of {name}: it ends in {last}")


def awaited_of(
    until: Until | None, start: Start | None, begin: Start | None, transport: Transport
) -> Awaited | None:
    """What must still be read up to the requested end, if GTIDs define it.

    ``start`` is as it was requested, ``begin`` where reading begins.
    """
    if not isinstance(until, GtidState):
        return None
    awaited = Awaited(until)
    if isinstance(start, GtidState):
        awaited.without(start)
    elif isinstance(begin, Position):
        awaited.without(gtids_at(transport, begin))
    return awaited


def gtids_at(transport: Transport, start: Position) -> GtidState | None:
    """The GTIDs of all transactions that ended before a position: its file's list, and those after
    that list. None if the file has no list.
    """
    read, parser = ReadGtids(None), BoundaryParser()
    log = Log(
        transport,
        start=Position(start.file, len(MAGIC)),
        verify_checksums=False,
        expand_payloads=False,
    )
    for event in log:
        at_start = event.file == start.file and (event.offset or 0) >= start.offset
        if at_start and not isinstance(event, _LISTS):
            break
        boundary = parser.feed(event)
        if parser.discarded:
            read.voided()
        read.feed(event)
        if boundary is Boundary.END:
            read.ended()
    log.close()
    return read.gtids


def end_in(
    series: LogSeries, until: Until | None, start: Start | None, begin: Position
) -> Position | None:
    """Where reading a series from ``begin`` ends; None for its present end.

    Its transactions' first events are read up to there. Raises UsageError for a position in a file
    that the series does not have, GTIDs that are not in it, and for a pipe.
    """
    if until is None or until == "now":
        return None
    if series.files[0].joined:
        raise UsageError(
            f"{series.name}: what comes through a pipe is read as batches to its end only"
        )
    names = [file.name for file in series.files]
    at = begin
    if isinstance(until, Position):
        check_among(until, names, series.name)
        if until <= begin:
            return begin
        at = begin if until.file == begin.file else Position(until.file, len(MAGIC))
    finder = EndFinder(until, awaited_of(until, start, begin, SeriesTransport(series)))
    files = series.files[names.index(at.file) :]
    if isinstance(until, Position):
        files = files[:1]  # no transaction of an earlier file reaches into it
    records = (
        (file.name, offset, raw)
        for file in files
        for offset, raw in EventReader(file, start=at.offset if file is files[0] else None)
    )
    found = finder.find(records)
    if found is None:
        finder.check_met(series.name, files[-1].name)
        if isinstance(until, Position):
            return Position(until.file, _FARTHEST)
    return found
