"""The socket of a connection, with its layers: TLS, compression, and limits of time.

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
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from tailrace.errors import ConnectionLost
from tailrace.wire.compressed import Decompressor, compressed

if TYPE_CHECKING:
    from tailrace.live.url import Host
    from tailrace.wire.compressed import ConnectionCompression

_PIECE: Final = 64 << 10
"""The smallest size of one read from a socket, in bytes."""
_LARGEST_PIECE: Final = 1 << 20
"""The largest size of one read: memory grows with the bytes received, not with a size announced."""

_LONGEST_POLL: Final = (1 << 31) - 1
"""The longest time that a poll can wait, in milliseconds: 24 days."""


class Patience:
    """The time limits for a server's answers.

    ``deadline`` (`time.monotonic`) ends all waiting. A wait also ends after ``silence`` seconds
    without a byte. None is for ever. ``wake`` is a socket that becomes readable when waiting has to
    end.
    """

    def __init__(self, wake: socket.socket | None = None) -> None:
        self.deadline: float | None = None
        self.silence: float | None = None
        self._seconds = 0.0
        self._wake = wake

    def allow(self, seconds: float | None) -> None:
        """Set the deadline to ``seconds`` from now; None for none."""
        self._seconds = seconds or 0.0
        self.deadline = None if seconds is None else monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Seconds to the deadline; None where there is none."""
        return None if self.deadline is None else self.deadline - monotonic()

    def check(self) -> None:
        """Raise TimeoutError where the deadline has passed."""
        if self.deadline is not None and monotonic() >= self.deadline:
            raise TimeoutError(f"it took longer than {self._seconds:g} s in total")

    def wait(self, sock: Socket, event: int, most: float | None = None) -> None:
        """Wait until a socket is ready for ``event``, ``most`` seconds at most.

        Raises TimeoutError; OSError if the socket is closed; ConnectionLost if the reader is.
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
    """A non-blocking socket that is connected to a host.

    If the host has several addresses, each gets its part of the time. Raises OSError;
    ConnectionLost if the reader was closed; UnicodeError if the host name is invalid.
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
    """The addresses of a host. `getaddrinfo` cannot be interrupted, so a thread waits for it.

    An abandoned thread ends when the resolver returns, and does not keep the process alive.
    """
    found: Future[list[tuple[Any, ...]]] = Future()
    ours, theirs = socket.socketpair()

    def resolve() -> None:
        with theirs:  # closing it wakes us
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
    """Start TLS on a connected socket, and take the socket over. Raises ssl.SSLError, OSError."""
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
    """Send all bytes, on a socket that is non-blocking or has a timeout. Raises OSError."""
    left = memoryview(data)
    while left:
        try:
            left = left[sock.send(left) :]
        except (BlockingIOError, ssl.SSLWantWriteError):
            patience.wait(sock, select.POLLOUT)
        except ssl.SSLWantReadError:
            patience.wait(sock, select.POLLIN)


class ByteReader(Protocol):
    """A reader of a server's bytes: a buffered file, or `Incoming`."""

    def read(self, size: int, /) -> bytes:
        """Read ``size`` bytes, fewer at the connection's end."""


def read_exactly(reader: ByteReader, size: int, name: str, timeout: float | None = None) -> bytes:
    """Read ``size`` bytes from the server ``name`` (for errors).

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
        raise ConnectionLost(f"{name} ended the connection without an error message")
    return data


class Incoming:
    """Reads a socket (plain, TLS or compressed) as a buffered file does, and replaces one.

    Memory grows as bytes arrive. A timeout that is set on the socket becomes the limit for silence;
    the socket itself is made non-blocking.
    """

    def __init__(self, sock: Socket, patience: Patience) -> None:
        self._socket = sock
        self._patience = patience
        self._held = bytearray()

    def read(self, size: int) -> bytes:
        """Read ``size`` bytes, fewer at the connection's end. Raises OSError, ConnectionLost."""
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

    def ahead(self) -> bytearray:
        """What has arrived and was not read, some bytes at least; the caller removes what it took
        from the front. Raises OSError, ConnectionLost.
        """
        if not self._held:
            self._held += self._piece(_PIECE)
        return self._held

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
        """Do nothing: another thread may be reading, and the socket's owner closes the socket."""


class CompressedSocket:
    """The socket methods that a connection uses, with compressed packets on the socket ``below``.

    Where `recv`, `recv_into` and `send` would block, they raise what those of ``below`` raise. The
    caller then calls them again, `send` with the same bytes. Each call of `send` takes whole
    packets. Receiving raises MalformedPacket.
    """

    def __init__(self, below: socket.socket, compression: ConnectionCompression, name: str) -> None:
        self.below = below
        self._compression = compression
        self._incoming = Decompressor(compression, name)
        self._plain = memoryview(b"")
        self._outgoing = memoryview(b"")

    # --- receiving -------------------------------------------------------------------------------

    def recv(self, most: int) -> bytes:
        """At most so many bytes; none at the connection's end."""
        if not self._fill():
            return b""
        piece, self._plain = self._plain[:most], self._plain[most:]
        return bytes(piece)

    def recv_into(self, memory: memoryview) -> int:
        """As `recv`, into the given memory; returns the number of bytes."""
        if not self._fill():
            return 0
        size = min(len(memory), len(self._plain))
        memory[:size] = self._plain[:size]
        self._plain = self._plain[size:]
        return size

    def _fill(self) -> bool:
        """Make bytes available; False at the connection's end."""
        incoming = self._incoming
        while not self._plain:
            plain = incoming.take()
            if plain is not None:
                self._plain = memoryview(plain)
                break
            piece = self.below.recv(min(max(incoming.wanted, _PIECE), _LARGEST_PIECE))
            if not piece:
                return False
            incoming.feed(piece)
        return True

    def pending(self) -> int:
        """The number of bytes that are available without reading the socket below."""
        if self._plain:
            return len(self._plain)
        if not self._incoming.wanted:
            return 1
        pending = getattr(self.below, "pending", None)  # TLS has it
        return int(pending()) if pending else 0

    # --- sending ---------------------------------------------------------------------------------

    def send(self, packets: memoryview) -> int:
        """Send whole packets; all of them have been sent when it returns."""
        if not self._outgoing:
            self._outgoing = memoryview(compressed(packets, self._compression))
        while self._outgoing:
            self._outgoing = self._outgoing[self.below.send(self._outgoing) :]
        return len(packets)

    # --- the socket below ------------------------------------------------------------------------

    def fileno(self) -> int:
        """The file descriptor to wait on; -1 where it is closed."""
        return self.below.fileno()

    def gettimeout(self) -> float | None:
        """The timeout of the socket below, in seconds."""
        return self.below.gettimeout()

    def settimeout(self, seconds: float | None) -> None:
        """Set the timeout of the socket below."""
        self.below.settimeout(seconds)

    def setblocking(self, blocking: bool) -> None:
        """Set whether the socket below blocks."""
        self.below.setblocking(blocking)

    def shutdown(self, how: int) -> None:
        """End one or both directions of the socket below."""
        self.below.shutdown(how)

    def close(self) -> None:
        """Close the socket below."""
        self.below.close()


Socket: TypeAlias = "socket.socket | CompressedSocket"
"""The socket of a connection; with TLS, an `ssl.SSLSocket`."""
