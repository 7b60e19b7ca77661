"""The common header that every event begins with (format version 4; facts sheet 1.2)."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final, Self

from tailrace.constants import HEADER_SIZE
from tailrace.errors import TruncatedEvent

_LAYOUT: Final = Struct("<IBIIIH")
unpack_header: Final = _LAYOUT.unpack_from
"""The six numbers of a header, from a buffer that is known to be long enough."""


@dataclass(frozen=True, slots=True)
class EventHeader:
    """The 19 bytes before an event's body.

    ``timestamp`` is in seconds UTC (0 for artificial events), ``length`` is the whole event's in
    bytes, header and checksum included, ``log_pos`` the low 32 bits of the event's end in its
    source's file (0 where the source does not say; count offsets yourself).
    """

    timestamp: int
    type: int
    server_id: int
    length: int
    log_pos: int
    flags: int

    @classmethod
    def parse(cls, buf: bytes | memoryview, offset: int = 0) -> Self:
        """Parse the header at ``offset``. Raises TruncatedEvent where 19 bytes do not remain."""
        if offset < 0 or len(buf) - offset < HEADER_SIZE:
            raise TruncatedEvent(
                f"an event's header needs {HEADER_SIZE} bytes, {max(len(buf) - offset, 0)} remain"
            )
        return cls(*unpack_header(buf, offset))

    def encode(self) -> bytes:
        """The header's 19 bytes."""
        return _LAYOUT.pack(
            self.timestamp, self.type, self.server_id, self.length, self.log_pos, self.flags
        )
