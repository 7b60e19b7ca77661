"""Types of events that kernels distinguish, as integers (`tailrace.constants.EventType`)."""

from __future__ import annotations

from typing import Final

from tailrace.constants import EventType

QUERY: Final = int(EventType.QUERY)
ROTATE: Final = int(EventType.ROTATE)
FORMAT_DESCRIPTION: Final = int(EventType.FORMAT_DESCRIPTION)
XID: Final = int(EventType.XID)
TABLE_MAP: Final = int(EventType.TABLE_MAP)
WRITE_ROWS_V1: Final = int(EventType.WRITE_ROWS_V1)
DELETE_ROWS_V1: Final = int(EventType.DELETE_ROWS_V1)
ROWS_QUERY: Final = int(EventType.ROWS_QUERY)
WRITE_ROWS: Final = int(EventType.WRITE_ROWS)
DELETE_ROWS: Final = int(EventType.DELETE_ROWS)
GTID: Final = int(EventType.GTID)
ANONYMOUS_GTID: Final = int(EventType.ANONYMOUS_GTID)
XA_PREPARE: Final = int(EventType.XA_PREPARE)
PARTIAL_UPDATE_ROWS: Final = int(EventType.PARTIAL_UPDATE_ROWS)
TRANSACTION_PAYLOAD: Final = int(EventType.TRANSACTION_PAYLOAD)
GTID_TAGGED: Final = int(EventType.GTID_TAGGED)
ANNOTATE_ROWS: Final = int(EventType.ANNOTATE_ROWS)
MARIADB_GTID: Final = int(EventType.MARIADB_GTID)
START_ENCRYPTION: Final = int(EventType.START_ENCRYPTION)
QUERY_COMPRESSED: Final = int(EventType.QUERY_COMPRESSED)
FIRST_COMPRESSED_ROWS: Final = int(EventType.WRITE_ROWS_COMPRESSED_V1)
LAST_COMPRESSED_ROWS: Final = int(EventType.DELETE_ROWS_COMPRESSED)
