"""ROTATE, STOP, INCIDENT: where the log continues, ends, or lost something (facts sheet 2.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.constants import CHECKSUM_SIZE, EventFlag, EventType
from tailrace.errors import EventDecodeError, EventEncodeError
from tailrace.events.base import Event
from tailrace.events.fields import binary, statement, text, utf8
from tailrace.events.layout import FIXED_REST, U8, U16, U64, Prefixed, field

if TYPE_CHECKING:
    from tailrace.events.fields import Builder, Cursor

_LONGEST_FILE: Final = 511  # the servers' FN_REFLEN, without its zero byte


class _FileName:
    """A log's name, to the end of the body."""

    def read(self, cursor: Cursor, what: str) -> str:
        if not cursor.remaining:
            raise EventDecodeError(f"{cursor.end} bytes hold no file name")
        return text(cursor.rest(), what)

    def write(self, out: Builder, value: str, what: str) -> None:
        raw = utf8(value, what, _LONGEST_FILE)
        if not raw:
            raise EventEncodeError(f"{what}: a log has a name")
        out.data += raw


class RotateEvent(Event, types=(EventType.ROTATE,)):
    """ROTATE (4): the log continues in ``next_file`` at ``next_offset``.

    Artificial ones (`artificial`) are sent at the start of a stream and in relay logs; only a
    real one ends a file. A statement may continue after it (relay logs), so its table maps stay.
    """

    FIELDS = ("next_file", "next_offset", "artificial")

    next_offset: int = field(U64, "the offset", default=4)
    fixed_rest: bytes = FIXED_REST
    next_file: str = field(_FileName(), "the file name")

    @property
    def artificial(self) -> bool:
        """Whether the event is in no file."""
        return bool(self.header.flags & EventFlag.ARTIFICIAL)


class StopEvent(Event, types=(EventType.STOP,)):
    """STOP (3): the server was shut down cleanly."""

    __slots__ = ()

    LAYOUT = ()


class _Trailing:
    """Four bytes or none."""

    def read(self, cursor: Cursor, _what: str) -> bytes:
        return cursor.rest() if cursor.remaining == CHECKSUM_SIZE else b""

    def write(self, out: Builder, value: bytes, what: str) -> None:
        raw = binary(value, what)
        if len(raw) not in {0, CHECKSUM_SIZE}:
            raise EventEncodeError(f"{what}: {len(raw)} bytes, none or 4 may follow")
        out.data += raw


class IncidentEvent(Event, types=(EventType.INCIDENT,)):
    """INCIDENT (26): something is missing from the log; 1 is LOST_EVENTS.

    MySQL 9.7 leaves four bytes between the message and the checksum (tests/corpus): ``trailing``.
    """

    FIELDS = ("incident", "message")

    incident: int = field(U16, "the incident's number", default=1)
    fixed_rest: bytes = FIXED_REST
    message_bytes: bytes = field(
        Prefixed(U8, "the message's length", 0xFF, statement),
        "the message",
        default="",
        argument="message",
    )
    trailing: bytes = field(_Trailing(), "the bytes after the message", default=b"")

    @property
    def message(self) -> str:
        """What happened, read as UTF-8; invalid bytes are shown in hex."""
        return self.message_bytes.decode(errors="backslashreplace")
