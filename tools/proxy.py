"""A TCP proxy before a server, to break connections with: cut, cut in mid-packet, stalled."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tailrace.closing import Closing

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable, Iterable, Iterator

_PIECE: Final = 1 << 18
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of zero seconds: closing sends RST, and what was not yet sent is gone."""
_CONNECT_SECONDS: Final = 60.0


@dataclass
class Counts:
    """What passed a proxy: connections, and bytes from the server."""

    connections: int = 0
    from_server: int = 0


@dataclass(eq=False)
class _Link:
    """A connection of a client, and the one to the server that belongs to it."""

    number: int
    client: StreamWriter
    server: StreamWriter
    passing: asyncio.Event = field(default_factory=asyncio.Event)
    """Not set while it is stalled."""


class Proxy(Closing):
    """Listens on a free ``port`` of 127.0.0.1 and passes bytes to and from a server; a context
    manager. Not ``listening``, it keeps the port, where nobody is reached before `listen`.

    ``target`` is the server's port, or gives it at each connection: a `Server` has another one
    after a restart (``Proxy(lambda: server.port)``). All methods are for any thread, and done when
    they return. One thread owns all sockets. A client that cannot be passed on is reset.
    """

    host = "127.0.0.1"

    def __init__(self, target: int | Callable[[], int], *, listening: bool = True) -> None:
        self._target = target if callable(target) else lambda: target
        self.counts = Counts()
        self._links: set[_Link] = set()
        self._left: int | None = None  # bytes that may still come from the server before a cut
        self._reset_after = False
        self._refusing = False
        self._then: Callable[[], object] = lambda: None  # what a cut does at its end
        self._listener = socket.socket()
        self._listener.bind((self.host, 0))
        self.port = int(self._listener.getsockname()[1])
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        if listening:
            self.listen()

    # --- orders, from any thread -----------------------------------------------------------------

    def listen(self) -> None:
        """Take connections."""
        server = asyncio.start_server(self._serve, sock=self._listener, backlog=64, limit=_PIECE)
        self._server = asyncio.run_coroutine_threadsafe(server, self._loop).result()

    def cut(self, *, reset: bool = True) -> None:
        """End all connections now, by RST or FIN.

        Who still sends after the FIN gets RST all the same.
        """
        self._order(lambda: self._cut_all(reset=reset))

    def cut_after(self, count: int) -> threading.Event:
        """End all connections when ``count`` more bytes came from the server, and no byte more.

        Gives an event that is set when it was done.
        """
        done = threading.Event()

        def arm() -> None:
            self._left, self._reset_after, self._then = count, False, done.set

        self._order(arm)
        return done

    def cut_after_each(self, counts: Iterable[int]) -> list[int]:
        """As `cut_after`, again and again: each count begins where the one before cut.

        Gives a list of those that were done, which grows. Even counts reset: bytes on their way may
        be lost then.
        """
        done: list[int] = []

        def again(left: Iterator[int]) -> None:
            count = next(left, None)
            if count is None:
                return

            def then() -> None:
                done.append(count)
                again(left)

            self._left, self._reset_after, self._then = count, count % 2 == 0, then

        self._order(lambda: again(iter(counts)))
        return done

    def stall(self) -> None:
        """Keep the connections, and pass nothing on them, as in a network that is gone."""

        def stall() -> None:
            for link in self._links:
                link.passing.clear()

        self._order(stall)

    def refuse(self) -> None:
        """Reset all connections, and each new one, until `go_on`."""

        def refuse() -> None:
            self._refusing = True
            self._cut_all(reset=True)

        self._order(refuse)

    def go_on(self) -> None:
        """Pass again what was stalled, take connections again, and forget a `cut_after`."""

        def resume() -> None:
            self._refusing, self._left = False, None
            for link in self._links:
                link.passing.set()

        self._order(resume)

    def ports(self) -> set[int]:
        """The ports on our side of the connections to the server: it lists its clients by them."""
        found: set[int] = set()

        def look() -> None:
            names = [link.server.get_extra_info("sockname") for link in self._links]
            found.update(port for _, port in names)

        self._order(look)
        return found

    def note(self, connection: int, piece: bytes, *, from_server: bool) -> None:
        """Called with each piece that is passed; connections are numbered from 0 on."""

    def close(self) -> None:
        """End all connections and the thread; may be called again."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _order(self, act: Callable[[], object]) -> None:
        async def obey() -> None:
            act()

        asyncio.run_coroutine_threadsafe(obey(), self._loop).result()

    # --- the thread ------------------------------------------------------------------------------

    async def _end(self) -> None:
        self._refusing = True
        self._cut_all(reset=True)
        if self._server is not None:
            self._server.close()
        self._listener.close()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    async def _serve(self, client: StreamReader, to_client: StreamWriter) -> None:
        link = None
        with suppress(OSError):
            connecting = asyncio.open_connection(self.host, self._target(), limit=_PIECE)
            server, to_server = await asyncio.wait_for(connecting, _CONNECT_SECONDS)
            link = _Link(self.counts.connections, to_client, to_server)
        if link is None or self._refusing:
            for each in (to_client,) if link is None else (to_client, to_server):
                _close(each, reset=True)
            return
        link.passing.set()
        self.counts.connections += 1
        self._links.add(link)
        for each in (to_client, to_server):
            each.transport.set_write_buffer_limits(0)  # `drain` waits until all is sent
        await asyncio.gather(
            self._pass(link, client, to_server), self._pass(link, server, to_client)
        )
        self._drop(link, reset=False)

    async def _pass(self, link: _Link, reader: StreamReader, writer: StreamWriter) -> None:
        """Pass what one side sends, to its end."""
        try:
            while piece := await reader.read(_PIECE):
                await link.passing.wait()
                if writer is link.client:
                    await self._from_server(link, piece)
                else:
                    self.note(link.number, piece, from_server=False)
                    writer.write(piece)
                    await writer.drain()
            writer.write_eof()
        except OSError:
            self._drop(link, reset=True)

    async def _from_server(self, link: _Link, piece: bytes) -> None:
        """Pass a piece, or as much of it as comes before a cut."""
        left, last = self._left, False
        if left is not None:
            piece, last = piece[:left], 0 < left <= len(piece)
            self._left = left - len(piece)
        self.counts.from_server += len(piece)
        self.note(link.number, piece, from_server=True)
        link.client.write(piece)
        try:
            await link.client.drain()
        finally:
            if last:
                self._left = None
                self._cut_all(reset=self._reset_after)
                self._then()

    def _cut_all(self, *, reset: bool) -> None:
        for link in list(self._links):
            self._drop(link, reset=reset)

    def _drop(self, link: _Link, *, reset: bool) -> None:
        """Close both ends of a link."""
        if link in self._links:
            self._links.discard(link)
            link.passing.set()
            for writer in (link.client, link.server):
                _close(writer, reset=reset)


def _close(writer: StreamWriter, *, reset: bool) -> None:
    with suppress(OSError):
        if reset:
            own = writer.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
