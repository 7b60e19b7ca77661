"""The events of a binary log, both flavours: bytes in, objects out. No file, no socket."""

from tailrace.constants import event_name
from tailrace.events.base import REGISTRY, Event, Unknown
from tailrace.events.column_metadata import ColumnSpec
from tailrace.events.context import DecodeContext
from tailrace.events.control import IncidentEvent, RotateEvent, StopEvent
from tailrace.events.description import NO_FORMAT, FormatDescription
from tailrace.events.format_description import FormatDescriptionEvent
from tailrace.events.group_replication import TransactionContextEvent, ViewChangeEvent
from tailrace.events.gtids import GtidEvent, PreviousGtidsEvent
from tailrace.events.header import EventHeader
from tailrace.events.heartbeat import HeartbeatEvent
from tailrace.events.layout import REQUIRED
from tailrace.events.load import DeleteFileEvent, ExecuteLoadQueryEvent, LoadBlockEvent
from tailrace.events.mariadb import (
    BinlogCheckpointEvent,
    GtidListEvent,
    MariadbGtidEvent,
    StartEncryptionEvent,
)
from tailrace.events.opaque import (
    IgnorableEvent,
    ObsoleteEvent,
    OpaqueEvent,
    RawEvent,
    UnknownIgnorableEvent,
)
from tailrace.events.payload import TransactionPayloadEvent
from tailrace.events.query import QueryCompressedEvent, QueryEvent
from tailrace.events.rows import (
    DeleteRowsEvent,
    PartialUpdateRowsEvent,
    RowsEvent,
    RowsExtra,
    UpdateRowsEvent,
    WriteRowsEvent,
)
from tailrace.events.rows_query import AnnotateRowsEvent, RowsQueryEvent
from tailrace.events.status_vars import StatusVariable, StatusVariables
from tailrace.events.table_map import TableLayout, TableMapEvent
from tailrace.events.transaction import (
    LargeTransactionHeaderEvent,
    XaName,
    XaPrepareEvent,
    XidEvent,
)
from tailrace.events.unreadable_rows import PartialRowDataEvent, PreGaRowsEvent
from tailrace.events.variables import IntVarEvent, RandEvent, UserVarEvent

__all__ = [
    "NO_FORMAT",
    "REGISTRY",
    "REQUIRED",
    "AnnotateRowsEvent",
    "BinlogCheckpointEvent",
    "ColumnSpec",
    "DecodeContext",
    "DeleteFileEvent",
    "DeleteRowsEvent",
    "Event",
    "EventHeader",
    "ExecuteLoadQueryEvent",
    "FormatDescription",
    "FormatDescriptionEvent",
    "GtidEvent",
    "GtidListEvent",
    "HeartbeatEvent",
    "IgnorableEvent",
    "IncidentEvent",
    "IntVarEvent",
    "LargeTransactionHeaderEvent",
    "LoadBlockEvent",
    "MariadbGtidEvent",
    "ObsoleteEvent",
    "OpaqueEvent",
    "PartialRowDataEvent",
    "PartialUpdateRowsEvent",
    "PreGaRowsEvent",
    "PreviousGtidsEvent",
    "QueryCompressedEvent",
    "QueryEvent",
    "RandEvent",
    "RawEvent",
    "RotateEvent",
    "RowsEvent",
    "RowsExtra",
    "RowsQueryEvent",
    "StartEncryptionEvent",
    "StatusVariable",
    "StatusVariables",
    "StopEvent",
    "TableLayout",
    "TableMapEvent",
    "TransactionContextEvent",
    "TransactionPayloadEvent",
    "Unknown",
    "UnknownIgnorableEvent",
    "UpdateRowsEvent",
    "UserVarEvent",
    "ViewChangeEvent",
    "WriteRowsEvent",
    "XaName",
    "XaPrepareEvent",
    "XidEvent",
    "event_name",
]
