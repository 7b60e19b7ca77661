"""Global transaction ids of both flavours, and sets of them (facts sheet 4.5, 2.8)."""

from tailrace.gtid.mariadb import GtidList, MariadbGtid
from tailrace.gtid.mysql import Gtid, GtidSet, Tsid, format_uuid, parse_uuid
from tailrace.gtid.state import STATES, AnyGtid, GtidState, advanced, parse_gtid

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
