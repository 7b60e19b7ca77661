"""Sockets that keep nobody waiting: dialled, secured, read and written within a time.

A server decides when its bytes come. Each wait here ends at a deadline, after a silence, or when
the reader that waits is closed by another thread.
"""

from __future__ import annotations

import errno
import math
import os
import select
import socket
import ssl
import threading
from concurrent.futures import Future
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

from tailrace.errors import ConnectionLost

if TYPE_CHECKING:
    from tailrace.live.compressed import Socket
    from tailrace.live.url import Host

_PIECE: Final = 64 << 10
"""Bytes that are taken from a socket in one go at least."""
_LARGEST_PIECE: Final = 1 << 20
"""And at most: memory grows with what came, not with what was announced."""

_LONGEST_POLL: Final = (1 << 31) - 1
"""Milliseconds that a poll can wait: 24 days."""


class Patience:
    """How long a server is waited for.

    ``deadline`` (`time.monotonic`) ends all waiting, ``silence`` is after how many seconds without
    a byte a wait ends; None is for ever. ``wake`` is a socket that is readable when nobody waits
    any longer.
    """

    def __init__(self, wake: socket.socket | None = None) -> None:
        self.deadline: float | None = None
        self.silence: float | None = None
        self._seconds = 0.0
        self._wake = wake

    def allow(self, seconds: float | None) -> None:
        """Set the deadline, so many seconds from now; None for none."""
        self._seconds = seconds or 0.0
        self.deadline = None if seconds is None else monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Seconds to the deadline; None where there is none."""
        return None if self.deadline is None else self.deadline - monotonic()

    def check(self) -> None:
        """Raise TimeoutError where the deadline has passed."""
        if self.deadline is not None and monotonic() >= self.deadline:
            raise TimeoutError(f"it took longer than {self._seconds:g} s in all")

    def wait(self, sock: Socket, event: int, most: float | None = None) -> None:
        """Wait until a socket is ready for ``event``, ``most`` seconds at most.

        Raises TimeoutError; OSError where the socket is closed, ConnectionLost where the reader
        was.
        """
        self.check()
        fd = sock.fileno()
        if fd < 0:  # another thread closed it
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        left = self.left
        limits = [limit for limit in (left, self.silence, most) if limit is not None]
        poll = select.poll()
        poll.register(fd, event)
        if self._wake is not None:
            wake = self._wake.fileno()
            if wake < 0:
                raise _closed()
            poll.register(wake, select.POLLIN)
        ready = poll.poll(_milliseconds(min(limits)) if limits else None)
        if any(found != fd for found, _ in ready):
            raise _closed()
        if not ready:
            self.check()
            raise TimeoutError(f"it said nothing for {min(limits):.3g} s")


def _milliseconds(seconds: float) -> int:
    return min(math.ceil(max(seconds, 0) * 1000), _LONGEST_POLL)


def _closed() -> ConnectionLost:
    return ConnectionLost("the reader was closed while it waited for its server")


def dial(host: Host, patience: Patience) -> socket.socket:
    """A socket that is connected to a host, not blocking.

    Of several addresses each has its part of the time. Raises OSError, ConnectionLost where the
    reader was closed, UnicodeError where the host name is invalid.
    """
    if host.socket is not None:
        return _connected(socket.AF_UNIX, 0, host.socket, patience, None)
    found = _resolved(host, patience)
    for number, (family, _, protocol, _, address) in enumerate(found, 1):
        left = patience.left
        share = None if left is None else left / (len(found) - number + 1)
        try:
            sock = _connected(family, protocol, address, patience, share)
        except OSError:
            if number == len(found):
                raise
        else:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return sock
    raise OSError(errno.EADDRNOTAVAIL, "the host has no address")


def _resolved(host: Host, patience: Patience) -> list[tuple[Any, ...]]:
    """What getaddrinfo knows of a host. It cannot be interrupted, so a thread waits for it.

    One that is given up ends when the resolver does, and keeps no process from its end.
    """
    found: Future[list[tuple[Any, ...]]] = Future()
    ours, theirs = socket.socketpair()

    def resolve() -> None:
        with theirs:  # its end wakes us
            try:
                found.set_result(socket.getaddrinfo(host.name, host.port, type=socket.SOCK_STREAM))
            except Exception as error:  # noqa: BLE001 - raised by the thread that waits
                found.set_exception(error)

    with ours:
        threading.Thread(target=resolve, name="tailrace resolver", daemon=True).start()
        try:
            patience.wait(ours, select.POLLIN)
        except TimeoutError as error:
            raise TimeoutError(f"the host name {host.name} was not resolved: {error}") from error
    return found.result()


def _connected(
    family: int, protocol: int, address: object, patience: Patience, share: float | None
) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM, protocol)
    try:
        sock.setblocking(False)
        code = sock.connect_ex(address)  # type: ignore[arg-type]  # of the family's kind
        if code == errno.EINPROGRESS:
            patience.wait(sock, select.POLLOUT, share)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    except BaseException:
        sock.close()
        raise
    if code:
        sock.close()
        raise OSError(code, os.strerror(code))
    return sock


def secure(
    sock: socket.socket, context: ssl.SSLContext, hostname: str, patience: Patience
) -> ssl.SSLSocket:
    """TLS on a connected socket, which it takes over. Raises ssl.SSLError, OSError."""
    sock.setblocking(False)
    secured = context.wrap_socket(sock, server_hostname=hostname, do_handshake_on_connect=False)
    try:
        while True:
            try:
                secured.do_handshake()
            except ssl.SSLWantReadError:
                patience.wait(secured, select.POLLIN)
            except ssl.SSLWantWriteError:
                patience.wait(secured, select.POLLOUT)
            else:
                return secured
    except BaseException:
        secured.close()
        raise


def send(sock: Socket, data: bytes, patience: Patience) -> None:
    """Send all of it, on a socket that is not blocking or has a timeout. Raises OSError."""
    left = memoryview(data)
    while left:
        try:
            left = left[sock.send(left) :]
        except (BlockingIOError, ssl.SSLWantWriteError):
            patience.wait(sock, select.POLLOUT)
        except ssl.SSLWantReadError:
            patience.wait(sock, select.POLLIN)


class ByteReader(Protocol):
    """What bytes of a server are read from: a buffered file, or `Incoming`."""

    def read(self, size: int, /) -> bytes:
        """So many bytes, fewer at the connection's end."""


