"""A replica's connection after its login: packets, for a thread that sends and one that reads."""

from __future__ import annotations

import select
import socket
import ssl
from contextlib import suppress
from struct import Struct
from threading import Condition, Lock
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

from tailrace.errors import ConnectionLost, MalformedPacket
from tailrace.observers.variables import UserVariables
from tailrace.wire.packets import HEADER_SIZE, LARGEST, frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.wire.packets import Data

LONGEST_COMMAND: Final = 64 << 20
"""Bytes of the longest payload that is read: a GTID set with millions of intervals."""
_BUFFER: Final = 16 << 10
"""Bytes that are buffered before `ReplicaConnection.write` sends them."""
_PIECE: Final = 256 << 10
"""The largest size of one send, in bytes."""
_READ: Final = 64 << 10
_HUNG_UP: Final = getattr(select, "POLLRDHUP", 0)
_HEAD: Final = Struct("<I").pack
"""A packet's header: the length has 24 bits, the number is above."""
_QUIT: Final = b"\x01\x00\x00\x00\x01"


G = TypeVar("G")
R = TypeVar("R")


class PartialPackets:
    """What the connections of a source hold of packets that are incomplete, or being processed.

    All together hold ``most`` bytes. One that brings them above closes the connection that holds
    the most, and waits until that has released its bytes. A connection's first `_READ` bytes do not
    count.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed = Condition()
        self._held: dict[ReplicaConnection, int] = {}

    def hold(self, connection: ReplicaConnection, size: int) -> None:
        """Note what a connection holds now."""
        with self._changed:
            if size > _READ:
                self._held[connection] = size
            else:
                self._held.pop(connection, None)
            self._changed.notify_all()
            while not connection.is_closed and sum(self._held.values()) > self._most:
                left = {each: size for each, size in self._held.items() if not each.is_closed}
                if sum(left.values()) > self._most:
                    largest = max(left, key=left.__getitem__)
                    largest.close("it held the most memory of all clients, with a large packet")
                    self._changed.notify_all()
                else:
                    self._changed.wait()


class _WouldBlock(Exception):
    """The socket has to wait for an event of `select.poll`."""

    def __init__(self, event: int) -> None:
        super().__init__(event)
        self.event = event


class ReplicaConnection:
    """The connection of a client that has logged in; its fields tell whose it is.

    One thread may send (`send`, `write`, `flush`), and one other may read at the same time (`read`,
    `poll`). `close` may be called by any thread: then every other call raises ConnectionLost, also
    one that waits. ``sock`` is taken over and becomes non-blocking. ``write_timeout`` is for how
    many seconds the client may read nothing of what is sent (mysqld's ``net_write_timeout``).
    ``partial`` limits the memory of all connections that share it.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        user: str,
        host: str,
        port: int,
        thread_id: int,
        write_timeout: float = 60.0,
        partial: PartialPackets | None = None,
    ) -> None:
        self.sequence = 0
        """The number of the next packet to send, 0 to 255."""
        self.variables = UserVariables()
        """The user variables of this session, ``@name`` in SQL."""
        self.user = user
        self.host = host
        self.port = port
        self.thread_id = thread_id
        self.name = f"{user}@{host}:{port}"
        """For messages."""
        self._socket = sock
        self._tls = sock if isinstance(sock, ssl.SSLSocket) else None
        self._lock = Lock()  # OpenSSL allows one call at a time
        self._held = bytearray()
        self._partial = partial or PartialPackets(2 * LONGEST_COMMAND)
        self._out = bytearray()
        self._write_timeout = write_timeout
        self._closed = ""
        sock.setblocking(False)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return bool(self._closed)

    @property
    def is_tls(self) -> bool:
        """Whether it goes through TLS."""
        return self._tls is not None

    def reset(self) -> None:
        """Forget the session's user variables."""
        self.variables = UserVariables()

    # --- sending ---------------------------------------------------------------------------------

    def send(self, framed: Data) -> None:
        """Send packets that are framed already, numbered from `sequence` on.

        The caller adds their number to `sequence`. What `write` buffered goes before them.
        """
        self.flush()
        self._send(framed)

    def write(self, payload: bytes | bytearray) -> None:
        """Put a payload into the write buffer, as a packet (or more, above 16 MiB)."""
        if len(self._out) >= _BUFFER:
            self.flush()
        size = len(payload)
        if size < LARGEST:
            self._out += _HEAD(size | self.sequence << 24)
            self._out += payload
        else:
            self._out += frame(payload, self.sequence)
        self.sequence = (self.sequence + size // LARGEST + 1) & 0xFF

    def flush(self) -> None:
        """Send what the buffer has."""
        if self._out:
            out, self._out = self._out, bytearray()
            self._send(out)

    def _send(self, data: Data) -> None:
        left = memoryview(data).cast("B")
        deadline = monotonic() + self._write_timeout
        while left:
            try:
                sent = self._call(self._socket.send, left[:_PIECE], select.POLLOUT)
            except _WouldBlock as blocked:
                if not self._wait(blocked.event, deadline):
                    self.close("it read nothing of what was sent to it for too long")
            else:
                left = left[sent:]
                deadline = monotonic() + self._write_timeout

    # --- reading ---------------------------------------------------------------------------------

    def read(self) -> bytes:
        """One packet's payload; waits for it. Raises MalformedPacket."""
        return self._next(None)[1]

    def read_command(self, timeout: float | None = None) -> bytes:
        """As `read`, for a packet that is answered: `sequence` becomes the answer's number.

        Waits ``timeout`` seconds at most, then the connection is closed.
        """
        number, payload = self._next(None if timeout is None else monotonic() + timeout)
        self.sequence = (number + 1) & 0xFF
        return payload

    def poll(self) -> bytes | None:
        """One packet's payload if it has arrived whole, else None. Raises MalformedPacket."""
        self.processed()
        while (found := self._take()) is None:
            try:
                self._fill()
            except _WouldBlock:
                return None
        return found[1]

    def processed(self) -> None:
        """The packet that was read last is not kept any more, so it does not count as held. The
        next read implies it.
        """
        self._partial.hold(self, len(self._held))

    def fileno(self) -> int:
        """The socket's number, for a selector; -1 after `release`."""
        return self._socket.fileno()

    def pending(self) -> bool:
        """Whether a packet, or a part of one, was received that no selector shows."""
        if self._whole() is not None:
            return True
        return self._tls is not None and self._tls.pending() > 0

    def _next(self, deadline: float | None) -> tuple[int, bytes]:
        self.processed()
        while (found := self._take()) is None:
            try:
                self._fill()
            except _WouldBlock as blocked:
                if not self._wait(blocked.event, deadline):
                    self.close("it sent nothing for too long")
        return found

    def _fill(self) -> None:
        """Read what has arrived. Raises _WouldBlock."""
        found = self._call(self._socket.recv, _READ, select.POLLIN)
        if not found:
            self.close("it ended the connection")
            self._check()
        self._held += found
        self._partial.hold(self, len(self._held))

    def _whole(self) -> list[tuple[int, int, int]] | None:
        """Number, begin and end of the packets of the first payload; None before it is there."""
        parts, at, total, size = [], 0, 0, LARGEST
        while size == LARGEST:
            head = self._held[at : at + HEADER_SIZE]
            if len(head) < HEADER_SIZE:
                return None
            size = int.from_bytes(head[:3], "little")
            total += size
            if total > LONGEST_COMMAND:
                self.close("it sent too large a packet")
                raise MalformedPacket(f"{self.name}: a packet of more than {LONGEST_COMMAND} bytes")
            at += HEADER_SIZE + size
            parts.append((head[3], at - size, at))
        return parts if len(self._held) >= at else None

    def _take(self) -> tuple[int, bytes] | None:
        """The last packet's number, and the payload."""
        parts = self._whole()
        if parts is None:
            return None
        with memoryview(self._held) as held:
            payload = b"".join(held[start:end] for _, start, end in parts)
        del self._held[: parts[-1][2]]
        return parts[-1][0], payload

    # --- the socket ------------------------------------------------------------------------------

    def is_gone(self) -> bool:
        """Whether the client has closed its end; nothing is read by this, and nothing waits."""
        if self._closed:
            return True
        poll = select.poll()
        fd = self._socket.fileno()
        if fd < 0:
            return True
        poll.register(fd, select.POLLIN | _HUNG_UP)
        ready = poll.poll(0)
        events = ready[0][1] if ready else 0
        if events & (_HUNG_UP | select.POLLHUP | select.POLLERR | select.POLLNVAL):
            return True
        if _HUNG_UP or not events:
            return False
        with suppress(OSError):  # the system does not tell: look at what came
            seen = socket.socket.recv(self._socket, len(_QUIT), socket.MSG_PEEK)
            return seen in (b"", _QUIT)
        return True

    def close(self, reason: str = "it was closed") -> None:
        """End the connection; the first ``reason`` is the one in the errors of all other calls.

        The socket itself is closed by `release`, when no thread uses it any more.
        """
        self._closed = self._closed or reason
        with suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def release(self) -> None:
        """Close the socket, too, and forget the user variables."""
        self.close()
        self.reset()
        self._held = bytearray()
        self._partial.hold(self, 0)
        with suppress(OSError):
            self._socket.close()

    def _check(self) -> None:
        if self._closed:
            raise ConnectionLost(f"{self.name}: {self._closed}")

    def _call(self, method: Callable[[G], R], given: G, event: int) -> R:
        """Call the socket; ``event`` is what it would wait for. Raises _WouldBlock."""
        self._check()
        try:
            with self._lock:
                return method(given)
        except BlockingIOError:
            raise _WouldBlock(event) from None
        except ssl.SSLWantReadError:
            raise _WouldBlock(select.POLLIN) from None
        except ssl.SSLWantWriteError:
            raise _WouldBlock(select.POLLOUT) from None
        except (OSError, ValueError) as error:  # a closed TLS socket raises ValueError
            self.close(f"the connection was lost: {error}")
            self._check()
            raise

    def _wait(self, event: int, deadline: float | None) -> bool:
        """Wait for an event of the socket; False if the time is over."""
        self._check()
        poll = select.poll()
        poll.register(self._socket.fileno(), event)
        left = None if deadline is None else max(deadline - monotonic(), 0)
        ready = poll.poll(None if left is None else int(left * 1000) + 1)
        self._check()
        return bool(ready)
