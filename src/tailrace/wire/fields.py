"""Checked reading and writing of a packet's fields.

Numbers are little-endian and unsigned, texts UTF-8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import MalformedPacket, UsageError
from tailrace.events.fields import Cursor

if TYPE_CHECKING:
    from typing import NoReturn

Data = bytes | bytearray | memoryview
"""What a packet may be given as."""


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
