"""Which rows of a source count: those of transactions that were committed and not rolled back.

`Committed` is fed with the events of a series, from the start of a transaction; rows are not
decoded. Where kernels are available, they find the same ranges faster
(`tailrace.columns.read.committed.committed_in`).
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Self

from tailrace.errors import LogError
from tailrace.position import Position
from tailrace.transactions.grammar import Boundary
from tailrace.transactions.rollbacks import Range, Rollbacks, TransactionParts, ranges_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.events.base import Event


class XaRows(Enum):
    """When the rows of a prepared XA transaction are given."""

    AT_PREPARE = "at prepare"
    """At their position in the log, unless a later event rolls them back: for logs that can be read
    ahead.
    """
    AT_COMMIT = "at commit"
    """With the XA COMMIT: for logs that are followed, whose later events are not known yet."""


class Committed:
    """The rows that do not count: ``rollbacks`` has the ranges that were rolled back,
    ``unfinished`` those of transactions that have no end in the logs. ``end`` is where the last
    transaction ended. For ``delivered`` see `Rollbacks`.
    """

    def __init__(self, delivered: Position | None = None) -> None:
        self.rollbacks = Rollbacks(delivered)
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
