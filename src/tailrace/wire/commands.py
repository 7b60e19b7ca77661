"""The commands that a replica sends: who it is, and what it wants (facts sheet 4.4).

A command's payload begins with its number; `tailrace.wire.packets.frame` makes a packet of it.
``decode`` takes the whole payload and raises MalformedPacket; ``encode`` raises UsageError for a
value that does not fit. A log file's name ends at a NUL, as for the servers: mysql-replication
sends NULs where it names none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntFlag
from typing import TYPE_CHECKING, Final, Self

from tailrace.errors import GtidError, UsageError
from tailrace.gtid import GtidSet
from tailrace.wire.packets import PacketCursor, name, number

if TYPE_CHECKING:
    from tailrace.wire.packets import Data

LONGEST_NAME: Final = 511
"""Bytes of a log file's name (the servers' FN_REFLEN without the NUL)."""
_TEXT: Final = 255
_DUMP: Final = 0x12
_REGISTER: Final = 0x15
_DUMP_GTID: Final = 0x1E


class DumpFlag(IntFlag):
    """Options of a dump; 2 has one meaning for MySQL and another for MariaDB."""

    NON_BLOCK = 1
    """At the log's end send an EOF packet, and do not wait for more."""
    HEARTBEAT_V2 = 2
    """MySQL: heartbeats of type 41, whose position has 64 bits."""
    ANNOTATE_ROWS = 2
    """MariaDB: send ANNOTATE_ROWS events; else they are left out."""
    SKIP_TAGGED_GTIDS = 4
    """MySQL: this replica does not understand tagged GTIDs."""


@dataclass(frozen=True, slots=True)
class RegisterReplica:
    """COM_REGISTER_SLAVE: what SHOW REPLICAS shows of a replica; the source answers OK.

    ``password`` is what a replica is told to report (``report_password``), never one of ours.
    """

    server_id: int
    host: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    port: int = 0
    rank: int = 0
    source_id: int = 0

    @classmethod
    def decode(cls, payload: Data) -> Self:
        """From a payload."""
        cursor = PacketCursor("COM_REGISTER_SLAVE", bytes(payload))
        cursor.expect(_REGISTER, "the command")
        server_id = cursor.u32("the server id")
        host, user, password = (
            cursor.text(cursor.u8(f"the {what}'s length"), f"the {what}")
            for what in ("host", "user", "password")
        )
        port = cursor.u16("the port")
        rank = cursor.u32("the rank")
        source_id = cursor.u32("the source's id")
        cursor.finish("the source's id")
        return cls(server_id, host, user, password, port, rank, source_id)

    def encode(self) -> bytes:
        """The inverse of `decode`."""
        texts = [
            name(self.host, "the host", _TEXT),
            name(self.user, "the user", _TEXT),
            name(self.password, "the password", _TEXT),
        ]
        return b"".join(
            [
                bytes((_REGISTER,)),
                number(self.server_id, "the server id", 4),
                *(bytes((len(text),)) + text for text in texts),
                number(self.port, "the port", 2),
                number(self.rank, "the rank", 4),
                number(self.source_id, "the source's id", 4),
            ]
        )


@dataclass(frozen=True, slots=True)
class BinlogDump:
    """COM_BINLOG_DUMP: the log from a position (u32). An empty ``file`` is the oldest log."""

    file: str
    position: int
    server_id: int
    flags: int

    @classmethod
    def decode(cls, payload: Data) -> Self:
        """From a payload."""
        cursor = PacketCursor("COM_BINLOG_DUMP", bytes(payload))
        cursor.expect(_DUMP, "the command")
        position = cursor.u32("the position")
        flags = cursor.u16("the flags")
        server_id = cursor.u32("the server id")
        return cls(_file(cursor, cursor.remaining), position, server_id, flags)

    def encode(self) -> bytes:
        """The inverse of `decode`."""
        return b"".join(
            [
                bytes((_DUMP,)),
                number(self.position, "the position", 4),
                number(self.flags, "the flags", 2),
                number(self.server_id, "the server id", 4),
                name(self.file, "the log file's name", LONGEST_NAME),
            ]
        )


@dataclass(frozen=True, slots=True)
class BinlogDumpGtid:
    """COM_BINLOG_DUMP_GTID, MySQL only: all transactions that are not in ``gtids``.

    Without ``file`` the server finds the oldest log that is needed; with it, the server starts in
    that file, at ``position`` (u64).
    """

    gtids: GtidSet
    server_id: int
    flags: int
    file: str = ""
    position: int = 4

    @classmethod
    def decode(cls, payload: Data) -> Self:
        """From a payload."""
        cursor = PacketCursor("COM_BINLOG_DUMP_GTID", bytes(payload))
        cursor.expect(_DUMP_GTID, "the command")
        flags = cursor.u16("the flags")
        server_id = cursor.u32("the server id")
        file = _file(cursor, cursor.u32("the length of the log file's name"))
        position = cursor.u64("the position")
        size = cursor.u32("the length of the GTID set")
        at = cursor.pos
        raw = cursor.take(size, "the GTID set")
        cursor.finish("the GTID set")
        try:
            gtids = GtidSet.decode(raw)
        except GtidError as error:
            cursor.error(at, str(error))
        return cls(gtids, server_id, flags, file, position)

    def encode(self) -> bytes:
        """The inverse of `decode`."""
        if not isinstance(self.gtids, GtidSet):
            raise UsageError(f"gtids is a GtidSet, not {type(self.gtids).__name__}")
        file = name(self.file, "the log file's name", LONGEST_NAME)
        raw = self.gtids.encode()
        return b"".join(
            [
                bytes((_DUMP_GTID,)),
                number(self.flags, "the flags", 2),
                number(self.server_id, "the server id", 4),
                number(len(file), "the length of the log file's name", 4),
                file,
                number(self.position, "the position", 8),
                number(len(raw), "the length of the GTID set", 4),
                raw,
            ]
        )


def _file(cursor: PacketCursor, size: int) -> str:
    at = cursor.pos
    if size > LONGEST_NAME:
        cursor.error(at, f"a log file's name of {size} bytes")
    return cursor.text(size, "the log file's name").partition("\0")[0]
