"""A TCP proxy before a server, to break connections with: cut, cut in mid-packet, stalled."""

from __future__ import annotations

import queue
import selectors
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tailrace.closing import Closing

if TYPE_CHECKING:
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
class _End:
    """One side of a link: its socket, and what is still to be sent to it."""

    socket: socket.socket
    is_server: bool
    connection: int  # its number
    waiting: bytearray = field(default_factory=bytearray)
    ended: bool = False  # it has sent FIN
    other: _End | None = None
    stalled: bool = False
    watched: int = 0  # the selector's events


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
        self._ends: set[_End] = set()
        self._left: int | None = None  # bytes that may still come from the server before a cut
        self._reset_after = False
        self._refusing = False
        self._then: Callable[[], object] = lambda: None  # what a cut does at its end
        self._orders: queue.SimpleQueue[tuple[Callable[[], object], threading.Event]] = (
            queue.SimpleQueue()
        )
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket()
        self._listener.bind((self.host, 0))
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        self._wake, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._running = True
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()
        if listening:
            self.listen()

    # --- orders, from any thread -----------------------------------------------------------------

    def listen(self) -> None:
        """Take connections."""

        def listen() -> None:
            self._listener.listen(64)
            self._selector.register(self._listener, selectors.EVENT_READ)

        self._order(listen)

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
        """Keep the connections, and pass nothing on them.

        What comes meanwhile waits in the kernel, as in a network that is gone.
        """
        self._order(lambda: self._set_stalled(True))

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
            self._set_stalled(False)

        self._order(resume)

    def ports(self) -> set[int]:
        """The ports on our side of the connections to the server: it lists its clients by them."""
        found: set[int] = set()

        def note() -> None:
            found.update(end.socket.getsockname()[1] for end in self._ends if end.is_server)

        self._order(note)
        return found

    def note(self, connection: int, piece: bytes, *, from_server: bool) -> None:
        """Called with each piece that is passed; connections are numbered from 0 on."""

    def close(self) -> None:
        """End all connections and the thread; may be called again."""
        if self._running:

            def end() -> None:
                self._running = False

            self._order(end)
        self._thread.join()

    def _order(self, act: Callable[[], object]) -> None:
        done = threading.Event()
        self._orders.put((act, done))
        with suppress(OSError):  # closed already
            self._wake.send(b"!")
        while not done.wait(0.5):
            if not self._thread.is_alive():
                raise RuntimeError("the proxy is closed")

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._running:
            for key, events in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._woken:
                    self._obey()
                else:
                    end: _End = key.data
                    if events & selectors.EVENT_WRITE and end in self._ends:
                        self._send(end)
                    if events & selectors.EVENT_READ and end in self._ends:
                        self._receive(end)
        self._cut_all(reset=True)
        for each in (self._listener, self._wake, self._woken):
            each.close()
        self._selector.close()

    def _obey(self) -> None:
        self._woken.recv(4096)
        with suppress(queue.Empty):
            while True:
                act, done = self._orders.get_nowait()
                act()
                done.set()

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:  # it has gone away already
            return
        try:
            if self._refusing:
                raise ConnectionRefusedError
            server = socket.create_connection((self.host, self._target()), _CONNECT_SECONDS)
        except OSError:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            client.close()
            return
        ends = [_End(each, each is server, self.counts.connections) for each in (client, server)]
        self.counts.connections += 1
        ends[0].other, ends[1].other = ends[1], ends[0]
        for end in ends:
            end.socket.setblocking(False)
            end.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._ends.add(end)
            self._watch(end)

    def _watch(self, end: _End) -> None:
        """Have the selector wait for what this end can do now; nothing while it is stalled."""
        other = end.other
        events = 0
        if not end.stalled and other is not None:
            if not end.ended and not other.waiting:
                events |= selectors.EVENT_READ
            if end.waiting:
                events |= selectors.EVENT_WRITE
        if events == end.watched:
            return
        if not end.watched:
            self._selector.register(end.socket, events, end)
        elif events:
            self._selector.modify(end.socket, events, end)
        else:
            self._selector.unregister(end.socket)
        end.watched = events

    def _receive(self, end: _End) -> None:
        other = end.other
        if other is None:
            return
        try:
            piece = end.socket.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError:
            self._drop(end, reset=True)
            return
        if not piece:
            end.ended = True
            with suppress(OSError):
                other.socket.shutdown(socket.SHUT_WR)
            if other.ended:
                self._drop(end, reset=False)
            else:
                self._watch(end)
            return
        if end.is_server:
            self._from_server(other, piece)
        else:
            self._pass(other, piece)

    def _from_server(self, client: _End, piece: bytes) -> None:
        last = self._left is not None and len(piece) >= self._left
        if self._left is not None:
            piece = piece[: self._left]
            self._left -= len(piece)
        self.counts.from_server += len(piece)
        self._pass(client, piece)
        if last:
            self._left = None
            if client in self._ends and client.waiting:  # a reader that is slow gets them first
                client.socket.settimeout(_CONNECT_SECONDS)
                with suppress(OSError):
                    client.socket.sendall(client.waiting)
            self._cut_all(reset=self._reset_after)
            self._then()

    def _pass(self, end: _End, piece: bytes) -> None:
        self.note(end.connection, piece, from_server=not end.is_server)
        end.waiting += piece
        self._send(end)

    def _send(self, end: _End) -> None:
        try:
            sent = end.socket.send(end.waiting)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._drop(end, reset=True)
            return
        del end.waiting[:sent]
        self._watch(end)
        if end.other is not None:
            self._watch(end.other)

    def _set_stalled(self, stalled: bool) -> None:
        for end in list(self._ends):
            end.stalled = stalled
            self._watch(end)

    def _cut_all(self, *, reset: bool) -> None:
        for end in [end for end in self._ends if end.is_server]:
            self._drop(end, reset=reset)

    def _drop(self, end: _End, *, reset: bool) -> None:
        """Close both ends of a link."""
        for each in (end, end.other):
            if each is None or each not in self._ends:
                continue
            self._ends.discard(each)
            if each.watched:
                self._selector.unregister(each.socket)
            if reset:
                with suppress(OSError):
                    each.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            each.socket.close()
