"""Events about the log itself, and the texts that come with rows.

ROTATE, STOP, INCIDENT, the heartbeats, IGNORABLE, ROWS_QUERY, ANNOTATE_ROWS (facts sheet 2.1).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from tailrace.constants import CHECKSUM_SIZE, EventFlag, EventType, Flavour
from tailrace.errors import EventDecodeError
from tailrace.events.base import Event
from tailrace.events.fields import Cursor, text

if TYPE_CHECKING:
    from tailrace.events.context import DecodeContext

_U64: Final = Struct("<Q")
_HEARTBEAT_END, _HEARTBEAT_FILE, _HEARTBEAT_POSITION = range(3)


class RotateEvent(Event, types=(EventType.ROTATE,)):
    """ROTATE (4): the log goes on in ``next_file`` at ``next_offset``.

    Artificial ones (`artificial`) are sent at the start of a stream and in relay logs; only a
    real one ends a file.
    """

    __slots__ = ("next_file", "next_offset")

    FIELDS = ("next_file", "next_offset", "artificial")
    CHANGES_CONTEXT = True

    next_file: str
    next_offset: int

    def read_body(self, context: DecodeContext, /) -> None:
        """Layout: offset u64, file name to the end."""
        name_at = _U64.size + context.extra_post_header(EventType.ROTATE)
        if len(self.body) <= name_at:
            raise EventDecodeError(f"{len(self.body)} bytes hold no file name")
        self.next_offset = _U64.unpack_from(self.body)[0]
        self.next_file = text(self.body[name_at:], "the file name")

    @property
    def artificial(self) -> bool:
        """Whether it stands in no file."""
        return bool(self.header.flags & EventFlag.ARTIFICIAL)

    def update(self, context: DecodeContext) -> None:
        """No table map outlives the file."""
        if not self.artificial:
            context.table_maps.clear()


class StopEvent(Event, types=(EventType.STOP,)):
    """STOP (3): the server was shut down cleanly."""

    __slots__ = ()

    def read_body(self, _context: DecodeContext, /) -> None:
        """Layout: nothing."""
        Cursor(self.body).finish("STOP")


class IncidentEvent(Event, types=(EventType.INCIDENT,)):
    """INCIDENT (26): something is missing from the log; 1 is LOST_EVENTS.

    MySQL 9.7 leaves four bytes between the message and the checksum (tests/corpus).
    """

    __slots__ = ("incident", "message")

    FIELDS = ("incident", "message")

    incident: int
    message: str

    def read_body(self, context: DecodeContext, /) -> None:
        """Layout: number u16, message behind its length u8."""
        cursor = Cursor(self.body)
        self.incident = cursor.u16("the incident's number")
        cursor.skip(context.extra_post_header(EventType.INCIDENT), "the post-header")
        length = cursor.u8("the message's length")
        self.message = cursor.take(length, "the message").decode(errors="backslashreplace")
        if cursor.remaining != CHECKSUM_SIZE:
            cursor.finish("INCIDENT")


class HeartbeatEvent(Event, types=(EventType.HEARTBEAT, EventType.HEARTBEAT_V2)):
    """HEARTBEAT (27) and HEARTBEAT_V2 (41): the source lives, and stands at this position.

    Only on the wire. ``log_offset`` is in bytes.
    """

    __slots__ = ("log_file", "log_offset")

    FIELDS = ("log_file", "log_offset")

    log_file: str
    log_offset: int

    def read_body(self, context: DecodeContext, /) -> None:
        """27: the file name, the offset is the header's; 41: fields behind type and length."""
        if self.header.type == EventType.HEARTBEAT_V2:
            self.log_file, self.log_offset = _heartbeat_fields(Cursor(self.body))
            return
        self.log_offset = self.header.log_pos
        name = self.body
        if (
            self.header.log_pos == 0
            and context.flavour is Flavour.MARIADB
            and len(self.body) > _U64.size
        ):
            self.log_offset = _U64.unpack_from(self.body)[0]  # MariaDB past 4 GiB
            name = self.body[_U64.size :]
        self.log_file = text(name, "the file name")


def _heartbeat_fields(cursor: Cursor) -> tuple[str, int]:
    file, offset = "", 0
    while (kind := cursor.lenenc("a field's type")) != _HEARTBEAT_END:
        value = cursor.lenenc_bytes("a field")
        if kind == _HEARTBEAT_FILE:
            file = text(value, "the file name")
        elif kind == _HEARTBEAT_POSITION:
            offset = Cursor(value).lenenc("the position")
    cursor.finish("HEARTBEAT_V2")
    return file, offset


class IgnorableEvent(Event, types=(EventType.IGNORABLE,)):
    """IGNORABLE (28): says nothing; the base of the types that may be ignored."""

    __slots__ = ()


class RowsQueryEvent(Event, types=(EventType.ROWS_QUERY,)):
    """ROWS_QUERY (29): the statement whose rows follow. Its bytes are those the client sent."""

    __slots__ = ()

    FIELDS = ("sql",)

    def read_body(self, _context: DecodeContext, /) -> None:
        """Layout: length u8 (modulo 256, so of no use), SQL to the end."""
        if not self.body:
            raise EventDecodeError("no byte holds the statement's length")

    @property
    def sql_bytes(self) -> bytes:
        """The statement's bytes."""
        return self.body[1:]

    @property
    def sql(self) -> str:
        """The statement, read as UTF-8; bytes that are not are shown in hex."""
        return self.sql_bytes.decode(errors="backslashreplace")


class AnnotateRowsEvent(Event, types=(EventType.ANNOTATE_ROWS,)):
    """ANNOTATE_ROWS (160), MariaDB: the statement whose rows follow."""

    __slots__ = ()

    FIELDS = ("sql",)

    @property
    def sql_bytes(self) -> bytes:
        """The statement's bytes."""
        return self.body

    @property
    def sql(self) -> str:
        """The statement, read as UTF-8; bytes that are not are shown in hex."""
        return self.body.decode(errors="backslashreplace")
