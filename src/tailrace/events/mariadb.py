"""MariaDB's own events: GTID, GTID_LIST, BINLOG_CHECKPOINT, START_ENCRYPTION (facts sheet 2.8)."""

from __future__ import annotations

from enum import IntFlag
from struct import Struct
from typing import TYPE_CHECKING, Final

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError
from tailrace.events.base import Event, lazy
from tailrace.events.fields import Cursor, text
from tailrace.events.transaction import Xid
from tailrace.gtid import GtidList, MariadbGtid

if TYPE_CHECKING:
    from tailrace.events.context import DecodeContext
    from tailrace.events.header import EventHeader

_FIXED: Final = Struct("<QIB")  # sequence number, domain, flags
_PADDED: Final = 19
_ENTRY: Final = Struct("<IIQ")
_COUNT_BITS: Final = 0x0FFFFFFF


class MariadbGtidFlag(IntFlag):
    """Flags of MariaDB's GTID event."""

    STANDALONE = 0x01
    GROUP_COMMIT_ID = 0x02
    TRANSACTIONAL = 0x04
    ALLOW_PARALLEL = 0x08
    WAITED = 0x10
    DDL = 0x20
    PREPARED_XA = 0x40
    COMPLETED_XA = 0x80


class MariadbGtidExtraFlag(IntFlag):
    """The second flags byte of MariaDB's GTID event."""

    MULTI_ENGINE = 0x01
    START_ALTER = 0x02
    COMMIT_ALTER = 0x04
    ROLLBACK_ALTER = 0x08
    THREAD_ID = 0x10


class MariadbGtidEvent(Event, types=(EventType.MARIADB_GTID,)):
    """GTID (162): a transaction begins (there is no BEGIN), or with `standalone` one statement.

    Optional fields are None where the flags do not announce them.
    """

    __slots__ = (
        "alter_seq_no",
        "commit_id",
        "domain_id",
        "engine_count",
        "flags",
        "flags_extra",
        "seq_no",
        "thread_id",
        "xid",
    )

    FIELDS = (
        "gtid",
        "flags",
        "flags_extra",
        "commit_id",
        "xid",
        "engine_count",
        "alter_seq_no",
        "thread_id",
    )

    seq_no: int
    domain_id: int
    flags: int
    commit_id: int | None
    xid: Xid | None
    flags_extra: int
    engine_count: int | None
    alter_seq_no: int | None
    thread_id: int | None

    def __init__(self, header: EventHeader, body: bytes) -> None:
        super().__init__(header, body)
        self.commit_id = self.xid = None
        self.flags_extra = 0
        self.engine_count = self.alter_seq_no = self.thread_id = None

    def read_body(self, _context: DecodeContext, /) -> None:
        """Layout: sequence number u64, domain u32, flags u8, optional fields, zeros to 19 bytes."""
        if len(self.body) < _FIXED.size:
            raise EventDecodeError(f"{len(self.body)} bytes, the fixed part needs {_FIXED.size}")
        self.seq_no, self.domain_id, self.flags = _FIXED.unpack_from(self.body)
        self._read_optional(Cursor(self.body, _FIXED.size))

    def _read_optional(self, cursor: Cursor) -> None:
        if self.flags & MariadbGtidFlag.GROUP_COMMIT_ID:
            self.commit_id = cursor.u64("the commit id")
        if self.flags & (MariadbGtidFlag.PREPARED_XA | MariadbGtidFlag.COMPLETED_XA):
            format_id = cursor.i32("the format id")
            gtrid_length = cursor.u8("the XA name's length")
            bqual_length = cursor.u8("the branch's length")
            self.xid = Xid.of(format_id, gtrid_length, bqual_length, cursor)
        if cursor.remaining:
            self.flags_extra = cursor.u8("the extra flags")
        if self.flags_extra & MariadbGtidExtraFlag.MULTI_ENGINE:
            self.engine_count = cursor.u8("the number of engines")
        if self.flags_extra & (
            MariadbGtidExtraFlag.COMMIT_ALTER | MariadbGtidExtraFlag.ROLLBACK_ALTER
        ):
            self.alter_seq_no = cursor.u64("the ALTER's sequence number")
        if self.flags_extra & MariadbGtidExtraFlag.THREAD_ID:
            self.thread_id = cursor.u32("the thread id")
        if cursor.end <= _PADDED and not any(cursor.buf[cursor.pos :]):
            return
        cursor.finish("GTID")

    @property
    def standalone(self) -> bool:
        """Whether the group is one statement, with no COMMIT behind it."""
        return bool(self.flags & MariadbGtidFlag.STANDALONE)

    @property
    def gtid(self) -> MariadbGtid:
        """The transaction's GTID; its server is the header's."""
        return MariadbGtid(self.domain_id, self.header.server_id, self.seq_no)


class GtidListEvent(Event, types=(EventType.GTID_LIST,)):
    """GTID_LIST (163): the replication state at the start of the file.

    An empty one has two zero bytes behind its count (seen with 10.11 and 11.8).
    """

    __slots__ = ("flags",)

    FIELDS = ("gtids", "flags")

    flags: int

    def read_body(self, _context: DecodeContext, /) -> None:
        """Layout: count u32 (flags in the upper 4 bits), entries of 16 bytes."""
        number = Cursor(self.body).u32("the number of GTIDs")
        count = number & _COUNT_BITS
        self.flags = number >> 28
        if len(self.body) - 4 != count * _ENTRY.size and (count or self.body[4:] != b"\0\0"):
            raise EventDecodeError(f"{count} GTIDs in {len(self.body) - 4} bytes")

    @lazy
    def gtids(self) -> GtidList:
        """The state; the last entry of each domain is its most recent GTID."""
        end = 4 + (len(self.body) - 4) // _ENTRY.size * _ENTRY.size
        entries = _ENTRY.iter_unpack(memoryview(self.body)[4:end])
        return GtidList(MariadbGtid(*entry) for entry in entries)


class BinlogCheckpointEvent(Event, types=(EventType.BINLOG_CHECKPOINT,)):
    """BINLOG_CHECKPOINT (161): the oldest log that a crash recovery needs."""

    __slots__ = ("log_file",)

    FIELDS = ("log_file",)

    log_file: str

    def read_body(self, _context: DecodeContext, /) -> None:
        """Layout: the file's name behind its length u32."""
        cursor = Cursor(self.body)
        name = cursor.take(cursor.u32("the name's length"), "the file name")
        self.log_file = text(name, "the file name")
        cursor.finish("BINLOG_CHECKPOINT")


class StartEncryptionEvent(Event, types=(EventType.START_ENCRYPTION,)):
    """START_ENCRYPTION (164): in a file, what follows is encrypted; in a stream it is clear."""

    __slots__ = ("key_version", "nonce", "scheme")

    FIELDS = ("scheme", "key_version", "nonce")

    scheme: int
    key_version: int
    nonce: bytes

    def read_body(self, _context: DecodeContext, /) -> None:
        """Layout: scheme u8, key version u32, nonce of 12 bytes."""
        cursor = Cursor(self.body)
        self.scheme = cursor.u8("the scheme")
        self.key_version = cursor.u32("the key version")
        self.nonce = cursor.take(12, "the nonce")
        cursor.finish("START_ENCRYPTION")
