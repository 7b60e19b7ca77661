"""The events of any transport as the items that a server's feed gives: `RecordFeed`."""

from __future__ import annotations

from array import array
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import EventType
from tailrace.live.chunks import END, PADDING, Chunk, FileBegin
from tailrace.transports import END as OVER
from tailrace.transports import BackgroundReader

if TYPE_CHECKING:
    from tailrace.live.chunks import Item
    from tailrace.selection import Start
    from tailrace.transports import Record, Transport

_MOST: Final = 4 << 20
"""The most bytes in one piece, unless a single event has more."""


class RecordFeed:
    """Reads a transport in a thread of its own, and combines the events that have arrived.

    ``name`` is the source's in errors, ``start`` where reading begins. `close` may be called from
    any thread.
    """

    def __init__(self, transport: Transport, start: Start | None, *, follow: bool) -> None:
        self.name = transport.name
        self.start = start
        self._link = BackgroundReader(transport.read(start, follow=follow))
        self._next: Record | None = None

    def take(self) -> Item:
        """The next item; END at the end. The item of the previous call becomes invalid."""
        first = self._next or self._wait()
        self._next = None
        if first is None:
            return END
        file, offset, raw = first
        if raw[4] == EventType.FORMAT_DESCRIPTION:
            name: Any = file
            return FileBegin(name, offset + len(raw), raw, artificial=False)
        data, starts, end = bytearray(raw), array("q", [0]), offset + len(raw)
        while len(data) < _MOST:
            found: Any = self._link.get(monotonic())
            if found is None or found is OVER:
                break
            if found[:2] != (file, end) or found[2][4] == EventType.FORMAT_DESCRIPTION:
                self._next = found
                break
            starts.append(len(data))
            data += found[2]
            end += len(found[2])
        size = len(data)
        data += bytes(PADDING)
        return Chunk(file, offset, memoryview(data)[:size], starts)

    def _wait(self) -> Record | None:
        """The next event, once it comes; None at the end."""
        while (found := self._link.get()) is None:
            pass  # it was woken up
        return found if isinstance(found, tuple) else None

    def close(self) -> None:
        """End the reading, also during a wait."""
        self._link.close()
