"""Filters transactions by their commit time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from tailrace.events import GtidEvent
from tailrace.handlers.groups import GroupFilter

if TYPE_CHECKING:
    from tailrace.events import Event

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ByTime(GroupFilter):
    """Passes the transactions committed from ``start`` (inclusive) to ``end`` (exclusive).

    Datetimes, in UTC where they have no zone, or microseconds UTC. The time is the original commit
    timestamp; in logs without it (MariaDB's) it is the first event's second. Clocks may go
    backwards: each transaction is judged separately.
    """

    def __init__(
        self, start: datetime | int | None = None, end: datetime | int | None = None
    ) -> None:
        super().__init__()
        self._start = _microseconds(start)
        self._end = _microseconds(end)

    def keeps(self, first: Event) -> bool:
        """Decide by the commit time."""
        time = first.commit_timestamp if isinstance(first, GtidEvent) else None
        if time is None:
            time = first.timestamp * 1_000_000
        return (self._start is None or time >= self._start) and (
            self._end is None or time < self._end
        )


def _microseconds(time: datetime | int | None) -> int | None:
    if not isinstance(time, datetime):
        return time
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // timedelta(microseconds=1)
