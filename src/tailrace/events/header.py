"""The common header that every event begins with (format version 4; facts sheet 1.2)."""

from __future__ import annotations

from struct import Struct
from typing import Any, Final, NamedTuple, Self

from tailrace.constants import HEADER_SIZE, MAX_EVENT_SIZE, event_name
from tailrace.errors import BadEventLength, EventEncodeError, EventTooLarge, TruncatedEvent

_LAYOUT: Final = Struct("<IBIIIH")
_U32: Final = 0xFFFFFFFF
unpack_header: Final = _LAYOUT.unpack_from
"""The six numbers of a header, from a buffer that is known to be long enough."""


def bad_length(length: int, *, tail: int = 0) -> BadEventLength:
    """The error for a length that no event can have; ``tail`` bytes of it are a checksum's."""
    kind = EventTooLarge if length > MAX_EVENT_SIZE else BadEventLength
    return kind(f"an event has {HEADER_SIZE + tail} to {MAX_EVENT_SIZE} bytes, not {length}")


class EventHeader(NamedTuple):
    """The 19 bytes before an event's body.

    ``timestamp`` is in seconds UTC (0 for artificial events), ``length`` is the whole event's in
    bytes, including header and checksum, ``log_pos`` the low 32 bits of the event's end in its
    source's file (0 if the source does not say; count offsets yourself).
    """

    timestamp: int
    type: int
    server_id: int
    length: int
    log_pos: int
    flags: int

    @classmethod
    def parse(cls, buf: bytes | memoryview, offset: int = 0) -> Self:
        """Parse the header at ``offset``. Raises TruncatedEvent if fewer than 19 bytes remain."""
        if offset < 0 or len(buf) - offset < HEADER_SIZE:
            raise TruncatedEvent(
                f"an event's header needs {HEADER_SIZE} bytes, {max(len(buf) - offset, 0)} remain"
            )
        return cls(*unpack_header(buf, offset))

    @classmethod
    def checked(cls, code: int, *, timestamp: int, server_id: int, header_flags: int) -> Self:
        """The header of an event that is made. Raises EventEncodeError, which names the field."""
        if not (
            isinstance(code, int)
            and isinstance(timestamp, int)
            and isinstance(server_id, int)
            and isinstance(header_flags, int)
            and 0 <= code <= 0xFF
            and 0 <= timestamp <= _U32
            and 0 <= server_id <= _U32
            and 0 <= header_flags <= 0xFFFF
        ):
            raise _wrong(
                code,
                ("type", code, 0xFF),
                ("timestamp", timestamp, _U32),
                ("server_id", server_id, _U32),
                ("header_flags", header_flags, 0xFFFF),
            )
        return cls(timestamp, int(code), server_id, HEADER_SIZE, 0, int(header_flags))

    def resized(self, length: int, log_pos: int | None = None) -> Self:
        """The same header with another length, and end position if given (its low 32 bits
        are used).

        Raises EventEncodeError for a length that no event can have.
        """
        self._check_end(length, log_pos)
        end = self.log_pos if log_pos is None else log_pos & _U32
        return type(self)(self.timestamp, self.type, self.server_id, length, end, self.flags)

    def encode(self, length: int | None = None, log_pos: int | None = None) -> bytes:
        """The header's 19 bytes; ``length`` and ``log_pos`` as in `resized`, or its own."""
        size = self.length if length is None else length
        self._check_end(size, log_pos)
        end = self.log_pos if log_pos is None else log_pos & _U32
        return _LAYOUT.pack(self.timestamp, self.type, self.server_id, size, end, self.flags)

    def _check_end(self, length: int, log_pos: int | None) -> None:
        if length > MAX_EVENT_SIZE:
            raise EventEncodeError(
                f"an event of {length} bytes, none has more than {MAX_EVENT_SIZE}",
                event_type=event_name(self.type),
            )
        if not (log_pos is None or (isinstance(log_pos, int) and log_pos >= 0)):
            raise EventEncodeError(f"log_pos: {log_pos!r} is not a position in a file")


def _wrong(code: Any, *limits: tuple[str, Any, int]) -> EventEncodeError:
    """The error for the first value that is not between 0 and its limit."""
    for name, value, most in limits:
        if not isinstance(value, int):
            break
        if not 0 <= value <= most:
            why = f"{name}: {value} is not between 0 and {most}"
            return EventEncodeError(why, event_type=event_name(code))
    return EventEncodeError(f"{name}: {value!r} is not an integer")
