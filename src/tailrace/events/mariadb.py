"""MariaDB's own events: GTID, GTID_LIST, BINLOG_CHECKPOINT, START_ENCRYPTION (facts sheet 2.8)."""

from __future__ import annotations

from enum import IntFlag
from itertools import starmap
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError, EventEncodeError
from tailrace.events.base import Event, lazy
from tailrace.events.fields import Builder, Cursor, integer, made
from tailrace.events.layout import (
    REQUIRED,
    U8,
    U32,
    U64,
    Bytes,
    Field,
    Text,
    field,
    flagged,
)
from tailrace.events.transaction import XaName, XaNameCodec
from tailrace.gtid import GtidList, MariadbGtid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.events.description import FormatDescription

_PADDED: Final = 19
_ENTRY: Final = Struct("<IIQ")
_COUNT_BITS: Final = 0x0FFFFFFF
_LONGEST_FILE: Final = 511  # the server's FN_REFLEN, without its zero byte


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


_F: Final = MariadbGtidFlag
_STANDALONE: Final = int(MariadbGtidFlag.STANDALONE)  # `&` of a flag's own class is slow
_X: Final = MariadbGtidExtraFlag


class _ExtraFlags:
    """A byte of flags, which is only there if there are any."""

    def read(self, cursor: Cursor, what: str) -> int:
        return cursor.u8(what) if cursor.remaining else 0

    def write(self, out: Builder, value: int, what: str) -> None:
        if integer(value, what, 0, 0xFF):
            out.u8(value, what)


class _PaddingField(Field):
    """Zeros to 19 bytes.

    They may run to some 4 KB if a large transaction's cache became the log file (MariaDB 11.7 and
    later, ``binlog_large_commit_threshold``).
    """

    __slots__ = ()

    def read(self, _event: MariadbGtidEvent, cursor: Cursor) -> None:
        if any(cursor.buf[cursor.pos : cursor.end]):
            cursor.finish("GTID")
        cursor.pos = cursor.end

    def write(self, _event: MariadbGtidEvent, out: Builder) -> None:
        out.zeros(max(0, _PADDED - len(out)))


class MariadbGtidEvent(Event, types=(EventType.MARIADB_GTID,)):
    """GTID (162): a transaction begins (there is no BEGIN), or with `standalone` one statement.

    Optional fields are None if the flags do not announce them. For `make`, ``server_id`` is the
    GTID's, and an optional field sets its flag (but for the name of an XA transaction one of its
    two flags must be given, and likewise for an ALTER's number).
    """

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
    FIXED_PART = 13

    seq_no: int = field(U64, "the sequence number")
    domain_id: int = field(U32, "the domain", default=0)
    flags: int = field(U8, "the flags", default=0)
    commit_id: int | None = flagged(U64, "the commit id", "flags", _F.GROUP_COMMIT_ID)
    xid: XaName | None = flagged(
        XaNameCodec(1), "the XA name", "flags", _F.PREPARED_XA | _F.COMPLETED_XA
    )
    flags_extra: int = field(_ExtraFlags(), "the extra flags", default=0)
    engine_count: int | None = flagged(U8, "the number of engines", "flags_extra", _X.MULTI_ENGINE)
    alter_seq_no: int | None = flagged(
        U64, "the ALTER's sequence number", "flags_extra", _X.COMMIT_ALTER | _X.ROLLBACK_ALTER
    )
    thread_id: int | None = flagged(U32, "the thread id", "flags_extra", _X.THREAD_ID)
    _padding: None = cast("Any", _PaddingField(None, "", shown=False, made=False))

    @property
    def standalone(self) -> bool:
        """Whether the group is one statement, without a COMMIT after it."""
        return bool(self.flags & _STANDALONE)

    @property
    def gtid(self) -> MariadbGtid:
        """The transaction's GTID; its server is the header's."""
        return MariadbGtid(self.domain_id, self.header.server_id, self.seq_no)


class GtidListEvent(Event, types=(EventType.GTID_LIST,)):
    """GTID_LIST (163): the replication state at the start of the file.

    An empty one has two zero bytes after its count (seen with 10.11 and 11.8). ``gtids`` may be
    a list or any GTIDs; they are written in the order given.
    """

    FIELDS = ("gtids", "flags")
    MADE_OF: ClassVar[Mapping[str, Any]] = {"gtids": REQUIRED, "flags": 0}
    MADE_FROM: ClassVar[Mapping[str, str]] = {"gtids": "entries"}

    flags: int = field(default=0)

    def read_body(self, _form: FormatDescription, /) -> None:
        """Layout: count u32 (flags in the upper 4 bits), entries of 16 bytes."""
        number = Cursor(self.body).u32("the number of GTIDs")
        count = number & _COUNT_BITS
        self.flags = number >> 28
        if len(self.body) - 4 != count * _ENTRY.size and (count or self.body[4:] != b"\0\0"):
            raise EventDecodeError(f"{count} GTIDs in {len(self.body) - 4} bytes")

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        entries = self.entries
        if not isinstance(entries, (GtidList, list, tuple)):
            raise EventEncodeError(f"gtids: {entries!r} is no list of GTIDs")
        count = integer(len(entries), "gtids", 0, _COUNT_BITS)
        out = Builder()
        out.u32(integer(self.flags, "flags", 0, 0xF) << 28 | count, "gtids")
        for each in entries:
            gtid = made(each, MariadbGtid, "gtids")
            out.u32(gtid.domain_id, "gtids")
            out.u32(gtid.server_id, "gtids")
            out.u64(gtid.seq_no, "gtids")
        if not count:
            out.zeros(2)
        return out.done()

    @lazy
    def entries(self) -> tuple[MariadbGtid, ...]:
        """The GTIDs in the order of the event."""
        end = 4 + (len(self.body) - 4) // _ENTRY.size * _ENTRY.size
        return tuple(starmap(MariadbGtid, _ENTRY.iter_unpack(memoryview(self.body)[4:end])))

    @lazy
    def gtids(self) -> GtidList:
        """The state; the last entry of each domain is its most recent GTID."""
        return GtidList(self.entries)


class BinlogCheckpointEvent(Event, types=(EventType.BINLOG_CHECKPOINT,)):
    """BINLOG_CHECKPOINT (161): the oldest log that a crash recovery needs."""

    log_file: str = field(Text(U32, "the name's length", _LONGEST_FILE), "the file name")


class StartEncryptionEvent(Event, types=(EventType.START_ENCRYPTION,)):
    """START_ENCRYPTION (164): in a file, all after it is encrypted; in a stream it is plain."""

    scheme: int = field(U8, "the scheme", default=1)
    key_version: int = field(U32, "the key version")
    nonce: bytes = field(Bytes(12), "the nonce")
