"""Global transaction ids of both flavours, and sets of them (facts sheet 4.5, 2.8)."""

from tailrace.gtid.gtid_list import GtidList
from tailrace.gtid.gtid_set import GtidSet, Tsid
from tailrace.gtid.ids import AnyGtid, Gtid, MariadbGtid, format_uuid, parse_gtid, parse_uuid
from tailrace.gtid.state import STATES, GtidState, advanced

__all__ = [
    "STATES",
    "AnyGtid",
    "Gtid",
    "GtidList",
    "GtidSet",
    "GtidState",
    "MariadbGtid",
    "Tsid",
    "advanced",
    "format_uuid",
    "parse_gtid",
    "parse_uuid",
]
