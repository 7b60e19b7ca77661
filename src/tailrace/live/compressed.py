"""Compression as a layer of a connection: a socket on top of a plain or TLS socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from tailrace.wire.compressed import Decompressor, compressed

if TYPE_CHECKING:
    import socket

    from tailrace.wire.compressed import ConnectionCompression

_PIECE: Final = 64 << 10
"""The smallest size of one read from the socket below, in bytes."""
_LARGEST_PIECE: Final = 1 << 20
"""The largest size of one read: memory grows with the bytes received, not with a size announced."""


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
