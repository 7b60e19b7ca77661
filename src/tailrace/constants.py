"""Numbers of the formats: event types, column types, flags, flavours.

Source: MySQL ``libs/mysql/binlog/event``, MariaDB ``sql/log_event.h``; facts sheet 1 and 3.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag, StrEnum
from typing import Final

COPY_STATE: Final = "receiver.json"
"""The file in which a receiver notes the state of a copy, in its folder."""
MAGIC: Final = b"\xfebin"
ENCRYPTED_MAGIC: Final = b"\xfdbin"
HEADER_SIZE: Final = 19
TYPE_AT: Final = 4
"""Offset of an event's type in its header."""
LOG_POS_AT: Final = 13
"""Offset in an event's header of where the event ends in its file: four bytes."""
FLAGS_AT: Final = 17
"""Offset of the flags in an event's header; IN_USE and RELAY_LOG are in their first byte."""
FILE_FLAGS_AT: Final = len(MAGIC) + FLAGS_AT
"""Offset of the flags in a log file: those of its first event."""
CHECKSUM_SIZE: Final = 4
MAX_FORMAT_SIZE: Final = 1 << 16
"""No format description event has more bytes."""
MAX_EVENT_SIZE: Final = 1 << 30
"""Largest event either server writes or accepts, in bytes."""
LARGE: Final = 1 << 20
"""Events and values of more bytes are not copied, and their text is made in pieces."""


class Flavour(StrEnum):
    """The server family that wrote a log."""

    MYSQL = "mysql"
    MARIADB = "mariadb"

    @classmethod
    def _missing_(cls, value: object) -> Flavour | None:
        """Names in any case are flavours, too."""
        lower = value.lower() if isinstance(value, str) else ""
        return next((each for each in cls if each.value == lower), None)


class ChecksumAlgorithm(IntEnum):
    """The format description event's checksum byte."""

    NONE = 0
    CRC32 = 1
    UNDEFINED = 255

    @property
    def size(self) -> int:
        """Bytes of an event's checksum."""
        return CHECKSUM_SIZE if self is ChecksumAlgorithm.CRC32 else 0


class EventFlag(IntFlag):
    """Flags of the common header."""

    IN_USE = 0x0001
    FORCED_ROTATE = 0x0002
    THREAD_SPECIFIC = 0x0004
    SUPPRESS_USE = 0x0008
    ARTIFICIAL = 0x0020
    RELAY_LOG = 0x0040
    IGNORABLE = 0x0080
    NO_FILTER = 0x0100
    MTS_ISOLATE = 0x0200
    ACCEPT_OWN = 0x4000
    SKIP_REPLICATION = 0x8000


class EventType(IntEnum):
    """Event type codes of both flavours (they do not collide)."""

    UNKNOWN = 0
    START_V3 = 1
    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    LOAD = 6
    SLAVE = 7
    CREATE_FILE = 8
    APPEND_BLOCK = 9
    EXEC_LOAD = 10
    DELETE_FILE = 11
    NEW_LOAD = 12
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    PRE_GA_WRITE_ROWS = 20
    PRE_GA_UPDATE_ROWS = 21
    PRE_GA_DELETE_ROWS = 22
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    LARGE_TRANSACTION_HEADER = 43
    ANNOTATE_ROWS = 160
    BINLOG_CHECKPOINT = 161
    MARIADB_GTID = 162
    GTID_LIST = 163
    START_ENCRYPTION = 164
    QUERY_COMPRESSED = 165
    WRITE_ROWS_COMPRESSED_V1 = 166
    UPDATE_ROWS_COMPRESSED_V1 = 167
    DELETE_ROWS_COMPRESSED_V1 = 168
    WRITE_ROWS_COMPRESSED = 169
    UPDATE_ROWS_COMPRESSED = 170
    DELETE_ROWS_COMPRESSED = 171
    PARTIAL_ROW_DATA = 172


GTID_TYPES: Final = frozenset(
    {
        EventType.GTID,
        EventType.ANONYMOUS_GTID,
        EventType.GTID_TAGGED,
        EventType.MARIADB_GTID,
    }
)
"""The event types that begin a transaction."""
_NAMES: Final = {int(code): code.name for code in EventType}


def event_name(code: int) -> str:
    """An event type's name, ``UNKNOWN_77`` for a code that has none."""
    return _NAMES.get(code) or f"UNKNOWN_{code}"


class RowsFlag(IntFlag):
    """Flags of a rows event."""

    STMT_END = 0x0001
    NO_FOREIGN_KEY_CHECKS = 0x0002
    RELAXED_UNIQUE_CHECKS = 0x0004
    COMPLETE_ROWS = 0x0008
    USE_SQL_FOREIGN_KEY = 0x0010
    NO_CHECK_CONSTRAINTS = 0x0080


class QueryFlag(IntFlag):
    """Flags of a statement: the bits of its status variable FLAGS2. MySQL has only
    AUTO_IS_NULL and the two about keys.
    """

    AUTO_IS_NULL = 0x4000
    NO_CHECK_CONSTRAINTS = 0x8000
    EXPLICIT_DEFAULTS_FOR_TIMESTAMP = 0x1000000
    NO_FOREIGN_KEY_CHECKS = 0x4000000
    RELAXED_UNIQUE_CHECKS = 0x8000000
    IF_EXISTS = 0x10000000
    INSERT_HISTORY = 0x40000000


class JsonType(IntEnum):
    """Types of values in MySQL's binary JSON (facts sheet 3.2)."""

    OBJECT = 0
    LARGE_OBJECT = 1
    ARRAY = 2
    LARGE_ARRAY = 3
    LITERAL = 4
    INT16 = 5
    UINT16 = 6
    INT32 = 7
    UINT32 = 8
    INT64 = 9
    UINT64 = 10
    DOUBLE = 11
    STRING = 12
    OPAQUE = 15


class ColumnType(IntEnum):
    """Column type codes of a table map."""

    DECIMAL = 0
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    TYPED_ARRAY = 20
    BLOB_COMPRESSED = 140
    VARCHAR_COMPRESSED = 141
    VECTOR = 242
    INVALID = 243
    BOOL = 244
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255
