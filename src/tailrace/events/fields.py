"""Checked reading of an event's fields: each length is compared with the end before it is used."""

from __future__ import annotations

from struct import Struct
from typing import Final

from tailrace.errors import EventDecodeError

_F64: Final = Struct("<d")


def text(raw: bytes, what: str) -> str:
    """A name as the servers log it: UTF-8. Raises EventDecodeError."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise EventDecodeError(f"{what} is not UTF-8: {raw[:80]!r}") from None


class Cursor:
    """Reads ``buf[pos:end]`` in order; raises EventDecodeError rather than read past the end.

    Numbers are little-endian and unsigned, except for `i32`, `i64` and `f64`; `lenenc` is MySQL's
    length-encoded integer. ``what`` names the field in the error.
    """

    __slots__ = ("buf", "end", "pos")

    def __init__(self, buf: bytes, pos: int = 0, end: int | None = None) -> None:
        size = len(buf)
        if end is None:
            end = size
        if not 0 <= pos <= end <= size:
            raise EventDecodeError(f"a field at {pos} to {end} of a {size}-byte body")
        self.buf = buf
        self.pos = pos
        self.end = end

    @property
    def remaining(self) -> int:
        """Bytes left."""
        return self.end - self.pos

    def skip(self, count: int, what: str) -> int:
        """Skip ``count`` bytes; returns where they began."""
        start = self.pos
        end = start + count
        if end > self.end:
            raise EventDecodeError(f"{what} needs {count} bytes, {self.end - start} remain")
        self.pos = end
        return start

    def take(self, count: int, what: str) -> bytes:
        """The next ``count`` bytes."""
        start = self.pos
        end = start + count
        if end > self.end:
            self.skip(count, what)
        self.pos = end
        return self.buf[start:end]

    def rest(self) -> bytes:
        """All remaining bytes."""
        start, self.pos = self.pos, self.end
        return self.buf[start : self.end]

    def unsigned(self, count: int, what: str) -> int:
        """A little-endian unsigned integer of ``count`` bytes."""
        start = self.pos
        end = start + count
        if end > self.end:
            self.skip(count, what)
        self.pos = end
        return int.from_bytes(self.buf[start:end], "little")

    def u8(self, what: str) -> int:
        """One byte."""
        at = self.pos
        if at >= self.end:
            self.skip(1, what)
        self.pos = at + 1
        return self.buf[at]

    def u16(self, what: str) -> int:
        """Two bytes."""
        return self.unsigned(2, what)

    def u32(self, what: str) -> int:
        """Four bytes."""
        return self.unsigned(4, what)

    def u64(self, what: str) -> int:
        """Eight bytes."""
        return self.unsigned(8, what)

    def i32(self, what: str) -> int:
        """Four bytes, two's complement."""
        return int.from_bytes(self.take(4, what), "little", signed=True)

    def i64(self, what: str) -> int:
        """Eight bytes, two's complement."""
        return int.from_bytes(self.take(8, what), "little", signed=True)

    def f64(self, what: str) -> float:
        """An IEEE double."""
        number: float = _F64.unpack_from(self.buf, self.skip(8, what))[0]
        return number

    def lenenc(self, what: str) -> int:
        """A length-encoded integer; it never begins with 0xFB or 0xFF."""
        first = self.u8(what)
        if first < 0xFB:
            return first
        size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first)
        if size is None:
            raise EventDecodeError(f"{what}: 0x{first:02X} does not begin a length")
        return self.unsigned(size, what)

    def lenenc_bytes(self, what: str) -> bytes:
        """Bytes after their length-encoded length."""
        return self.take(self.lenenc(what), what)

    def finish(self, what: str) -> None:
        """Raise an error if bytes remain after the last field of the format."""
        if self.pos != self.end:
            raise EventDecodeError(f"{self.end - self.pos} bytes follow {what}'s last field")
