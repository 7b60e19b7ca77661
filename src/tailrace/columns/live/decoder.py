"""Record batches of what a running server sends, decoded in the memory that the socket fills."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tailrace.columns.frames.plan import PADDING
from tailrace.columns.live.ends import DecodeStep, Ends
from tailrace.columns.live.records import RecordFeed
from tailrace.columns.live.unframe import unframe
from tailrace.constants import MAGIC
from tailrace.errors import BoundaryError
from tailrace.events.format_description import stamp
from tailrace.live.chunks import Chunk, FileBegin
from tailrace.log.prepared import Prepared
from tailrace.position import Position
from tailrace.storage.binlog_cache import BinlogCache

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import pyarrow as pa

    from tailrace.columns.read.decoder import LogDecoder
    from tailrace.events.transaction import XaName
    from tailrace.live.feed import Feed
    from tailrace.live.url import Source
    from tailrace.selection import Start
    from tailrace.transports.until import EndFinder

Array = np.ndarray[Any, Any]

_BLOCK: Final = 8 << 20
"""Bytes of a held transaction that are decoded at a time, roughly."""
_MOST_HELD: Final = 64 << 20
"""The most bytes that are held in memory: of a transaction, and of all prepared ones."""
_log = logging.getLogger("tailrace.live")


class LiveDecoder:
    """Makes batches from the chunks of a feed, with a decoder of files.

    Rows are given when their transaction has ended, and those of an XA transaction when it was
    committed (`XaRows.AT_COMMIT`): no rows are given that are rolled back later. Until then the
    bytes of the transaction (for XA, its batches) are held, 64 MiB in memory, more in a temporary
    file. This adds no delay: a source sends a transaction only when all of it is logged.

    ``of_files`` says that the feed is of files: then a file may continue a transaction of the one
    before it (relay logs), which is a BoundaryError here.
    """

    def __init__(self, decoder: LogDecoder, *, of_files: bool = False) -> None:
        self._decoder = decoder
        self._of_files = of_files
        self._ends = Ends()
        self._held = BinlogCache(_MOST_HELD)
        self._prepared: Prepared[pa.RecordBatch] = Prepared(_MOST_HELD)
        self._file, self._stamp = "", b""
        self._held_at = self._end = 0
        self._prepared_at: dict[XaName, Position] = {}

    @property
    def resume(self) -> Position | None:
        """Where to resume after what was given, before prepared transactions whose rows wait. None
        before the first event.
        """
        if not self._file:
            return None
        here = Position(self._file, self._held_at if len(self._held) else self._end)
        waiting = (at for name, at in self._prepared_at.items() if name in self._prepared)
        return min([here, *waiting])

    def begin_file(self, begin: FileBegin) -> bool:
        """The next chunks are of another file, or of this one from another position on.

        False if the connection broke, and they continue those before.
        """
        same = (begin.file, begin.offset) == (self._file, self._end)
        if same and self._ends.inside and stamp(begin.description) == self._stamp:
            return False
        if self._ends.inside and self._of_files and not _created(begin.description):
            raise BoundaryError(
                "the file continues a transaction of the one before it, as relay logs do: read it"
                " without follow, or by tailrace.rows",
                file=begin.file,
                offset=begin.offset,
            )
        if self._ends.inside:
            _log.warning(
                "%s: the transaction at %d has no end there: the source crashed and left it out, or"
                " another source sends it again",
                self._file,
                self._held_at,
            )
            self._held.reset()
        self._stamp = stamp(begin.description)
        self._file, self._end = begin.file, begin.offset
        description = np.zeros(len(begin.description) + PADDING, np.uint8)
        description[: len(begin.description)] = np.frombuffer(begin.description, np.uint8)
        self._ends.begin_file(begin.file, begin.description)
        self._decoder.begin_file(begin.file, self._ends.left_out)
        for _ in self._decoder.decode(description, len(begin.description), 4):
            pass
        return True

    def decode(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """The batches that can be given now. The chunk is used until the iterator's end."""
        data = np.frombuffer(chunk.data, np.uint8)
        if chunk.offset != self._end and len(self._held):
            raise BoundaryError(
                f"a transaction began at {self._held_at}, but its rest does not follow",
                file=self._file,
                offset=chunk.offset,
            )
        offset = chunk.offset
        steps = self._ends.feed(data, chunk.offset)
        self._decoder.leave_out(self._ends.left_out)
        for step in steps:
            if step.prepared is not None:
                began = self._held_at if len(self._held) else offset
                self._prepared_at[step.prepared] = Position(self._file, began)
            yield from self._decide(step, self._decode(data, chunk.offset, offset, step.end))
            offset = step.end
        self._end = chunk.end
        if offset < chunk.end:
            if not len(self._held):
                self._held_at = offset
            self._held.write(chunk.data[offset - chunk.offset :])

    def _decode(self, data: Array, base: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Decode from one offset up to another, after the bytes that are held."""
        part = data[start - base : end - base]
        if not len(self._held):
            yield from self._block(part, start)
            return
        self._held.write(part.data)
        at = self._held_at
        for block in self._held.take_events(_BLOCK, PADDING):
            yield from self._block(np.frombuffer(block, np.uint8), at)
            at += len(block)

    def _block(self, block: Array, offset: int) -> Iterator[pa.RecordBatch]:
        size, at = len(block), 0
        while at < size:
            limit = offset + min(at + _BLOCK, size)
            yield from self._decoder.decode(block[at:], size - at, offset + at, limit)
            at += self._decoder.consumed

    def _decide(
        self, step: DecodeStep, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches, or hold them; and yield held ones that this step commits."""
        if step.prepared is not None:
            held = self._prepared.begin(step.prepared)
            for batch in batches:
                held.append(batch, batch.nbytes)
        else:
            yield from batches
        if step.decided is None:
            return
        name, committed = step.decided
        self._prepared_at.pop(name, None)
        if not committed:
            self._prepared.drop(name)
        elif name in self._prepared:
            yield from self._prepared.take(name)
        else:
            _log.warning(
                "%s: the XA transaction that is committed before %d was prepared before reading"
                " began: its rows are not among the changes",
                self._file,
                step.end,
            )

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The log is over: give prepared transactions too, as for files; they may still commit."""
        for name in self._prepared:
            yield from self._prepared.take(name)

    def close(self) -> None:
        """Release what is held."""
        self._held.close()
        self._prepared.close()


def _created(description: bytes) -> int:
    """When a format description says that its log was created: 0 if it continues another."""
    return int.from_bytes(description[71:75], "little")


def open_feed(source: Source, start: Start | None, *, follow: bool) -> Feed:
    """A feed for a decoder of columns."""
    from tailrace.live.feed import Feed  # noqa: PLC0415 - it needs PyMySQL

    return Feed(source, start=start, follow=follow, unframe=unframe)


def decode_feed(
    live: LiveDecoder, feed: Feed | RecordFeed, *, follow: bool, end: EndFinder | None = None
) -> Generator[pa.RecordBatch | None]:
    """The batches of a feed, which is closed at the end; None where all that was decoded was given.

    It ends where ``end`` finds the end.
    """
    file, name = "", feed.name if isinstance(feed, RecordFeed) else feed.source.name
    try:
        while True:
            item = feed.take()
            if isinstance(item, Chunk):
                found = None if end is None else end.find(item.records())
                if found is None:
                    yield from live.decode(item)
                elif found.offset > item.offset:
                    yield from live.decode(item.part(0, item.number_at(found.offset) or 0))
                yield None
                if found is not None:
                    break
            elif isinstance(item, FileBegin):
                file = item.file
                if live.begin_file(item) and end is not None:
                    end.find([(item.file, len(MAGIC), item.description)])
                yield None
            elif item is not None:
                if end is not None:
                    end.check_met(name, file)
                break
        if not follow:
            yield from live.finish()
            yield None
    finally:
        live.close()
        feed.close()
