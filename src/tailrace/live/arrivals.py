"""A socket's bytes in one buffer, read in large pieces."""

from __future__ import annotations

import selectors
import ssl
from array import array
from time import monotonic
from typing import TYPE_CHECKING, Final

from tailrace.errors import ConnectionLost, HeartbeatTimeout
from tailrace.live.chunks import PADDING
from tailrace.wire.unframe import BEGIN, COUNT, END, READ, STATE_WORDS, WRITE

if TYPE_CHECKING:
    import socket

    from tailrace.live.compressed import Socket

SIZE: Final = 4 << 20
"""Bytes of a buffer; it grows for a larger packet, and shrinks when that is consumed."""
_PARTS: Final = 8
"""The number of waits into which the time limit for silence is divided."""
_WANTS = (BlockingIOError, InterruptedError, ssl.SSLWantReadError)


class Arrivals:
    """The bytes that came on a socket and are not consumed: ``data[state[READ]:state[END]]``.

    The socket (plain, TLS or compressed) is made non-blocking and belongs to this object's reader.
    ``wake`` is a socket that becomes readable when a wait has to end. After ``silence`` seconds
    without a byte the source counts as lost (0: never). ``name`` is the source's name in errors.
    """

    def __init__(
        self,
        sock: Socket,
        *,
        name: str,
        silence: float,
        wake: socket.socket | None = None,
        size: int | None = None,
    ) -> None:
        size = size or SIZE
        self.data = memoryview(bytearray(size + PADDING))
        self.state: array[int] = array("q", bytes(8 * STATE_WORDS))
        self.heard_at = self._listened = monotonic()
        self._capacity = self._usual = size
        self._socket = sock
        self._pending = getattr(sock, "pending", None)  # TLS and compression have it
        self._name = name
        self.silence = silence
        sock.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(sock, selectors.EVENT_READ)
        if wake is not None:
            self._selector.register(wake, selectors.EVENT_READ)

    heard_at: float
    """When the last bytes came, by `time.monotonic`; later if we have not listened since then."""

    def close(self) -> None:
        """Stop watching the socket. Its owner closes it."""
        self._selector.close()

    def ready(self) -> bool:
        """Whether bytes can be read without waiting."""
        if self._pending is not None and self._pending():
            return True
        return any(key.fileobj is self._socket for key, _ in self._selector.select(0))

    def fill(self, need: int, room: int, deadline: float | None) -> bool:
        """Read until ``need`` bytes from READ on have come, and then all that is available.

        The chunk in the buffer becomes invalid. ``room`` is the announced size of the packet at
        READ in bytes, if it is known: the buffer grows towards it as bytes come. Returns False if
        ``deadline`` (`time.monotonic`) has passed or the reader was woken. Raises ConnectionLost,
        HeartbeatTimeout.
        """
        state = self.state
        self._make_room(max(need, min(room, 2 * (state[END] - state[READ]))))
        if monotonic() - self._listened > self.silence / 2:
            self.heard_at = monotonic()  # we did not listen, so this was no silence of the source
        try:
            while True:
                self._read()
                if state[END] - state[READ] >= need:
                    return True
                if not self._wait(deadline):
                    return False
        finally:
            self._listened = monotonic()

    def _make_room(self, wanted: int) -> None:
        """Move the unread bytes to the buffer's front, and make room for ``wanted`` bytes."""
        state = self.state
        read, left = state[READ], state[END] - state[READ]
        if wanted > self._capacity or self._capacity > self._usual >= wanted > left:
            size = max(wanted, left, self._usual)
            larger = memoryview(bytearray(size + PADDING))
            larger[:left] = self.data[read : read + left]
            self.data, self._capacity = larger, size
        elif read and left:
            self.data[:left] = self.data[read : read + left]
        state[READ] = state[BEGIN] = state[WRITE] = state[COUNT] = 0
        state[END] = left

    def _read(self) -> None:
        """Read all that is available, up to the free room."""
        state, capacity = self.state, self._capacity
        before = end = state[END]
        lost: OSError | str | None = None
        while end < capacity:
            try:
                count = self._socket.recv_into(self.data[end:capacity])
            except _WANTS:
                break
            except OSError as error:
                lost = error
                break
            if not count:
                lost = "the source closed it"
                break
            end += count
        if lost is not None and end == before:  # else use what came first; the error recurs
            raise ConnectionLost(f"{self._name}: the connection is lost: {lost}")
        if end > before:
            state[END] = end
            self.heard_at = monotonic()

    def _wait(self, deadline: float | None) -> bool:
        """Wait until something comes; False if time is up or the reader is woken.

        Only time in which we listened counts as silence. Where a wait took longer than its timeout,
        this process or the machine was paused: that time does not count as the source's silence,
        and bytes that came in it can still be read.
        """
        part = self.silence / _PARTS
        while True:
            before = monotonic()
            limits = [] if deadline is None else [deadline - before]
            if self.silence:
                limits.append(part)
            pause = max(min(limits), 0) if limits else None
            woken = self._selector.select(pause)
            if woken:
                return all(key.fileobj is self._socket for key, _ in woken)
            now = monotonic()
            if self.silence:
                stood_still = now - before - (pause or 0)
                if stood_still > part:
                    self.heard_at += stood_still
                elif now >= self.heard_at + self.silence:
                    raise HeartbeatTimeout(
                        f"{self._name} said nothing for {self.silence:g} seconds, two heartbeat"
                        " periods: the connection is half dead"
                    )
            if deadline is not None and now >= deadline:
                return False
