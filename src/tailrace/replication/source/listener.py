"""Accepts clients and lets them log in: one thread for all of them, until they have.

A client that has not logged in costs a socket and a few kilobytes. It has no thread; its login has
to be complete within `Limits.seconds`; it may send `LONGEST_LOGIN` bytes at most. If too many log
in at a time, the oldest one of the address with the most of them is dropped.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import selectors
import socket
import ssl
from collections import Counter, OrderedDict
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from threading import Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final, Self

from tailrace.live.listening import listening
from tailrace.live.url import is_loopback
from tailrace.printable import printable
from tailrace.replication.source.connection import (
    LONGEST_COMMAND,
    PartialPackets,
    ReplicaConnection,
)
from tailrace.replication.source.login import Login, State
from tailrace.wire.packets import HEADER_SIZE, ErrorPacket, frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.replication.source.users import Users

LONGEST_LOGIN: Final = 64 << 10
"""Bytes that a client may send before it has logged in."""
_LONGEST_PACKET: Final = 32 << 10
_LEAVING_SECONDS: Final = 1.0
_ADDRESSES: Final = 4096
_BACKLOG: Final = 512
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_RETRY_SECONDS: Final = 0.05
_OWN_FILES: Final = 32
"""Files that a process has open besides: the port, the logs' list, libraries."""
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """What clients may use.

    ``logins`` may log in at the same time, for ``seconds`` each. After ``failures`` wrong passwords
    in a minute an address is turned away for the rest of it. ``connections`` may be logged in: one
    more gets error 1040; ``user_connections`` of them as one user (None: all): one more gets error
    1226. ``packets`` is how many bytes of large packets all of them hold together: above it, the
    one that holds the most is disconnected. `within_files` is what a process can hold of them.
    """

    logins: int = 256
    seconds: float = 10.0
    failures: int = 10
    connections: int = 1000
    user_connections: int | None = None
    packets: int = 2 * LONGEST_COMMAND

    def within_files(self, files: int) -> Self:
        """These limits for a process that may have ``files`` open.

        A quarter of them is for logins; a connection takes two, its socket and the log that it
        reads, so that clients which log in and do nothing cannot keep others from reading.
        """
        logins = max(min(self.logins, files // 4), 1)
        connections = max(min(self.connections, (files - logins - _OWN_FILES) // 2), 1)
        return replace(self, logins=logins, connections=connections)


class _Failures:
    """Wrong passwords by address, in windows of a minute."""

    _SECONDS: Final = 60.0

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def add(self, address: str) -> None:
        now = monotonic()
        since, number = self._counts.pop(address, (now, 0))
        if now - since >= self._SECONDS:
            since, number = now, 0
        self._counts[address] = since, number + 1
        if len(self._counts) > _ADDRESSES:
            self._counts.popitem(last=False)

    def blocks(self, address: str) -> bool:
        since, number = self._counts.get(address, (0.0, 0))
        return number >= self._most and monotonic() - since < self._SECONDS


class _Client:
    """A client that has not logged in."""

    def __init__(self, sock: socket.socket, host: str, port: int, thread_id: int) -> None:
        self.sock = sock
        self.host = host
        self.port = port
        self.thread_id = thread_id
        self.deadline = 0.0
        self.login: Login | None = None
        """None for one that is only told why it is turned away."""
        self.sequence = 0
        self.got = bytearray()
        self.total = 0
        self.out = bytearray()
        self.leaving = False
        """Nothing more is read from it: it gets its error, and the connection ends."""


class Listener:
    """Listens, in a thread of its own, from `start` to `stop`.

    ``logged_in`` is called in that thread with each connection that has logged in: it must not
    wait, and returns False if it does not take it. ``no_room`` says why no more may log in, or no
    more as this user; None if one may.
    ``context`` is for TLS, None to offer none; ``must_encrypt`` rejects logins without TLS, except
    from the loopback.
    """

    def __init__(
        self,
        host: str,
        port: int,
        users: Users,
        version: Callable[[], str],
        logged_in: Callable[[ReplicaConnection], bool],
        no_room: Callable[[str | None], ErrorPacket | None],
        *,
        context: ssl.SSLContext | None = None,
        must_encrypt: bool = True,
        limits: Limits | None = None,
    ) -> None:
        self._limits = limits or Limits()
        self._users = users
        self._version = version
        self._logged_in = logged_in
        self._no_room = no_room
        self._context = context
        self._must_encrypt = must_encrypt
        self._partial = PartialPackets(self._limits.packets)
        self._failures = _Failures(self._limits.failures)
        self._numbers = count(1)
        self._clients: dict[int, _Client] = {}
        self._socket = listening(host, port, _BACKLOG)
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        """The port that it listens on."""
        self.failed_logins = 0
        """Wrong passwords since the start."""
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._stopping = False
        self._thread = Thread(target=self._run, name="tailrace listener", daemon=True)

    @property
    def pending(self) -> int:
        """How many clients are logging in."""
        return len(self._clients)

    def start(self) -> None:
        """Accept clients from now on."""
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread.start()

    def stop(self) -> None:
        """Close the port and drop all that have not logged in."""
        self._stopping = True
        with suppress(OSError):
            self._wake.send(b"x")
        if self._thread.ident is not None:
            self._thread.join()
        for sock in (self._socket, self._wake, self._woken):
            sock.close()
        self._selector.close()

    # --- the loop --------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            nearest = min((each.deadline for each in self._clients.values()), default=None)
            wait = None if nearest is None else max(nearest - monotonic(), 0)
            for key, _ in self._selector.select(wait):
                if key.fileobj is self._socket:
                    self._accept()
                elif key.data is not None:
                    self._guarded(key.data)
            now = monotonic()
            for client in [each for each in self._clients.values() if each.deadline <= now]:
                self._drop(client)
        for client in list(self._clients.values()):
            self._drop(client)

    def _accept(self) -> None:
        for _ in range(_BACKLOG):
            try:
                sock, address = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:  # the client is gone, or the process has too many files
                if error.errno in _EXHAUSTED:
                    _LOG.warning("a client was not accepted: %s", error)
                    self._make_room()
                    sleep(_RETRY_SECONDS)
                return
            sock.setblocking(False)
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._greet(_Client(sock, _plain(address[0]), address[1], self._thread_id()))

    def _thread_id(self) -> int:
        return next(self._numbers) & 0xFFFFFFFF

    def _greet(self, client: _Client) -> None:
        if len(self._clients) >= self._limits.logins:
            self._make_room()
        client.deadline = monotonic() + self._limits.seconds
        self._clients[client.sock.fileno()] = client
        self._selector.register(client.sock, selectors.EVENT_READ, client)
        if self._failures.blocks(_network(client.host)):
            text = f"Host '{client.host}' is blocked because of many wrong passwords: wait a minute"
            self._leave(client, ErrorPacket(1129, None, text))
        elif (full := self._no_room(None)) is not None:
            self._leave(client, replace(full, sqlstate=None))
        else:
            client.login = Login(
                self._users,
                self._version(),
                client.thread_id,
                client.host,
                offers_tls=self._context is not None,
                must_encrypt=self._must_encrypt and not is_loopback(client.host),
            )
            self._put(client, client.login.greeting)
        self._guarded(client)

    def _make_room(self) -> None:
        """Drop the oldest login of the address that has the most."""
        hosts = Counter(each.host for each in self._clients.values()).most_common(1)
        if hosts:
            busiest = hosts[0][0]
            self._drop(next(each for each in self._clients.values() if each.host == busiest))

    def _guarded(self, client: _Client) -> None:
        """Continue with a client as far as it goes without waiting."""
        try:
            event = self._continue(client)
        except (OSError, ValueError):  # ssl.SSLError is an OSError
            self._drop(client)
            return
        except Exception:  # noqa: BLE001 - one client must not end the others
            _LOG.exception("the login of %s failed", client.host)
            self._drop(client)
            return
        if event:
            self._selector.modify(client.sock, event, client)

    def _continue(self, client: _Client) -> int:
        """The event to wait for; 0 if the client is no longer ours."""
        while True:
            try:
                if client.out:
                    sent = client.sock.send(client.out)
                    del client.out[:sent]
                    continue
                state = client.login.state if client.login is not None else State.OUT
                if client.leaving:
                    if not self._discard(client):
                        return 0
                elif state is State.TLS:
                    self._secure(client)
                elif state is State.IN:
                    self._hand_over(client)
                    return 0
                elif not self._read(client):
                    self._drop(client)
                    return 0
            except (BlockingIOError, ssl.SSLWantReadError):
                writes = bool(client.out) and not isinstance(client.sock, ssl.SSLSocket)
                return selectors.EVENT_WRITE if writes else selectors.EVENT_READ
            except ssl.SSLWantWriteError:
                return selectors.EVENT_WRITE

    def _read(self, client: _Client) -> bool:
        """Read one packet's next bytes, never more: TLS may begin behind it. False at the end."""
        login = client.login
        if login is None:
            return False
        head = client.got[:HEADER_SIZE]
        size = int.from_bytes(head[:3], "little") if len(head) == HEADER_SIZE else 0
        piece = client.sock.recv(HEADER_SIZE + size - len(client.got))
        client.got += piece
        client.total += len(piece)
        if len(client.got) == HEADER_SIZE:
            size = int.from_bytes(client.got[:3], "little")
            if size > _LONGEST_PACKET or client.total + size > LONGEST_LOGIN:
                self._leave(client, ErrorPacket(1153, "08S01", "Got a packet that is too large"))
            elif client.got[3] != client.sequence:
                self._leave(client, ErrorPacket(1156, "08S01", "Got packets out of order"))
            elif not size:
                self._received(client, login)
        elif len(client.got) == HEADER_SIZE + size and len(head) == HEADER_SIZE:
            self._received(client, login)
        return bool(piece)

    def _received(self, client: _Client, login: Login) -> None:
        payload = bytes(client.got[HEADER_SIZE:])
        client.got.clear()
        client.sequence = (client.sequence + 1) & 0xFF
        answers = login.receive(payload)
        if login.state is State.IN and (full := self._no_room(login.user)) is not None:
            self._leave(client, full)
            return
        for answer in answers:
            self._put(client, answer)
        if login.denied:
            self.failed_logins += 1
            self._failures.add(_network(client.host))
            _LOG.warning("access denied for %s from %s", printable(login.user), client.host)
        if login.state is State.OUT:
            self._leave(client, None)

    def _secure(self, client: _Client) -> None:
        if not isinstance(client.sock, ssl.SSLSocket):
            if self._context is None:
                raise ValueError("no TLS is offered")
            self._selector.unregister(client.sock)
            del self._clients[client.sock.fileno()]
            plain = client.sock
            try:
                client.sock = self._context.wrap_socket(
                    plain, server_side=True, do_handshake_on_connect=False
                )
            finally:  # its socket is ours also where this failed
                self._clients[client.sock.fileno()] = client
                self._selector.register(client.sock, selectors.EVENT_READ, client)
        client.sock.do_handshake()
        if client.login is not None:
            client.login.secured()

    def _hand_over(self, client: _Client) -> None:
        self._forget(client)
        connection = ReplicaConnection(
            client.sock,
            user=client.login.user if client.login is not None else "",
            host=client.host,
            port=client.port,
            thread_id=client.thread_id,
            partial=self._partial,
        )
        if not self._logged_in(connection):
            connection.release()

    # --- the end ---------------------------------------------------------------------------------

    def _put(self, client: _Client, payload: bytes) -> None:
        client.out += frame(payload, client.sequence)
        client.sequence = (client.sequence + 1) & 0xFF

    def _leave(self, client: _Client, error: ErrorPacket | None) -> None:
        """Send an error, then end the connection, but leave the client a second to read it."""
        if error is not None:
            self._put(client, error.encode())
        client.leaving = True
        client.got = bytearray()
        client.deadline = min(client.deadline, monotonic() + _LEAVING_SECONDS)

    def _discard(self, client: _Client) -> bool:
        """Read what still comes: a socket that is closed before loses what was sent to it."""
        with suppress(OSError):
            socket.socket.shutdown(client.sock, socket.SHUT_WR)
        piece = socket.socket.recv(client.sock, 4096)
        client.total += len(piece)
        if not piece or client.total > LONGEST_LOGIN:
            self._drop(client)
            return False
        return True

    def _forget(self, client: _Client) -> None:
        del self._clients[client.sock.fileno()]
        self._selector.unregister(client.sock)

    def _drop(self, client: _Client) -> None:
        if self._clients.get(client.sock.fileno()) is client:
            self._forget(client)
        with suppress(OSError):
            client.sock.close()


def _plain(host: str) -> str:
    """An address as text, an IPv4 address of a dual socket as what it is."""
    found = ipaddress.ip_address(host.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


def _network(host: str) -> str:
    """What failed logins are counted by: an IPv4 address, or the /64 of an IPv6 address."""
    found = ipaddress.ip_address(host)
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((found, 64), strict=False))
    return host
