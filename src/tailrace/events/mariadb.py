"""MariaDB's own events: GTID, GTID_LIST, BINLOG_CHECKPOINT, START_ENCRYPTION (facts sheet 2.8)."""

from __future__ import annotations

from enum import IntFlag
from itertools import starmap
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError, EventEncodeError
from tailrace.events.base import REQUIRED, Event, lazy
from tailrace.events.build import Builder, integer, made, utf8
from tailrace.events.fields import Cursor, text
from tailrace.events.transaction import Xid
from tailrace.gtid import GtidList, MariadbGtid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.events.description import FormatDescription

_FIXED: Final = Struct("<QIB")  # sequence number, domain, flags
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


class MariadbGtidEvent(Event, types=(EventType.MARIADB_GTID,)):
    """GTID (162): a transaction begins (there is no BEGIN), or with `standalone` one statement.

    Optional fields are None if the flags do not announce them. For `make`, ``server_id`` is the
    GTID's, and an optional field sets its flag (but for the name of an XA transaction one of its
    two
    flags must be given, and likewise for an ALTER's number).
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
    MADE_OF: ClassVar[Mapping[str, Any]] = {
        "seq_no": REQUIRED,
        "domain_id": 0,
        "event_flags": 0,
        "flags_extra": 0,
        "commit_id": None,
        "xid": None,
        "engine_count": None,
        "alter_seq_no": None,
        "thread_id": None,
    }
    MADE_FROM: ClassVar[Mapping[str, str]] = {"event_flags": "flags"}

    seq_no: int
    domain_id: int
    flags: int
    commit_id: int | None
    xid: Xid | None
    flags_extra: int
    engine_count: int | None
    alter_seq_no: int | None
    thread_id: int | None

    def read_body(self, _form: FormatDescription, /) -> None:
        """Layout: sequence number u64, domain u32, flags u8, optional fields, zeros to 19 bytes.

        The zeros may run to some 4 KB if a large transaction's cache became the log file (MariaDB
        11.7
        and later, ``binlog_large_commit_threshold``).
        """
        self.commit_id = self.xid = None
        self.flags_extra = 0
        self.engine_count = self.alter_seq_no = self.thread_id = None
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
        if any(cursor.buf[cursor.pos : cursor.end]):
            cursor.finish("GTID")

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        flags = integer(self.flags, "event_flags", 0, 0xFF)
        extra = integer(self.flags_extra, "flags_extra", 0, 0xFF)
        flags = _announced(flags, "event_flags", self.commit_id, _F.GROUP_COMMIT_ID, "commit_id")
        _need(flags & (_F.PREPARED_XA | _F.COMPLETED_XA), "event_flags", self.xid, "xid")
        extra = _announced(extra, "flags_extra", self.engine_count, _X.MULTI_ENGINE, "engine_count")
        alter = extra & (_X.COMMIT_ALTER | _X.ROLLBACK_ALTER)
        _need(alter, "flags_extra", self.alter_seq_no, "alter_seq_no")
        extra = _announced(extra, "flags_extra", self.thread_id, _X.THREAD_ID, "thread_id")
        out = Builder()
        out.u64(self.seq_no, "seq_no")
        out.u32(self.domain_id, "domain_id")
        out.u8(flags, "event_flags")
        if self.commit_id is not None:
            out.u64(self.commit_id, "commit_id")
        if self.xid is not None:
            made(self.xid, Xid, "xid").write(out, 1, "xid")
        if extra:
            out.u8(extra, "flags_extra")
        if self.engine_count is not None:
            out.u8(self.engine_count, "engine_count")
        if self.alter_seq_no is not None:
            out.u64(self.alter_seq_no, "alter_seq_no")
        if self.thread_id is not None:
            out.u32(self.thread_id, "thread_id")
        return out.done().ljust(_PADDED, b"\0")

    @property
    def standalone(self) -> bool:
        """Whether the group is one statement, without a COMMIT after it."""
        return bool(self.flags & MariadbGtidFlag.STANDALONE)

    @property
    def gtid(self) -> MariadbGtid:
        """The transaction's GTID; its server is the header's."""
        return MariadbGtid(self.domain_id, self.header.server_id, self.seq_no)


_F: Final = MariadbGtidFlag
_X: Final = MariadbGtidExtraFlag


def _announced(flags: int, where: str, value: Any, flag: int, what: str) -> int:
    """The flags, with the one that announces an optional field."""
    if flags & flag and value is None:
        raise EventEncodeError(f"{what}: it is missing, but {where} announce it")
    return flags if value is None else flags | flag


def _need(flag: int, where: str, value: Any, what: str) -> None:
    """Raise an error if the field and the flags that announce it do not match."""
    if bool(flag) != (value is not None):
        way = "announce it, but it is missing" if flag else "do not announce it"
        raise EventEncodeError(f"{what}: {where} {way}")


class GtidListEvent(Event, types=(EventType.GTID_LIST,)):
    """GTID_LIST (163): the replication state at the start of the file.

    An empty one has two zero bytes after its count (seen with 10.11 and 11.8). ``gtids`` may be
    a list or any GTIDs; they are written in the order given.
    """

    __slots__ = ("flags",)

    FIELDS = ("gtids", "flags")
    MADE_OF: ClassVar[Mapping[str, Any]] = {"gtids": REQUIRED, "event_flags": 0}
    MADE_FROM: ClassVar[Mapping[str, str]] = {"gtids": "entries", "event_flags": "flags"}

    flags: int

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
        out.u32(integer(self.flags, "event_flags", 0, 0xF) << 28 | count, "gtids")
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

    __slots__ = ("log_file",)

    FIELDS = ("log_file",)
    MADE_OF: ClassVar[Mapping[str, Any]] = {"log_file": REQUIRED}

    log_file: str

    def read_body(self, _form: FormatDescription, /) -> None:
        """Layout: length u32 and the file's name."""
        cursor = Cursor(self.body)
        name = cursor.take(cursor.u32("the name's length"), "the file name")
        self.log_file = text(name, "the file name")
        cursor.finish("BINLOG_CHECKPOINT")

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        out = Builder()
        name = utf8(self.log_file, "log_file", _LONGEST_FILE)
        out.u32(len(name), "log_file")
        out.raw(name, "log_file")
        return out.done()


class StartEncryptionEvent(Event, types=(EventType.START_ENCRYPTION,)):
    """START_ENCRYPTION (164): in a file, all after it is encrypted; in a stream it is plain."""

    __slots__ = ("key_version", "nonce", "scheme")

    FIELDS = ("scheme", "key_version", "nonce")
    MADE_OF: ClassVar[Mapping[str, Any]] = {
        "scheme": 1,
        "key_version": REQUIRED,
        "nonce": REQUIRED,
    }

    scheme: int
    key_version: int
    nonce: bytes

    def read_body(self, _form: FormatDescription, /) -> None:
        """Layout: scheme u8, key version u32, nonce of 12 bytes."""
        cursor = Cursor(self.body)
        self.scheme = cursor.u8("the scheme")
        self.key_version = cursor.u32("the key version")
        self.nonce = cursor.take(12, "the nonce")
        cursor.finish("START_ENCRYPTION")

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        out = Builder()
        out.u8(self.scheme, "scheme")
        out.u32(self.key_version, "key_version")
        out.raw(self.nonce, "nonce", 12)
        return out.done()
