"""A running server as a transport: `tailrace.open("mysql://…")`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from tailrace.constants import MAGIC
from tailrace.live.url import Source
from tailrace.position import Position
from tailrace.transports.gtids import ReadGtids

if TYPE_CHECKING:
    from collections.abc import Generator

    from tailrace.table_name import TableName
    from tailrace.transports import Record, Start


class ServerTransport:
    """Reads a server's log; each reading has its own connection, made when it begins.

    ``start`` is the one in the source's URL. A start of None means that one, else the server's
    oldest log. By position, events come as the server sends them, and reading resumes after a break
    also inside a transaction. By GTIDs, whole transactions come, and after a break reading resumes
    on any of the hosts. If a break was inside a transaction larger than 16 MiB, a file begins in
    the midst of it, which makes that part void. It pickles, without the password.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name = source.name
        self.start = source.start

    @classmethod
    def of_url(cls, url: str | Source) -> Self:
        """The transport of a URL, as text or parsed. Raises UsageError."""
        return cls(url if isinstance(url, Source) else Source.parse(url))

    def peek(self) -> Record | None:
        """None: the first event comes with the connection."""
        return None

    def locate(self, start: Start | None) -> Position | None:
        """The position of a start; None if only the server knows it."""
        place = self.source.start if start is None else start
        return place if isinstance(place, Position) else None

    def read(self, start: Start | None, *, follow: bool) -> ServerStream:
        """Begin to read; the connection is made when the first event is requested."""
        return ServerStream(self.source, start, follow=follow)

    def check(self, start: Start | None) -> None:
        """Raise what `ServerStream.connect` raises, on a connection of its own."""
        with closing(_trial(self.source, start)) as stream:
            stream.connect()

    def lowers_names(self) -> bool | None:
        """Whether the server puts names into lower case; None if it cannot be asked."""
        from tailrace.live.tables import lowers_names  # noqa: PLC0415 - it needs PyMySQL

        return lowers_names(self.source)

    def tables(self) -> set[TableName]:
        """The tables that the server has now, as far as its user may see them."""
        from tailrace.live.tables import connected, tables_of  # noqa: PLC0415 - it needs PyMySQL

        with connected(self.source) as connection:
            return tables_of(connection)

    def __repr__(self) -> str:
        return f"ServerTransport({self.name!r})"


class ServerStream:
    """The events of a server's log, from a start on.

    ``taken`` counts the events that the consumer feeds to it. It can be iterated once. Raises
    ConnectionLost if the server is not reached, ServerError and its subclasses for the server's
    errors.
    """

    def __init__(self, source: Source, start: Start | None, *, follow: bool) -> None:
        from tailrace.live.feed import Feed  # noqa: PLC0415 - it needs PyMySQL

        self.torn_tail: Position | None = None
        wanted = source.start if start is None else start
        self.taken = ReadGtids(wanted)
        self._source = source
        self._follow = follow
        self._feed = Feed(source, start=wanted, follow=follow)
        self._records = self._feed.records()
        self._first: Record | None = None
        self._second: Record | None = None
        self._trial: ServerStream | None = None

    def connect(self) -> Record | None:
        """Connect, and check the start; the first event, which iterating gives as well. None if it
        was closed.

        A server sends the file's description before it looks for an event at a position inside the
        file, so that event is waited for, too. A stream that follows would wait for it at the log's
        end: one that does not, on a connection of its own, looks for it. Iterating connects by
        itself, and then errors come with the events.
        """
        if self._enter() is None or self._second is not None:
            return self._first
        start = self._feed.start
        if isinstance(start, Position) and start.offset > len(MAGIC):
            if self._follow:
                self._trial = _trial(self._source, start)
                with closing(self._trial):
                    self._trial.connect()
            else:
                self._second = next(self._records, None)
        return self._first

    def _enter(self) -> Record | None:
        """Connect; the first event, None if it was closed."""
        if self._first is None:
            self._first = next(self._records, None)
            if self._first is not None:
                self.taken.begin = self._feed.position
        return self._first

    def __iter__(self) -> Generator[Record]:
        try:
            first = self._enter()
            if first is not None:
                yield first
                if self._second is not None:
                    yield self._second
                yield from self._records
        finally:
            self._feed.close()

    def close(self) -> None:
        """End the reading, also during a wait; from any thread."""
        self._feed.close()
        if self._trial is not None:
            self._trial.close()


def _trial(source: Source, start: Start | None) -> ServerStream:
    """A stream that shows whether a start is one, while another dump has the given server id."""
    return ServerStream(replace(source, server_id=None), start, follow=False)
