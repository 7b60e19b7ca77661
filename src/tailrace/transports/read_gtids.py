"""What was taken of a log that only its source knows: where reading began, and which GTIDs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.constants import MAGIC
from tailrace.events import GtidEvent, GtidListEvent, MariadbGtidEvent, PreviousGtidsEvent
from tailrace.gtid import Gtid, GtidList, GtidSet, MariadbGtid, advanced
from tailrace.position import Position

if TYPE_CHECKING:
    from tailrace.events import Event


class ReadGtids:
    """Fed with the events of a log, it knows the GTIDs up to the last transaction that ended.

    ``begin`` is where reading began: set by the stream before it gives its first event. ``gtids``
    are those that reading began behind, and those that came since; None as long as neither the
    start nor the begin of a file has told them.
    """

    def __init__(self, start: object) -> None:
        self.begin = Position("", len(MAGIC))
        self._by_gtids = isinstance(start, (GtidSet, GtidList))
        self.gtids: GtidSet | GtidList | None = None
        if isinstance(start, (GtidSet, GtidList)):
            self.gtids = start.copy()
        self._under_way: Gtid | MariadbGtid | None = None

    def feed(self, event: Event) -> None:
        """Take in an event, before it is given."""
        if isinstance(event, (GtidEvent, MariadbGtidEvent)):
            self._under_way = event.gtid
        elif not self._by_gtids and isinstance(event, (PreviousGtidsEvent, GtidListEvent)):
            self.gtids = event.gtids.copy()

    def ended(self) -> None:
        """What was under way was taken in whole."""
        gtid, self._under_way = self._under_way, None
        if self.gtids is not None:
            self.gtids = advanced(self.gtids, gtid)

    def voided(self) -> None:
        """What was under way has no end, and does not count."""
        self._under_way = None
