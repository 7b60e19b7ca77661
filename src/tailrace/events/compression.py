"""MariaDB's compressed block, in QUERY_COMPRESSED and compressed rows (facts sheet 2.8)."""

from __future__ import annotations

import zlib
from typing import Final

from tailrace.constants import MAX_EVENT_SIZE
from tailrace.errors import EventDecodeError, EventEncodeError

_BEST_RATIO: Final = 1040  # deflate's bound is 1032


def decompress(block: bytes, start: int = 0) -> bytes:
    """The plain bytes of the block from ``start`` on.

    Layout: a byte ``0x80 | algorithm << 4 | n``, the length in n bytes (big-endian), a zlib
    stream. Never holds more than the plain length, which is at most 1 GiB and at most what the
    stream's size allows. Raises EventDecodeError.
    """
    if start >= len(block):
        raise EventDecodeError("the compressed block is missing")
    mark = block[start]
    if mark & 0xE0 != 0x80 or not 1 <= mark & 0x07 <= 4 or mark & 0x08:
        raise EventDecodeError(f"0x{mark:02X} does not begin a compressed block")
    if mark & 0x70:
        raise EventDecodeError(f"compression algorithm {mark >> 4 & 7} is not known")
    stream_at = start + 1 + (mark & 0x07)
    if stream_at > len(block):
        raise EventDecodeError("the compressed block ends inside its length")
    length = int.from_bytes(block[start + 1 : stream_at], "big")
    if length > MAX_EVENT_SIZE or length > (len(block) - stream_at) * _BEST_RATIO:
        raise EventDecodeError(
            f"{len(block) - stream_at} compressed bytes cannot hold the {length} they claim"
        )
    unpack = zlib.decompressobj()
    try:
        plain = unpack.decompress(memoryview(block)[stream_at:], length + 1)
    except zlib.error as error:
        raise EventDecodeError(f"the compressed block is damaged ({error})") from None
    if len(plain) != length or not unpack.eof or unpack.unused_data:
        raise EventDecodeError(f"the compressed block does not hold the {length} bytes it claims")
    return plain


def compress(plain: bytes) -> bytes:
    """The block of these bytes, as the server writes it. Raises EventEncodeError past 1 GiB."""
    if len(plain) > MAX_EVENT_SIZE:
        raise EventEncodeError(f"a compressed block holds {MAX_EVENT_SIZE} bytes, not {len(plain)}")
    size = max(1, (len(plain).bit_length() + 7) // 8)
    return bytes([0x80 | size]) + len(plain).to_bytes(size, "big") + zlib.compress(plain)
