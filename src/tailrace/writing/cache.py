"""A transaction's events until it is committed: in memory, and past a limit in a temporary file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.constants import CHECKSUM_SIZE, HEADER_SIZE, MAX_EVENT_SIZE, ChecksumAlgorithm
from tailrace.errors import EventEncodeError
from tailrace.storage.spill import Spill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tailrace.events import Event
    from tailrace.storage.streams.base import SpillOutput

_PIECE: Final = 1 << 22
"""Bytes read at once when the transaction is committed; an event that is larger comes whole."""


def cached(event: Event) -> bytes:
    """An event in cache form. Raises EventEncodeError where a checksum would make it too large."""
    if HEADER_SIZE + len(event.body) + CHECKSUM_SIZE > MAX_EVENT_SIZE:
        raise event.error(
            f"{len(event.body)} bytes: no event has more than {MAX_EVENT_SIZE} in all",
            EventEncodeError,
        )
    return event.encode(ChecksumAlgorithm.NONE, log_pos=0)


class EventCache:
    """Whole events in cache form (no checksum, ``log_pos`` 0), one after the other.

    Holds at most ``limit`` bytes in memory; what is more lies in a temporary file, on which
    ``wrap`` puts its stream (`WritableStore.spill`). ``size`` is in bytes, ``count`` in events.
    Raises StorageError where the temporary file cannot grow.
    """

    def __init__(
        self, limit: int, wrap: Callable[[SpillOutput], SpillOutput] | None = None
    ) -> None:
        self._limit = limit
        self._wrap = wrap
        self._cache = Spill(limit, wrap=wrap)
        self.count = 0

    def another(self) -> EventCache:
        """An empty one with the same limit and protection."""
        return EventCache(self._limit, self._wrap)

    @property
    def size(self) -> int:
        """Bytes of the events."""
        return len(self._cache)

    def append(self, events: bytes | bytearray | memoryview, count: int = 1) -> None:
        """Add ``count`` whole events."""
        self._cache.write(events)
        self.count += count

    def cut(self, size: int, count: int) -> None:
        """Roll back what was added since the cache had this size and count."""
        self._cache.truncate(size)
        self.count = count

    def pieces(self) -> Iterator[memoryview]:
        """The events from the first on, in pieces of whole events, of 4 MiB or one event.

        A piece is valid until the next is requested.
        """
        return self._cache.whole_events(_PIECE)

    def close(self) -> None:
        """Forget the events."""
        self._cache.close()
