"""What stands behind rows in a log that is read ahead: were they taken back, were they finished?"""

from __future__ import annotations

import sys
from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tailrace.errors import LogError
from tailrace.events.rows import ROWS_TYPES
from tailrace.log import Log
from tailrace.position import Position
from tailrace.transactions import Boundary
from tailrace.transactions.rollbacks import Rollbacks, TransactionParts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.events import Event
    from tailrace.transports import Record, Start, Stream, Transport


_LARGE: Final = 1 << 20
_HEAD: Final = 64
"""Bytes of a rows event that hold its table and flags, whatever its layout; and a checksum's."""


class _Heads:
    """A transport that cuts large rows events to their headers, which is enough to find rollbacks.

    The reader holds such an event already: two more copies would take too much memory.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.name = transport.name
        self.peek = transport.peek
        self.locate = transport.locate

    def read(self, start: Start | None, *, follow: bool) -> _HeadStream:
        """As the transport's own."""
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
            if len(raw) > _LARGE and raw[4] in ROWS_TYPES:
                head = bytearray(raw[:_HEAD])
                del raw
                head[9:13] = len(head).to_bytes(4, "little")  # the header's length
                yield file, offset, bytes(head)
            else:
                yield file, offset, raw
        self.torn_tail = self._stream.torn_tail


class Ahead:
    """What stands behind rows that are asked about: were they taken back, was their end logged?"""

    def __init__(self, rollbacks: Rollbacks, end: Position) -> None:
        self._ranges = _merged(rollbacks.ranges)
        self._end = end

    @classmethod
    def read(cls, transport: Transport, start: Position | None = None) -> Ahead:
        """Go through a log from where a transaction begins; rows are not decoded."""
        rollbacks, group = Rollbacks(), TransactionParts()
        log = Log(_Heads(transport), start=start, verify_checksums=False, expand_payloads=False)
        end = start or Position("", 0)
        with suppress(LogError):  # damage further on, which whoever reads on meets
            for event in log:
                boundary = group.feed(event)
                rollbacks.feed(event, group.parts)
                if boundary is Boundary.END:
                    end = Position(event.file or "", event.end_offset or 0)
        return cls(rollbacks, end)

    def takes_back(self, event: Event) -> bool:
        """Whether rows were taken back: those of an event, or of the payload that it is in."""
        file, offset = event.file or "", event.offset or 0
        ranges = self._ranges.get(file, [])
        before = bisect_right(ranges, (offset, sys.maxsize)) - 1
        return before >= 0 and offset < ranges[before][1]

    def unfinished(self, event: Event) -> bool:
        """Whether the rows' transaction has no end in the logs."""
        return Position(event.file or "", event.offset or 0) >= self._end


def _merged(ranges: Iterable[tuple[str, int, int]]) -> dict[str, list[tuple[int, int]]]:
    """The ranges of each file in order, those that overlap as one."""
    files: dict[str, list[tuple[int, int]]] = {}
    for file, start, end in sorted(ranges):
        known = files.setdefault(file, [])
        if known and start <= known[-1][1]:
            known[-1] = known[-1][0], max(known[-1][1], end)
        else:
            known.append((start, end))
    return files
