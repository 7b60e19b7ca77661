"""The base of inputs that can only be read forward: they seek by reading."""

from __future__ import annotations

from typing import Final

from tailrace.errors import StorageError
from tailrace.storage.streams.base import InputStream, needs

_PIECE: Final = 1 << 20


class ForwardInput:
    """An input that seeks forward only; ``name`` is its name in errors.

    As it is, it gives what the lower stream gives; streams that make something of that give
    `_next` their own meaning.
    """

    name = "stream"

    def __init__(self, lower: InputStream) -> None:
        needs(lower, InputStream, type(self).__name__)
        self.lower = lower
        self._at = 0

    def _next(self, count: int) -> bytes:
        """At most ``count`` bytes more, none at the end."""
        return self.lower.read(count)

    def read(self, count: int, /) -> bytes:
        """At most ``count`` bytes."""
        data = self._next(count)
        self._at += len(data)
        return data

    def seek(self, offset: int, /) -> int:
        """Go forward to an offset: the bytes between are read and dropped."""
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
        """Close the stream below."""
        close(self.lower)


def close(stream: object) -> None:
    """Close a stream that can be closed."""
    shut = getattr(stream, "close", None)
    if shut is not None:
        shut()
