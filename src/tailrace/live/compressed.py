"""Compression as a layer of a connection: a socket on a socket, plain or TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from tailrace.wire.compressed import Decompressor, compressed

if TYPE_CHECKING:
    import socket

    from tailrace.wire.compressed import ConnectionCompression

_PIECE: Final = 64 << 10
"""Bytes that are taken from the socket below in one go at least."""
_LARGEST_PIECE: Final = 1 << 20
"""And at most: memory grows with what came, not with what was announced."""


class CompressedSocket:
    """What a connection calls of its socket, with compressed packets on the socket ``below``.

    `recv`, `recv_into` and `send` raise what those of ``below`` do where they would block, and are
    called again then, `send` with the same bytes. What is sent in one call are whole packets.
    Receiving raises MalformedPacket.
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
        """As `recv`, into memory that is there; gives how many bytes."""
        if not self._fill():
            return 0
        size = min(len(memory), len(self._plain))
        memory[:size] = self._plain[:size]
        self._plain = self._plain[size:]
        return size

    def _fill(self) -> bool:
        """See to it that something is there to be given; False at the connection's end."""
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
        """Bytes that have come and would be given without reading the socket below; 0 if none."""
        if self._plain:
            return len(self._plain)
        if not self._incoming.wanted:
            return 1
        pending = getattr(self.below, "pending", None)  # TLS has it
        return int(pending()) if pending else 0

    # --- sending ---------------------------------------------------------------------------------

    def send(self, packets: memoryview) -> int:
        """Send whole packets; all of them have gone when it returns."""
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
"""What a connection's bytes come and go through; of TLS, an `ssl.SSLSocket`."""
