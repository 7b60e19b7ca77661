"""Tracks what was read of a log: where reading began, and which GTIDs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.constants import MAGIC
from tailrace.events import GtidEvent, GtidListEvent, MariadbGtidEvent, PreviousGtidsEvent
from tailrace.gtid import GtidState, advanced
from tailrace.position import Position

if TYPE_CHECKING:
    from tailrace.events import Event
    from tailrace.gtid import AnyGtid


class ReadGtids:
    """Tracks the GTIDs up to the last complete transaction, from the events fed to it.

    ``begin`` is where reading began: the stream sets it before it gives its first event. ``gtids``
    are the GTIDs after which reading began, and those since. It is None until the start or the
    beginning of a file has given them.
    """

    def __init__(self, start: object) -> None:
        self.begin = Position("", len(MAGIC))
        self._by_gtids = isinstance(start, GtidState)
        self.gtids: GtidState | None = None
        if isinstance(start, GtidState):
            self.gtids = start.copy()
        self._under_way: AnyGtid | None = None

    def feed(self, event: Event) -> None:
        """Process an event, before it is given to the reader."""
        if isinstance(event, (GtidEvent, MariadbGtidEvent)):
            self._under_way = event.gtid
        elif not self._by_gtids and isinstance(event, (PreviousGtidsEvent, GtidListEvent)):
            self.gtids = event.gtids.copy()

    def ended(self) -> None:
        """The open transaction was read completely."""
        gtid, self._under_way = self._under_way, None
        if self.gtids is not None:
            self.gtids = advanced(self.gtids, gtid)

    def voided(self) -> None:
        """The open transaction has no end, and does not count."""
        self._under_way = None
