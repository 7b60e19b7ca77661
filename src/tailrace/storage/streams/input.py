"""What our inputs are made of: each says by one method how it reads, and these do the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.errors import StorageError
from tailrace.storage.streams.base import InputStream, check_count, check_offset, needs, refuse

if TYPE_CHECKING:
    from tailrace.storage.streams.base import RandomInput

_PIECE: Final = 1 << 20


class ForwardInput:
    """An input that seeks forward only; ``name`` is its name in errors.

    As it is, it gives what the lower stream gives; streams that make something of that give
    `_next` their own meaning.
    """

    name = "stream"
    is_open = True

    def __init__(self, lower: InputStream) -> None:
        needs(lower, InputStream, type(self).__name__)
        self.lower = lower
        self._at = 0

    def _next(self, count: int) -> bytes:
        """At most ``count`` bytes more, none at the end."""
        return self.lower.read(count)

    def read(self, count: int, /) -> bytes:
        """At most ``count`` bytes."""
        check_count(count)
        data = self._next(count)
        self._at += len(data)
        return data

    def seek(self, offset: int, /) -> int:
        """Go forward to an offset: the bytes between are read and dropped."""
        check_offset(offset)
        if offset < self._at:
            raise StorageError(
                f"{self.name}: it stands at {self._at} and cannot go back to {offset}, because"
                " it comes in one piece; read it from a file of its own"
            )
        while self._at < offset:
            dropped = len(self._next(min(_PIECE, offset - self._at)))
            if not dropped:
                break
            self._at += dropped
        return offset

    def tell(self) -> int:
        """The current offset; the end, after a seek past it."""
        return self._at

    def close(self) -> None:
        """Close it, and the stream below."""
        end(self)
        close(self.lower)


class OffsetInput:
    """The base of a `RandomInput`: a subclass has `_read_at` and ``size``.

    It also has `_readinto_at` if it can fill memory without a copy, and extends ``close`` if
    something is to be closed. The offset is kept here alone: what it asks of a stream below, it
    asks at offsets.
    """

    _at = 0
    is_open = True

    def _read_at(self, offset: int, count: int) -> bytes:
        """At most ``count`` bytes from an offset on, none at the end."""
        view = bytearray(count)
        del view[self._readinto_at(offset, view) :]
        return bytes(view)

    def _readinto_at(self, offset: int, view: bytearray | memoryview) -> int:
        """As `_read_at`, into existing memory; how many bytes came."""
        data = self._read_at(offset, len(view))
        view[: len(data)] = data
        return len(data)

    def read(self, count: int, /) -> bytes:
        """At most ``count`` bytes."""
        check_count(count)
        data = self._read_at(self._at, count)
        self._at += len(data)
        return data

    def readinto(self, view: bytearray | memoryview, /) -> int:
        """As `read`, into the given memory."""
        count = self._readinto_at(self._at, view)
        self._at += count
        return count

    def seek(self, offset: int, /) -> int:
        """Go to an offset."""
        check_offset(offset)
        self._at = offset
        return offset

    def tell(self) -> int:
        """The current offset."""
        return self._at

    def close(self) -> None:
        """Close it."""
        end(self)


class NamedInput(OffsetInput):
    """A `RandomInput` as an open file: with an offset of its own, and a path for errors.

    Closing it leaves the stream below open.
    """

    def __init__(self, lower: RandomInput, path: str) -> None:
        self._lower = lower
        self.path = path

    def _read_at(self, offset: int, count: int) -> bytes:
        return at(self._lower, offset).read(count)

    def _readinto_at(self, offset: int, view: bytearray | memoryview) -> int:
        return at(self._lower, offset).readinto(view)

    def size(self) -> int:
        """The file's current size in bytes."""
        return self._lower.size()


_ENDED: Final = ("read", "readinto", "read_at", "seek", "size")


def end(stream: ForwardInput | OffsetInput) -> None:
    """From now on an input is closed, and raises StorageError."""
    if not stream.is_open:
        return
    stream.is_open = False
    refuse(stream, _ENDED, "read")


def at(lower: RandomInput, offset: int) -> RandomInput:
    """The same stream, at an offset."""
    if lower.tell() != offset:
        lower.seek(offset)
    return lower


def close(stream: object) -> None:
    """Close a stream that can be closed."""
    shut = getattr(stream, "close", None)
    if shut is not None:
        shut()
