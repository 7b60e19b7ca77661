"""Filters transactions by their GTID."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.events import GtidEvent, MariadbGtidEvent
from tailrace.gtid import GtidList, MariadbGtid
from tailrace.handlers.groups import GroupFilter

if TYPE_CHECKING:
    from collections.abc import Container

    from tailrace.events import Event


class UpTo:
    """All GTIDs up to a MariaDB state: in each of its domains, the numbers up to its own.

    Within a domain numbers must rise, as ``gtid_strict_mode`` enforces.
    """

    def __init__(self, state: GtidList) -> None:
        self._last = {domain: gtid.seq_no for domain, gtid in state.position.items()}

    def __contains__(self, gtid: object) -> bool:
        return isinstance(gtid, MariadbGtid) and gtid.seq_no <= self._last.get(gtid.domain_id, -1)


class ByGtid(GroupFilter):
    """Passes ``only`` the transactions with these GTIDs, or all ``without`` these.

    Either is a GtidSet, a GtidList (it means all GTIDs up to it: `UpTo`), or any container of Gtid
    or MariadbGtid. A transaction without a GTID is in none of them.
    """

    def __init__(
        self,
        only: Container[Any] | GtidList | None = None,
        *,
        without: Container[Any] | GtidList = (),
    ) -> None:
        super().__init__()
        self._only = None if only is None else _container(only)
        self._without = _container(without)

    def keeps(self, first: Event) -> bool:
        """Decide by the GTID event's GTID."""
        gtid = first.gtid if isinstance(first, (GtidEvent, MariadbGtidEvent)) else None
        if gtid is None:
            return self._only is None
        return (self._only is None or gtid in self._only) and gtid not in self._without


def _container(gtids: Container[Any] | GtidList) -> Container[Any]:
    return UpTo(gtids) if isinstance(gtids, GtidList) else gtids
