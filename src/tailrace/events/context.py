"""The way from an event's bytes to the event, by what the events before it say."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

from tailrace.constants import (
    CHECKSUM_SIZE,
    HEADER_SIZE,
    MAX_EVENT_SIZE,
    ChecksumAlgorithm,
    EventFlag,
    EventType,
    Flavour,
    event_name,
)
from tailrace.errors import (
    ChecksumMismatch,
    EventDecodeError,
    LogError,
    TruncatedEvent,
    UnknownEvent,
)
from tailrace.events.base import REGISTRY, LogState, class_of
from tailrace.events.description import NO_FORMAT
from tailrace.events.format_description import frame_end, verify
from tailrace.events.header import EventHeader, bad_length, unpack_header
from tailrace.events.opaque import OpaqueEvent, UnknownIgnorableEvent

if TYPE_CHECKING:
    from tailrace.events.base import Event

_U32: Final = Struct("<I").unpack_from
_CRC32: Final = ChecksumAlgorithm.CRC32
_BEFORE_FORMAT: Final = frozenset({EventType.FORMAT_DESCRIPTION, EventType.ROTATE})
_FORMAT: Final = int(EventType.FORMAT_DESCRIPTION)
_IGNORABLE: Final = int(EventFlag.IGNORABLE)
_COPIED: Final = 1 << 12
"""Below this size a copy is cheaper than a memoryview."""


def verify_event(raw: bytes | memoryview, end: int, code: int, stored: int) -> None:
    """Verify an event whose checksum is after ``end``. Raises ChecksumMismatch."""
    if code == _FORMAT:
        verify(raw, end, stored)
        return
    computed = crc32(raw[:end] if end < _COPIED else memoryview(raw)[:end])
    if computed != stored:
        raise ChecksumMismatch(
            f"its checksum is {stored:#010x}, that of its bytes {computed:#010x}"
        )


@dataclass(slots=True)
class DecodeContext(LogState):
    """Decodes the events of one log, in order. Pickles. For its fields see `LogState`."""

    @property
    def flavour(self) -> Flavour:
        """The server family that wrote the log; MySQL before the format description."""
        return Flavour.MYSQL if self.format is None else self.format.flavour

    def decode(
        self,
        raw: bytes | memoryview,
        *,
        file: str | None = None,
        offset: int | None = None,
        verify_checksum: bool = True,
        borrowed: bool = False,
    ) -> Event:
        """Decode one whole event, and update the state by it.

        ``raw`` holds exactly the event: header, body, checksum. ``file`` and ``offset`` become the
        event's position. The body is decoded when one of its fields is used, except for what the
        state needs. ``borrowed`` says that ``raw`` is memory that will be reused: the body is
        copied out of it when it is first used, and at once if the state keeps the event. Raises
        TruncatedEvent, ChecksumMismatch, UnknownEvent, EventDecodeError,
        MissingTableMap; the state is then unchanged.
        """
        size = len(raw)
        code = raw[4] if size > 4 else -1
        try:
            if size < HEADER_SIZE:
                raise TruncatedEvent(f"an event has at least {HEADER_SIZE} bytes, this has {size}")
            header = EventHeader(*unpack_header(raw))
            if header.length != size:
                raise _misfit(header.length, size)
            end = size
            if code == _FORMAT:
                end = frame_end(raw)
            elif self.checksum_algorithm is _CRC32:
                end -= CHECKSUM_SIZE
            if code != _FORMAT and (self.format is None or end < HEADER_SIZE):
                self._check_frame(code, size, end)
            checksum = None
            if end != size:
                checksum = _U32(raw, end)[0]
                if verify_checksum:
                    verify_event(raw, end, code, checksum)
            kind = REGISTRY.get(code) or self._class_of(header)
            if borrowed:
                event = kind(header, b"").borrow(memoryview(raw)[HEADER_SIZE:end])
            else:
                event = kind(header, bytes(raw[HEADER_SIZE:end]))
            event.form = self.format or NO_FORMAT
            event.checksum = checksum
            event.file = file
            event.offset = offset
            if kind.CHANGES_CONTEXT:
                event.update(self)
        except LogError as error:
            raise error.at(file, offset, event_name(code) if code >= 0 else None) from None
        return event

    def _class_of(self, header: EventHeader) -> type[Event]:
        """The class for a type that has no registered one yet."""
        kind = class_of(header.type)
        if kind is not None:
            return kind
        if header.flags & _IGNORABLE:
            return UnknownIgnorableEvent
        if self.unknown == "opaque":
            return OpaqueEvent
        raise UnknownEvent(
            f"event type {header.type} is not known and not marked ignorable: a newer Tailrace may"
            ' know it, and open(..., unknown="opaque") gives such events as they are'
        )

    def _check_frame(self, code: int, size: int, end: int) -> None:
        """Check what may come before the format description, and that a checksum has room."""
        if self.format is None and code not in _BEFORE_FORMAT:
            raise EventDecodeError(
                "no format description event came before it: read the log from its beginning"
                " (logs of MySQL before 5.0 have none and cannot be read)"
            )
        if end < HEADER_SIZE:
            raise bad_length(size, tail=CHECKSUM_SIZE)


def _misfit(length: int, size: int) -> LogError:
    if HEADER_SIZE <= length <= MAX_EVENT_SIZE:
        return TruncatedEvent(f"the event's length is {length} bytes, but {size} are there")
    return bad_length(length)
