"""Events about the log itself, and the texts that come with rows.

ROTATE, STOP, INCIDENT, IGNORABLE, ROWS_QUERY, ANNOTATE_ROWS (facts sheet 2.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from tailrace.constants import CHECKSUM_SIZE, EventFlag, EventType
from tailrace.errors import EventDecodeError, EventEncodeError
from tailrace.events.base import REQUIRED, Event
from tailrace.events.build import Builder, binary, statement, utf8
from tailrace.events.fields import Cursor, text
from tailrace.events.fixed_part import FixedPartEvent
from tailrace.events.unknown import RawEvent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.events.description import FormatDescription

_LONGEST_FILE: Final = 511  # the servers' FN_REFLEN, without its zero byte


def _file_name(value: str, what: str) -> bytes:
    raw = utf8(value, what, _LONGEST_FILE)
    if not raw:
        raise EventEncodeError(f"{what}: a log has a name")
    return raw


class RotateEvent(FixedPartEvent, types=(EventType.ROTATE,)):
    """ROTATE (4): the log continues in ``next_file`` at ``next_offset``.

    Artificial ones (`artificial`) are sent at the start of a stream and in relay logs; only a
    real one ends a file. A statement may continue after it (relay logs), so its table maps stay.
    """

    __slots__ = ("next_file", "next_offset")

    FIELDS = ("next_file", "next_offset", "artificial")
    MADE_OF: ClassVar[Mapping[str, Any]] = {
        **FixedPartEvent.MADE_OF,
        "next_file": REQUIRED,
        "next_offset": 4,
    }

    next_file: str
    next_offset: int

    def read_body(self, form: FormatDescription, /) -> None:
        """Layout: offset u64, file name to the end."""
        cursor = Cursor(self.body)
        self.next_offset = cursor.u64("the offset")
        self._read_rest(cursor, form)
        if not cursor.remaining:
            raise EventDecodeError(f"{len(self.body)} bytes hold no file name")
        self.next_file = text(cursor.rest(), "the file name")

    def write_body(self, form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        out = Builder()
        out.u64(self.next_offset, "next_offset")
        self._write_rest(out, form)
        out.raw(_file_name(self.next_file, "next_file"), "next_file")
        return out.done()

    @property
    def artificial(self) -> bool:
        """Whether the event is in no file."""
        return bool(self.header.flags & EventFlag.ARTIFICIAL)


class StopEvent(Event, types=(EventType.STOP,)):
    """STOP (3): the server was shut down cleanly."""

    __slots__ = ()

    def read_body(self, _form: FormatDescription, /) -> None:
        """Layout: nothing."""
        Cursor(self.body).finish("STOP")

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """Nothing."""
        return b""


class IncidentEvent(FixedPartEvent, types=(EventType.INCIDENT,)):
    """INCIDENT (26): something is missing from the log; 1 is LOST_EVENTS.

    MySQL 9.7 leaves four bytes between the message and the checksum (tests/corpus): ``trailing``.
    """

    __slots__ = ("incident", "message_bytes", "trailing")

    FIELDS = ("incident", "message")
    MADE_OF: ClassVar[Mapping[str, Any]] = {
        **FixedPartEvent.MADE_OF,
        "incident": 1,
        "message": "",
        "trailing": b"",
    }
    MADE_FROM: ClassVar[Mapping[str, str]] = {"message": "message_bytes"}

    incident: int
    message_bytes: bytes
    trailing: bytes

    def read_body(self, form: FormatDescription, /) -> None:
        """Layout: number u16, length u8 and message."""
        cursor = Cursor(self.body)
        self.incident = cursor.u16("the incident's number")
        self._read_rest(cursor, form)
        length = cursor.u8("the message's length")
        self.message_bytes = cursor.take(length, "the message")
        if cursor.remaining != CHECKSUM_SIZE:
            cursor.finish("INCIDENT")
        self.trailing = cursor.rest()

    def write_body(self, form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        message = statement(self.message_bytes, "message", 0xFF)
        trailing = binary(self.trailing, "trailing")
        if len(trailing) not in {0, CHECKSUM_SIZE}:
            raise EventEncodeError(f"trailing: {len(trailing)} bytes, none or 4 may follow")
        out = Builder()
        out.u16(self.incident, "incident")
        self._write_rest(out, form)
        out.u8(len(message), "message")
        out.raw(message + trailing, "message")
        return out.done()

    @property
    def message(self) -> str:
        """What happened, read as UTF-8; invalid bytes are shown in hex."""
        return self.message_bytes.decode(errors="backslashreplace")


class IgnorableEvent(RawEvent, types=(EventType.IGNORABLE,)):
    """IGNORABLE (28): has no meaning; ``data`` is its body."""

    __slots__ = ()

    FIELDS = ()


class RowsQueryEvent(Event, types=(EventType.ROWS_QUERY,)):
    """ROWS_QUERY (29): the statement whose rows follow, in the bytes that the client sent.

    ``length_byte`` is the byte before it, if that is not the statement's length modulo 256
    (else None); no reader uses it.
    """

    __slots__ = ("length_byte",)

    FIELDS = ("sql",)
    MADE_OF: ClassVar[Mapping[str, Any]] = {"sql": REQUIRED, "length_byte": None}
    MADE_FROM: ClassVar[Mapping[str, str]] = {"sql": "sql_bytes"}

    length_byte: int | None

    def read_body(self, _form: FormatDescription, /) -> None:
        """Layout: length u8 (modulo 256, so it is not used), SQL to the end."""
        self._check_length()
        usual = (len(self.body) - 1) & 0xFF
        self.length_byte = None if self.body[0] == usual else self.body[0]

    def _check_length(self) -> None:
        if not self.body:
            raise self.error("the byte with the statement's length is missing")

    def carried(self, changes: Mapping[str, Any], /) -> dict[str, Any]:
        """All fields; another statement has another length."""
        fields = super().carried(changes)
        if "sql" in changes:
            fields.pop("length_byte", None)
        return fields

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        sql = statement(self.sql_bytes, "sql")
        out = Builder()
        out.u8(len(sql) & 0xFF if self.length_byte is None else self.length_byte, "length_byte")
        out.raw(sql, "sql")
        return out.done()

    @property
    def sql_bytes(self) -> bytes:
        """The statement's bytes."""
        self._check_length()
        return self.body[1:]

    @property
    def sql(self) -> str:
        """The statement, read as UTF-8; invalid bytes are shown in hex."""
        return self.sql_bytes.decode(errors="backslashreplace")


class AnnotateRowsEvent(Event, types=(EventType.ANNOTATE_ROWS,)):
    """ANNOTATE_ROWS (160), MariaDB: the statement whose rows follow."""

    __slots__ = ()

    FIELDS = ("sql",)
    MADE_OF: ClassVar[Mapping[str, Any]] = {"sql": REQUIRED}
    MADE_FROM: ClassVar[Mapping[str, str]] = {"sql": "sql_bytes"}

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The statement's bytes."""
        return statement(self.sql_bytes, "sql")

    @property
    def sql_bytes(self) -> bytes:
        """The statement's bytes."""
        return self.body

    @property
    def sql(self) -> str:
        """The statement, read as UTF-8; invalid bytes are shown in hex."""
        return self.sql_bytes.decode(errors="backslashreplace")
