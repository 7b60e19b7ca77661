"""A running server as a transport: `tailrace.open("mysql://…")`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tailrace.constants import MAGIC
from tailrace.live.chunks import Chunk, FileBegin
from tailrace.live.url import Source
from tailrace.position import Position
from tailrace.transports.read_gtids import ReadGtids

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tailrace.transports import Record, Start


class ServerTransport:
    """Reads a server's log; each reading is a connection of its own, made when it begins.

    ``start`` is what the source's URL says of it. A start of None is where that says, else the
    server's oldest log. By a position, events come as they come from the server, and a connection
    that broke is mended within a transaction. By GTIDs whole transactions come, and reading goes on
    at the next host of several; in the midst of one that is larger than 16 MiB a file begins then,
    which makes it void. It pickles; no password goes with it.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name = source.name
        self.start = source.start

    @classmethod
    def of_url(cls, url: str) -> Self:
        """The transport of a URL (`tailrace.live.url.Source`). Raises UsageError."""
        return cls(Source.parse(url))

    def peek(self) -> Record | None:
        """None: the first event comes with the connection."""
        return None

    def locate(self, start: Start | None) -> Position | None:
        """The position of a start; None where only the server can tell it."""
        place = self.source.start if start is None else start
        return place if isinstance(place, Position) else None

    def read(self, start: Start | None, *, follow: bool) -> ServerStream:
        """Begin to read; the server is connected to when the first event is asked for."""
        return ServerStream(self.source, start, follow=follow)

    def __repr__(self) -> str:
        return f"ServerTransport({self.name!r})"


class ServerStream:
    """The events of a server's log, from a start on.

    ``taken`` counts what the consumer feeds to it. Iterated once. Raises ConnectionLost where the
    server is not reached, ServerError and its kinds for what it refuses.
    """

    def __init__(self, source: Source, start: Start | None, *, follow: bool) -> None:
        from tailrace.live.feed import Feed  # noqa: PLC0415 - it needs PyMySQL

        self.torn_tail: Position | None = None
        wanted = source.start if start is None else start
        self.taken = ReadGtids(wanted)
        self._feed = Feed(source, start=wanted, follow=follow)

    def __iter__(self) -> Generator[Record]:
        feed = self._feed
        try:
            while True:
                item = feed.take()
                if isinstance(item, Chunk):
                    yield from _records(item)
                elif isinstance(item, FileBegin):
                    if not self.taken.begin.file:
                        self.taken.begin = Position(item.file, item.offset)
                    yield item.file, len(MAGIC), item.description
                elif item is not None:
                    return
        finally:
            feed.close()

    def close(self) -> None:
        """End the reading, also one that waits; from any thread."""
        self._feed.close()


def _records(chunk: Chunk) -> Iterator[Record]:
    """The events of a chunk: copies, for the chunk's memory is used again."""
    data = bytes(chunk.data)
    file, offset = chunk.file, chunk.offset
    ends = [*chunk.starts[1:], len(data)]
    for start, end in zip(chunk.starts, ends, strict=True):
        yield file, offset + start, data[start:end]
