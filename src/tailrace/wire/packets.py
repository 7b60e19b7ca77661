"""Packets: a payload, its fields and framing, and the two that end a dump (facts sheet 4.1, 4.3).

Numbers are little-endian and unsigned, texts UTF-8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from tailrace.errors import MalformedPacket, UsageError
from tailrace.events.fields import Cursor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

Data = bytes | bytearray | memoryview
"""What a packet may be given as."""

HEADER_SIZE: Final = 4
"""Length, u24, and sequence number, u8."""
LARGEST: Final = 0xFFFFFF
"""The largest payload of a packet; a payload of exactly this length continues in the next one."""
OK: Final = 0x00
"""The first byte of every event in a dump, but not of a packet that continues an event."""
AUTOCOMMIT: Final = 2
"""The status of a session in which each statement is a transaction, as servers say it at first."""
_ERROR: Final = 0xFF
_END: Final = 0xFE
_END_SIZE: Final = 9
_STATE_SIZE: Final = 5
_NO_LENGTH: Final = (0xFB, 0xFF)


def frame(payload: bytes | bytearray, sequence: int = 0) -> bytes:
    """A payload with its headers: split where it is `LARGEST` or more, numbered from ``sequence``.

    After 255 comes 0.
    """
    checked(sequence, "a packet's sequence number", 0, 255)
    parts = list[bytes | bytearray]()
    for at in range(0, len(payload) + 1, LARGEST):
        piece = payload[at : at + LARGEST]
        parts += [len(piece).to_bytes(3, "little"), bytes((sequence,)), piece]
        sequence = (sequence + 1) & 0xFF
    return b"".join(parts)


def payloads(raw: Data) -> Iterator[tuple[int, bytes]]:
    """The inverse of `frame`: each payload, joined, and the sequence number of its first packet.

    Packets that continue a payload have the next numbers. Raises MalformedPacket, also if ``raw``
    ends inside a payload.
    """
    view = memoryview(raw)
    at = 0
    while at < len(view):
        first, parts, size = view[min(at + 3, len(view) - 1)], list[bytes](), LARGEST
        while size == LARGEST:
            head = view[at : at + HEADER_SIZE]
            size = int.from_bytes(head[:3], "little")
            end = at + HEADER_SIZE + size
            if len(head) < HEADER_SIZE or end > len(view):
                raise MalformedPacket(f"the packet at byte {at} of {len(view)} is incomplete")
            if head[3] != (first + len(parts)) & 0xFF:
                raise MalformedPacket(
                    f"the packet at byte {at} has number {head[3]}, after {len(parts)} from "
                    f"{first} on"
                )
            parts.append(bytes(view[at + HEADER_SIZE : end]))
            at = end
        yield first, b"".join(parts)


def is_error(payload: Data) -> bool:
    """Whether a payload is an ERR packet: `ErrorPacket` reads it."""
    view = memoryview(payload)
    return len(view) > 0 and view[0] == _ERROR


def is_end(payload: Data) -> bool:
    """Whether a payload is an EOF packet of the classic form: `EndPacket` reads it."""
    view = memoryview(payload)
    return 0 < len(view) < _END_SIZE and view[0] == _END


class PacketCursor(Cursor):
    """Reads a packet's payload; raises MalformedPacket rather than read past its end."""

    __slots__ = ("packet",)

    def __init__(self, packet: str, payload: bytes) -> None:
        super().__init__(bytes(payload))
        self.packet = packet

    def error(self, at: int, message: str) -> NoReturn:
        """Raise MalformedPacket: which packet, at which of its bytes, and ``message``."""
        raise MalformedPacket(f"{self.packet}, byte {at} of {self.end}: {message}")

    def skip(self, count: int, what: str) -> int:
        """Skip ``count`` bytes; returns where they began."""
        start = self.pos
        if start + count > self.end:
            self.error(start, f"{what} needs {count} bytes, {self.end - start} remain")
        self.pos = start + count
        return start

    def expect(self, byte: int, what: str) -> None:
        """Skip one byte, which must be ``byte``."""
        at = self.pos
        if (found := self.u8(what)) != byte:
            self.error(at, f"{what} is 0x{byte:02X}, not 0x{found:02X}")

    def text(self, count: int, what: str) -> str:
        """The next ``count`` bytes as text."""
        at = self.pos
        raw = self.take(count, what)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.error(at, f"{what} is not UTF-8: {raw[:80]!r}")

    def terminated_bytes(self, what: str) -> bytes:
        """The bytes before the next NUL, which is skipped."""
        at = self.buf.find(b"\0", self.pos, self.end)
        if at < 0:
            self.error(self.pos, f"{what} does not end with a NUL")
        raw = self.take(at - self.pos, what)
        self.pos += 1
        return raw

    def terminated(self, what: str) -> str:
        """The text before the next NUL, which is skipped."""
        at = self.pos
        size = len(self.terminated_bytes(what))
        self.pos = at
        found = self.text(size, what)
        self.pos += 1
        return found

    def lenenc(self, what: str) -> int:
        """A length-encoded integer; it never begins with 0xFB or 0xFF."""
        if self.remaining and self.buf[self.pos] in _NO_LENGTH:
            self.error(self.pos, f"{what}: 0x{self.buf[self.pos]:02X} does not begin a length")
        return super().lenenc(what)

    def finish(self, what: str) -> None:
        """Raise if bytes remain after ``what``, the last field."""
        if self.pos != self.end:
            self.error(self.pos, f"{self.end - self.pos} bytes follow {what}, the last field")


