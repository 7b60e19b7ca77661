"""What was read or written, as GTIDs: one protocol for both flavours.

A `GtidState` is a GtidSet or a GtidList. Both have ``flavour``, `parse`, `add`, `discard`, `copy`,
`includes`, `latest`, `text` and ``-``, and are false if they are empty. A GTID of either flavour
has ``flavour``, `parse`, `alone` and `following`.
"""

from __future__ import annotations

from typing import Final, overload

from tailrace.constants import Flavour
from tailrace.gtid.mariadb import GtidList, MariadbGtid
from tailrace.gtid.mysql import Gtid, GtidSet

AnyGtid = Gtid | MariadbGtid
"""A transaction's id, of either flavour."""
GtidState = GtidSet | GtidList
"""The GTIDs of many transactions, of either flavour."""
STATES: Final[dict[Flavour, type[GtidSet | GtidList]]] = {
    Flavour.MYSQL: GtidSet,
    Flavour.MARIADB: GtidList,
}


def parse_gtid(text: str) -> AnyGtid:
    """A GTID of either flavour: ``uuid:5``, ``uuid:tag:5`` or ``0-1-100``. Raises GtidError."""
    return Gtid.parse(text) if ":" in text else MariadbGtid.parse(text)


@overload
def advanced(state: GtidState, gtid: AnyGtid | None) -> GtidState: ...
@overload
def advanced(state: None, gtid: AnyGtid | None) -> GtidState | None: ...
def advanced(state: GtidState | None, gtid: AnyGtid | None) -> GtidState | None:
    """The state after one more transaction. A transaction without a GTID changes nothing.

    The state is changed in place. A new one is made if there is none, or an empty one of the
    other flavour (the empty text is read as MySQL's). A state of the other flavour that has GTIDs
    stays unchanged.
    """
    if gtid is None:
        return state
    if state is not None and state.flavour is gtid.flavour:
        state.add(gtid)
        return state
    return state or gtid.alone()
