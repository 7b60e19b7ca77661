"""Compressed packets, which wrap a connection's bytes if both sides have agreed on compression.

After the login each side sends, in place of its packets, compressed ones: the length of what
follows, u24; a sequence number, u8; the length that it has uncompressed, u24; and the bytes.
Uncompressed they are a piece of the stream of ordinary packets (`tailrace.wire.packets`),
cut without regard to where these begin. An uncompressed length of 0 says that the bytes are
not compressed.

Numbers begin at 0 with each command, on both layers. Those that a server sends are not checked:
semi-synchronous sources restart them (as in `tailrace.wire.unframe`), and TCP keeps the order.

Source: MySQL ``sql-common/net_serv.cc``, MariaDB ``sql/net_serv.cc``. zlib is both servers'
(CLIENT_COMPRESS), zstd MySQL's (8.0.18 and later).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

import zstandard

from tailrace.errors import MalformedPacket, UsageError
from tailrace.wire.packets import HEADER_SIZE, LARGEST

if TYPE_CHECKING:
    from tailrace.wire.packets import Data

COMPRESSED_HEADER_SIZE: Final = 7
_SMALL: Final = 50
"""Smaller payloads are sent uncompressed, as servers do: they would not become smaller."""
_LEVELS: Final = range(1, 23)
_LARGEST_WINDOW: Final = 1 << 24
"""Bytes of zstd's window: no packet needs more, and memory is taken by it."""


class Algorithm(StrEnum):
    """How a connection's packets are compressed."""

    ZLIB = "zlib"
    ZSTD = "zstd"


@dataclass(frozen=True, slots=True)
class ConnectionCompression:
    """How a connection is to be compressed. ``level`` is zstd's; the server is told of it."""

    algorithm: Algorithm
    level: int = 3

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``zlib``, ``zstd`` or ``zstd:LEVEL``. Raises UsageError."""
        name, colon, level = text.strip().lower().partition(":")
        if name not in set(Algorithm) or (colon and name != Algorithm.ZSTD):
            raise UsageError(f"it is zlib, zstd or zstd:LEVEL, not {text[:40]!r}")
        if not colon:
            return cls(Algorithm(name))
        if not (level.isascii() and level.isdigit()) or int(level[:3]) not in _LEVELS:
            raise UsageError(f"a level of zstd is from 1 to {_LEVELS[-1]}, not {level[:40]!r}")
        return cls(Algorithm(name), int(level))

    def __str__(self) -> str:
        return self.algorithm


def compressed(packets: Data, compression: ConnectionCompression) -> bytes:
    """Ordinary packets, each in a compressed one of its own (two where it is too large for one).

    A packet of number 0 begins a command; raises UsageError where the last one is not whole.
    """
    view = memoryview(packets)
    parts = []
    at = sequence = 0
    while at < len(view):
        head = view[at : at + HEADER_SIZE]
        end = at + HEADER_SIZE + int.from_bytes(head[:3], "little")
        if len(head) < HEADER_SIZE or end > len(view):
            raise UsageError(f"the packet at byte {at} of {len(view)} is incomplete")
        sequence = max(sequence, head[3]) if head[3] else 0
        for start in range(at, end, LARGEST):
            piece = view[start : min(start + LARGEST, end)]
            packed = b"" if len(piece) < _SMALL else _pack(piece, compression)
            plain = not packed or len(packed) >= len(piece)
            body = bytes(piece) if plain else packed
            length = 0 if plain else len(piece)
            parts += [len(body).to_bytes(3, "little"), bytes((sequence & 0xFF,))]
            parts += [length.to_bytes(3, "little"), body]
            sequence += 1
        at = end
    return b"".join(parts)


def _pack(piece: memoryview, compression: ConnectionCompression) -> bytes:
    if compression.algorithm is Algorithm.ZLIB:
        return zlib.compress(piece)
    return zstandard.ZstdCompressor(level=compression.level).compress(piece)


class Decompressor:
    """Fed with what a server sends, it gives the bytes of ordinary packets.

    At most one compressed packet is held, as it comes, and then what it holds: 16 MiB each,
    whatever it says. ``name`` is what errors call the server.
    """

    def __init__(self, compression: ConnectionCompression, name: str) -> None:
        self._algorithm = compression.algorithm
        self._name = name
        self._raw = bytearray()

    @property
    def wanted(self) -> int:
        """Bytes that are missing to the end of the packet under way, or of its header."""
        raw = self._raw
        if len(raw) < COMPRESSED_HEADER_SIZE:
            return COMPRESSED_HEADER_SIZE - len(raw)
        size = int.from_bytes(raw[:3], "little")
        return max(COMPRESSED_HEADER_SIZE + size - len(raw), 0)

    def feed(self, data: Data) -> None:
        """Take in what came."""
        self._raw += data

    def take(self) -> bytes | None:
        """The content of the next packet, at least one byte; None if it has not come completely.

        Raises MalformedPacket where it does not hold what it says.
        """
        raw = self._raw
        if self.wanted:
            return None
        size = int.from_bytes(raw[:3], "little")
        length = int.from_bytes(raw[4:COMPRESSED_HEADER_SIZE], "little")
        end = COMPRESSED_HEADER_SIZE + size
        with memoryview(raw) as view:
            body = view[COMPRESSED_HEADER_SIZE:end]
            try:
                plain = self._unpacked(body, length)
            finally:
                body.release()
        del raw[:end]
        return plain

    def _unpacked(self, body: memoryview, length: int) -> bytes:
        if not len(body):
            raise self._malformed("is empty")
        if not length:
            return bytes(body)
        try:
            plain = (
                _unzip(body, length) if self._algorithm is Algorithm.ZLIB else _unzstd(body, length)
            )
        except (zlib.error, zstandard.ZstdError) as error:
            raise self._malformed(f"is damaged ({error})") from None
        if plain is None or len(plain) != length:
            raise self._malformed(f"does not hold the {length} bytes that it says")
        return plain

    def _malformed(self, what: str) -> MalformedPacket:
        return MalformedPacket(
            f"{self._name}: a packet that is compressed by {self._algorithm} {what}"
        )


def _unzip(body: memoryview, length: int) -> bytes | None:
    """The content of a zlib stream; None if its length differs, or bytes follow it."""
    unpack = zlib.decompressobj()
    plain = unpack.decompress(body, length + 1)
    return plain if unpack.eof and not unpack.unused_data else None


def _unzstd(body: memoryview, length: int) -> bytes | None:
    """The same for a zstd frame. Its header's size is not trusted, since it determines memory."""
    said = zstandard.get_frame_parameters(body).content_size
    if said not in {length, zstandard.CONTENTSIZE_UNKNOWN}:
        return None
    unpacker = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
    return unpacker.decompress(body, max_output_size=length, allow_extra_data=False)
