"""The GTIDs that were read or written, of either flavour, transaction by transaction."""

from __future__ import annotations

from typing import Any, overload

from tailrace.gtid.mariadb import GtidList, MariadbGtid
from tailrace.gtid.mysql import Gtid, GtidSet

GtidState = GtidSet | GtidList
"""Both have `add`, `copy` and `text`, and are false if they are empty."""


@overload
def advanced(state: GtidState, gtid: Gtid | MariadbGtid | None) -> GtidState: ...
@overload
def advanced(state: None, gtid: Gtid | MariadbGtid | None) -> GtidState | None: ...
def advanced(state: GtidState | None, gtid: Gtid | MariadbGtid | None) -> GtidState | None:
    """The state after one more transaction. A transaction without a GTID changes nothing.

    The state is changed in place. A new one is made if there is none, or an empty one of the
    other flavour (the empty text is read as MySQL's). A state of the other flavour that has GTIDs
    stays unchanged.
    """
    if gtid is None:
        return state
    kind: type[Any] = GtidSet if isinstance(gtid, Gtid) else GtidList
    if not state and not isinstance(state, kind):
        state = kind()
    if isinstance(state, kind):
        state.add(gtid)
    return state
