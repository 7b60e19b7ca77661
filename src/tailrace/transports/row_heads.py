"""A transport that cuts large rows events to their headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.constants import LARGE
from tailrace.events.rows import ROWS_TYPES
from tailrace.events.walk import LENGTH_AT, LENGTH_END

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.position import Position
    from tailrace.selection import Start
    from tailrace.transports.base import Record, Stream, Transport


_HEAD: Final = 64
"""Bytes of a rows event that hold its table and flags, in any layout, plus a checksum."""


class RowHeads:
    """Wraps another transport, to find rollbacks ahead of a reader. That reader already holds such
    an event: two more copies would take too much memory.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.name = transport.name
        self.peek = transport.peek
        self.locate = transport.locate

    def read(self, start: Start | None, *, follow: bool) -> _HeadStream:
        """As the wrapped transport does."""
        return _HeadStream(self._transport.read(start, follow=follow))


class _HeadStream:
    """The stream of such a transport."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.torn_tail: Position | None = None
        if (taken := getattr(stream, "taken", None)) is not None:
            self.taken = taken

    def close(self) -> None:
        """End the reading."""
        self._stream.close()

    def __iter__(self) -> Iterator[Record]:
        for file, offset, raw in self._stream:
            if len(raw) > LARGE and raw[4] in ROWS_TYPES:
                head = bytearray(raw[:_HEAD])
                del raw
                head[LENGTH_AT:LENGTH_END] = len(head).to_bytes(4, "little")
                yield file, offset, bytes(head)
            else:
                yield file, offset, raw
        self.torn_tail = self._stream.torn_tail
