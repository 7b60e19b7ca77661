"""Compression with zstd, for archives: written and read from begin to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import zstandard

from tailrace.errors import StorageError
from tailrace.storage.streams.base import ForwardOutput, InputStream, end_output, needs
from tailrace.storage.streams.input import ForwardInput

if TYPE_CHECKING:
    from tailrace.storage.streams.base import Data

_LEVEL: Final = 3
_PIECE: Final = 1 << 11
"""Compressed bytes that are unpacked at once: a block of 128 KiB takes at least four of them, so
no more than 64 MiB can come of it."""
_READ: Final = 1 << 16
_LARGEST_WINDOW: Final = 1 << 27


class ZstdOutput:
    """Compresses what is written, into one frame with a checksum.

    ``size`` counts the bytes before compression. What was flushed can be unpacked. `close` ends the
    frame; without it a reader finds all that was flushed, and then an error.
    """

    def __init__(self, lower: ForwardOutput, level: int = _LEVEL) -> None:
        needs(lower, ForwardOutput, "ZstdOutput")
        self.lower = lower
        self.size = 0
        self._packer = zstandard.ZstdCompressor(level=level, write_checksum=True).compressobj()
        self._packed = b""
        self._open = True

    def write(self, data: Data, /) -> None:
        """Compress. If the store fails, bytes that it did not take are kept for the next call."""
        packed = self._packer.compress(data)
        self.size += len(data)
        if packed or self._packed:
            self._hand_down(packed)

    def _hand_down(self, packed: bytes) -> None:
        self._packed += packed
        before = self.lower.size
        try:
            self.lower.write(self._packed)
        except BaseException:
            self._packed = self._packed[self.lower.size - before :]
            raise
        self._packed = b""

    def flush(self) -> None:
        """End the block, and hand it down."""
        self._hand_down(self._packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
        self.lower.flush()

    def sync(self) -> None:
        """End the block, and have it outlive a power cut."""
        self._hand_down(self._packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
        self.lower.sync()

    def close(self) -> None:
        """End the frame, and close what lies below."""
        if not self._open:
            return
        self._open = False
        try:
            self._hand_down(self._packer.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH))
        finally:
            end_output(self)
            self.lower.close()


class ZstdInput(ForwardInput):
    """The contents of consecutive zstd frames; it seeks forward only.

    Raises StorageError for bytes that are no frame, and for an incomplete last frame, after all
    that can be decompressed.
    """

    name = "zstd"

    def __init__(self, lower: InputStream) -> None:
        super().__init__(lower)
        self._unpacker = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
        self._frame = self._unpacker.decompressobj()
        self._inside = False
        self._packed = b""
        self._unpacked = 0
        self._plain = b""
        self._from = 0

    def _next(self, count: int) -> bytes:
        while self._from == len(self._plain):
            if self._unpacked == len(self._packed):
                self._packed, self._unpacked = self.lower.read(_READ), 0
                if not self._packed:
                    if self._inside:
                        raise StorageError(
                            f"{self.name}: the archive ends inside a frame: it was not closed, or"
                            " is incomplete"
                        )
                    return b""
            self._unpack()
        data = self._plain[self._from : self._from + count]
        self._from += len(data)
        return data

    def _unpack(self) -> None:
        piece = self._packed[self._unpacked : self._unpacked + _PIECE]
        self._unpacked += len(piece)
        try:
            self._plain = self._frame.decompress(piece)
        except zstandard.ZstdError as error:
            raise StorageError(f"{self.name}: damaged, or no archive of zstd ({error})") from None
        self._from = 0
        self._inside = not self._frame.eof
        if not self._inside:
            self._unpacked -= len(self._frame.unused_data)
            self._frame = self._unpacker.decompressobj()
