"""Checked reading and writing of an event's fields: `Cursor`, and its inverse `Builder`.

Each length is compared with the end before it is used, and each value with what its field holds.
"""

from __future__ import annotations

from enum import Enum
from struct import Struct
from struct import error as struct_error
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tailrace.errors import EventDecodeError, EventEncodeError

if TYPE_CHECKING:
    from collections.abc import Sequence

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


M = TypeVar("M", bound=Enum)
T = TypeVar("T")

_LENENC: Final = (
    (0xFB, 0, b""),
    (1 << 16, 2, b"\xfc"),
    (1 << 24, 3, b"\xfd"),
    (1 << 64, 8, b"\xfe"),
)


class Builder:
    """Bytes that are being built. Every method raises EventEncodeError, which names the field,
    for a value that does not fit; numbers are little-endian and unsigned, except for `i32`, `i64`
    and `f64`.
    """

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def __len__(self) -> int:
        return len(self.data)

    def done(self) -> bytes:
        """What was written."""
        return bytes(self.data)

    def raw(self, value: bytes, what: str, size: int | None = None) -> None:
        """Bytes as they are; exactly ``size`` of them if it is given."""
        raw = binary(value, what)
        if size is not None and len(raw) != size:
            raise EventEncodeError(f"{what}: {len(raw)} bytes where {size} are needed")
        self.data += raw

    def zeros(self, count: int) -> None:
        """That many zero bytes."""
        self.data += bytes(count)

    def unsigned(self, value: int, count: int, what: str) -> None:
        """An unsigned integer of ``count`` bytes."""
        self.data += integer(value, what, 0, (1 << 8 * count) - 1).to_bytes(count, "little")

    def u8(self, value: int, what: str) -> None:
        """One byte."""
        self.unsigned(value, 1, what)

    def u16(self, value: int, what: str) -> None:
        """Two bytes."""
        self.unsigned(value, 2, what)

    def u32(self, value: int, what: str) -> None:
        """Four bytes."""
        self.unsigned(value, 4, what)

    def u64(self, value: int, what: str) -> None:
        """Eight bytes."""
        self.unsigned(value, 8, what)

    def i32(self, value: int, what: str) -> None:
        """Four bytes, two's complement."""
        checked = integer(value, what, -(1 << 31), (1 << 31) - 1)
        self.data += checked.to_bytes(4, "little", signed=True)

    def i64(self, value: int, what: str) -> None:
        """Eight bytes, two's complement."""
        checked = integer(value, what, -(1 << 63), (1 << 63) - 1)
        self.data += checked.to_bytes(8, "little", signed=True)

    def f64(self, value: float, what: str) -> None:
        """An IEEE double."""
        if not isinstance(value, (int, float)):
            raise EventEncodeError(f"{what}: {value!r} is not a number")
        try:
            self.data += _F64.pack(value)
        except (OverflowError, struct_error):
            raise EventEncodeError(f"{what}: {value} is more than a double holds") from None

    def lenenc(self, value: int, what: str) -> None:
        """A length-encoded integer, in the fewest bytes."""
        if not isinstance(value, int) or value < 0:
            raise EventEncodeError(f"{what}: {value!r} is not a length")
        for bound, size, mark in _LENENC:
            if value < bound:
                self.data += mark + value.to_bytes(size or 1, "little")
                return
        raise EventEncodeError(f"{what}: {value} is more than 64 bits hold")

    def lenenc_bytes(self, value: bytes, what: str) -> None:
        """Bytes after their length-encoded length."""
        raw = binary(value, what)
        self.lenenc(len(raw), what)
        self.data += raw


def parts(value: Any, count: int | None, what: str) -> Sequence[Any]:
    """A tuple or list, of ``count`` parts if that is given. Raises EventEncodeError."""
    if not isinstance(value, (tuple, list)) or (count is not None and len(value) != count):
        raise EventEncodeError(f"{what}: {value!r} is no tuple{f' of {count}' if count else ''}")
    return value


def integer(value: int, what: str, least: int, most: int) -> int:
    """An integer between ``least`` and ``most``, both included. Raises EventEncodeError."""
    if not isinstance(value, int):
        raise EventEncodeError(f"{what}: {value!r} is not an integer")
    if not least <= value <= most:
        raise EventEncodeError(f"{what}: {value} is not between {least} and {most}")
    return int(value)


def binary(value: bytes, what: str, most: int | None = None) -> bytes:
    """Bytes, at most ``most`` of them. Raises EventEncodeError."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise EventEncodeError(f"{what}: {value!r} is not bytes")
    raw = bytes(value)
    if most is not None and len(raw) > most:
        raise EventEncodeError(f"{what}: {len(raw)} bytes, the format holds {most}")
    return raw


def utf8(value: str, what: str, most: int | None = None) -> bytes:
    """A text as the servers log it, in UTF-8, of at most ``most`` bytes.

    Raises EventEncodeError.
    """
    if not isinstance(value, str):
        raise EventEncodeError(f"{what}: {value!r} is not text")
    try:
        raw = value.encode()
    except UnicodeEncodeError:
        raise EventEncodeError(f"{what}: {value!r} is not valid Unicode") from None
    return binary(raw, what, most)


def name(value: str, what: str, most: int | None = None) -> bytes:
    """A name that is terminated by a zero byte, without that byte. Raises EventEncodeError."""
    raw = utf8(value, what, most)
    if 0 in raw:
        raise EventEncodeError(f"{what}: {value!r} holds a zero byte")
    return raw


def statement(value: str | bytes, what: str, most: int | None = None) -> bytes:
    """A text that may also be given as its bytes, for texts in another character set.

    Raises EventEncodeError.
    """
    return utf8(value, what, most) if isinstance(value, str) else binary(value, what, most)


def member(kind: type[M], value: Any, what: str) -> M:
    """One of an enumeration. Raises EventEncodeError."""
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(each.name for each in kind)
        raise EventEncodeError(f"{what}: {value!r} is none of {known}") from None


def made(value: Any, kind: type[T], what: str) -> T:
    """A value that must be of this class. Raises EventEncodeError."""
    if not isinstance(value, kind):
        raise EventEncodeError(f"{what}: {value!r} is no {kind.__name__}")
    return value
