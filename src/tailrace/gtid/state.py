"""The GTIDs that were read or written, of either flavour, transaction by transaction."""

from __future__ import annotations

from typing import overload

from tailrace.gtid.mariadb import GtidList, MariadbGtid
from tailrace.gtid.mysql import Gtid, GtidSet

GtidState = GtidSet | GtidList
"""Both have `add`, `copy` and `text`, and are false where they are empty."""


@overload
def advanced(state: GtidState, gtid: Gtid | MariadbGtid | None) -> GtidState: ...
@overload
def advanced(state: None, gtid: Gtid | MariadbGtid | None) -> GtidState | None: ...
def advanced(state: GtidState | None, gtid: Gtid | MariadbGtid | None) -> GtidState | None:
    """A state, with one more transaction; None as its GTID changes nothing.

    It is changed in place. Without a state, or with an empty one of the other flavour, which the
    empty text may be, it is a new one; another of the other flavour stays as it is.
    """
    if isinstance(gtid, Gtid):
        if not state:
            state = state if isinstance(state, GtidSet) else GtidSet()
        if isinstance(state, GtidSet):
            state.add(gtid)
    elif gtid is not None:
        if not state:
            state = state if isinstance(state, GtidList) else GtidList()
        if isinstance(state, GtidList):
            state.add(gtid)
    return state
