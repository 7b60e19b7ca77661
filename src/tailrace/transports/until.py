"""Where reading ends that was asked to end at a position, at a time, or once GTIDs were read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.constants import MAGIC
from tailrace.errors import UsageError
from tailrace.events import GtidListEvent, PreviousGtidsEvent
from tailrace.position import Position
from tailrace.storage.search import Beginnings, commit_time
from tailrace.times import Time
from tailrace.transaction import Boundary

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.events import Event
    from tailrace.selection import Until
    from tailrace.transports.base import Record
    from tailrace.transports.gtids import Awaited

FARTHEST: Final = 1 << 62
"""An offset past the end of every file."""


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
        for record in records:
            step = self._begins.step(*record)
            found = None if step is None else self.feed(*step)
            if found is not None:
                return found
        return None

    def feed(self, event: Event, begins: bool, boundary: Boundary) -> Position | None:
        """The end, if it is before this event, or after it: its beginning or its end.

        ``begins`` says whether a transaction begins with the event; ``boundary`` is its role.
        """
        awaited = self._awaited
        if awaited is not None and isinstance(event, (PreviousGtidsEvent, GtidListEvent)):
            awaited.take(event)
        if begins:
            if self._is_met(event):
                return Position(event.file or "", event.offset or 0)
            self._first = event
        if awaited is not None and boundary is Boundary.END and self._first is not None:
            awaited.take(self._first)
            if not awaited.left:
                return Position(event.file or "", event.end_offset or 0)
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
    if isinstance(bound, Position) and last and bound > Position(last, FARTHEST):
        raise UsageError(f"{bound} is past the end of {name}: it ends in {last}")