def checked(value: int, what: str, least: int, most: int) -> int:
    """A number that a field can hold. Raises UsageError that names it."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{what} is a whole number, not {value!r}")
    if not least <= value <= most:
        raise UsageError(f"{what} must lie between {least} and {most}, not {value}")
    return int(value)


def number(value: int, what: str, size: int) -> bytes:
    """A number in ``size`` bytes. Raises UsageError."""
    return checked(value, what, 0, (1 << 8 * size) - 1).to_bytes(size, "little")


def name(text: str, what: str, most: int) -> bytes:
    """A text of at most ``most`` bytes, without NUL. Raises UsageError that does not quote it."""
    if not isinstance(text, str):
        raise UsageError(f"{what} is text, not {type(text).__name__}")
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} cannot be written as UTF-8") from None
    if len(raw) > most or b"\0" in raw:
        raise UsageError(f"{what} has at most {most} bytes, none of them 0; {len(raw)} were given")
    return raw


@dataclass(frozen=True, slots=True)
class ErrorPacket:
    r"""ERR: a server's error. ``sqlstate`` has five characters; None if it sends none.

    A message that is not UTF-8 is kept readable: its bytes as ``\xe9``.
    """

    code: int
    sqlstate: str | None
    message: str

    @classmethod
    def decode(cls, payload: Data) -> Self:
        """From a payload. Raises MalformedPacket."""
        cursor = PacketCursor("an ERR packet", bytes(payload))
        cursor.expect(_ERROR, "its first byte")
        code = cursor.u16("the error code")
        state = None
        if cursor.remaining and cursor.buf[cursor.pos] == ord("#"):
            cursor.skip(1, "the mark of the SQL state")
            at = cursor.pos
            state = cursor.text(_STATE_SIZE, "the SQL state")
            if not _is_state(state):
                cursor.error(at, f"{state!r} is no SQL state")
        return cls(code, state, cursor.rest().decode(errors="backslashreplace"))

    def encode(self) -> bytes:
        """The inverse of `decode`. Raises UsageError."""
        state = ""
        if self.sqlstate is not None:
            if not _is_state(self.sqlstate):
                raise UsageError(f"a SQL state has five digits or letters, not {self.sqlstate!r}")
            state = f"#{self.sqlstate}"
        elif self.message.startswith("#"):
            raise UsageError("an error's message that begins with # needs a SQL state before it")
        text = f"{state}{self.message}".encode(errors="backslashreplace")
        return bytes((_ERROR,)) + number(self.code, "an error's code", 2) + text


def _is_state(text: str) -> bool:
    return len(text) == _STATE_SIZE and text.isascii() and text.isalnum()


@dataclass(frozen=True, slots=True)
class EndPacket:
    """EOF: the end of a dump that does not wait for more. ``status`` has the protocol's bits."""

    warnings: int = 0
    status: int = 0

    @classmethod
    def decode(cls, payload: Data) -> Self:
        """From a payload. Raises MalformedPacket."""
        cursor = PacketCursor("an EOF packet", bytes(payload))
        cursor.expect(_END, "its first byte")
        warnings = cursor.u16("the number of warnings")
        status = cursor.u16("the status")
        cursor.finish("the status")
        return cls(warnings, status)

    def encode(self) -> bytes:
        """The inverse of `decode`. Raises UsageError."""
        warnings = number(self.warnings, "the number of warnings", 2)
        return bytes((_END,)) + warnings + number(self.status, "the status", 2)
