"""What was read or written, as GTIDs: one protocol for both flavours.

A `GtidState` is a GtidSet or a GtidList. Both have ``flavour``, `parse`, `add`, `discard`, `copy`,
`includes`, `latest`, `text` and ``-``, and are false if they are empty. A GTID of either flavour
has ``flavour``, `parse` and `following`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, overload

from tailrace.constants import Flavour
from tailrace.gtid.gtid_list import GtidList
from tailrace.gtid.gtid_set import GtidSet

if TYPE_CHECKING:
    from tailrace.gtid.ids import AnyGtid

GtidState = GtidSet | GtidList
"""The GTIDs of many transactions, of either flavour."""
STATES: Final[dict[Flavour, type[GtidSet | GtidList]]] = {
    Flavour.MYSQL: GtidSet,
    Flavour.MARIADB: GtidList,
}


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
    if state is None or (not state and state.flavour is not gtid.flavour):
        state = STATES[gtid.flavour]()
    if state.flavour is gtid.flavour:
        state.add(gtid)
    return state
