"""Semi-synchronous replication on the wire: two bytes before each event, and what comes back.

Facts sheet 5. Once it is agreed on, every record of a dump has the two bytes, artificial ones too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from tailrace.errors import MalformedPacket, UsageError
from tailrace.wire.commands import LONGEST_NAME
from tailrace.wire.packets import PacketCursor, name, number

if TYPE_CHECKING:
    from tailrace.wire.packets import Data

MAGIC: Final = 0xEF
_HEADER_SIZE: Final = 2


def unwrap(packet: memoryview) -> tuple[bool, memoryview]:
    """Whether a record of a dump (without its OK byte) wants an acknowledgement, and its event.

    The event is a view of the same memory. Raises MalformedPacket.
    """
    if len(packet) < _HEADER_SIZE or packet[0] != MAGIC or packet[1] > 1:
        raise MalformedPacket(
            f"a record of a semi-synchronous dump begins with EF 00 or EF 01, this one of "
            f"{len(packet)} bytes with {bytes(packet[:_HEADER_SIZE]).hex(' ').upper() or 'nothing'}"
        )
    return packet[1] == 1, packet[_HEADER_SIZE:]


def event_of(record: memoryview) -> memoryview:
    """The event of a dump's record, whether or not semi-synchronous replication was agreed on.

    The two bytes are known by the event's length after them.
    """
    inner = record[_HEADER_SIZE:]
    wrapped = len(record) > _HEADER_SIZE and record[0] == MAGIC and record[1] <= 1
    return inner if wrapped and inner[9:13] == len(inner).to_bytes(4, "little") else record


def wrap(event: Data, wanted: bool) -> bytes:
    """The inverse of `unwrap`."""
    return bytes((MAGIC, wanted)) + bytes(event)


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A replica's answer: it has stored all events up to ``position`` (u64) of ``file``.

    Sent in a packet of its own with sequence number 0.
    """

    file: str
    position: int

    @classmethod
    def decode(cls, payload: Data) -> Self:
        """From a payload. Raises MalformedPacket."""
        cursor = PacketCursor("an acknowledgement", bytes(payload))
        cursor.expect(MAGIC, "its first byte")
        position = cursor.u64("the position")
        at = cursor.pos
        file = cursor.text(cursor.remaining, "the log file's name")
        if not 0 < cursor.pos - at <= LONGEST_NAME or "\0" in file:
            cursor.error(at, f"no log file's name: {file[:80]!r}")
        return cls(file, position)

    def encode(self) -> bytes:
        """The inverse of `decode`. Raises UsageError."""
        file = name(self.file, "the log file's name", LONGEST_NAME)
        if not file:
            raise UsageError("an acknowledgement needs the log file's name")
        return bytes((MAGIC,)) + number(self.position, "the position", 8) + file