def read_exactly(reader: ByteReader, size: int, name: str, timeout: float | None = None) -> bytes:
    """So many bytes of the server that errors call ``name``.

    Raises ConnectionLost, whose cause is the socket's error. ``timeout`` is the connection's read
    timeout in seconds, for the message; None leaves it out.
    """
    try:
        data = reader.read(size)
    except TimeoutError as error:
        text = f"{name}: the server did not answer in time: {error}"
        if timeout is not None:
            text = f"{name} sent nothing for {timeout:g} s (the connection's read_timeout)"
        raise ConnectionLost(text) from error
    except ConnectionLost as error:
        raise ConnectionLost(f"{name}: {error}") from error
    except (OSError, ValueError) as error:  # a closed file's reader raises ValueError
        raise ConnectionLost(f"{name}: the connection was lost: {error}") from error
    if len(data) < size:
        raise ConnectionLost(f"{name} ended the connection without a word")
    return data


class Incoming:
    """Reads a socket, plain, TLS or compressed, as a buffered file does; it takes the place of one.

    Memory is taken as bytes arrive. A timeout that is set on the socket becomes the silence that
    is borne; the socket itself is made non-blocking.
    """

    def __init__(self, sock: Socket, patience: Patience) -> None:
        self._socket = sock
        self._patience = patience
        self._held = bytearray()

    def read(self, size: int) -> bytes:
        """So many bytes, fewer at the connection's end. Raises OSError, ConnectionLost."""
        timeout = self._socket.gettimeout()
        if timeout != 0:
            self._patience.silence = timeout
            self._socket.setblocking(False)
        held = self._held
        while len(held) < size:
            piece = self._piece(min(max(size - len(held), _PIECE), _LARGEST_PIECE))
            if not piece:
                break
            held += piece
        out = bytes(memoryview(held)[:size])
        del held[:size]
        return out

    def _piece(self, most: int) -> bytes:
        self._patience.check()
        while True:
            try:
                return self._socket.recv(most)
            except (BlockingIOError, ssl.SSLWantReadError):
                self._patience.wait(self._socket, select.POLLIN)
            except ssl.SSLWantWriteError:
                self._patience.wait(self._socket, select.POLLOUT)

    def close(self) -> None:
        """Forget what came; the socket is its owner's to close."""
        self._held.clear()
