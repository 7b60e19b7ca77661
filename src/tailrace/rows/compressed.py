"""MariaDB's compressed columns (VARCHAR and BLOB ... COMPRESSED). Facts sheet section 3.3."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import EventDecodeError, ValueRefused

if TYPE_CHECKING:
    from collections.abc import Callable

_ZLIB: Final = 8
"""The high nibble of the first byte; zlib is the only method."""
_RAW_DEFLATE: Final = 0x08
_THRESHOLD: Final = 100
_LEVEL: Final = 6
"""MariaDB's defaults of column_compression_threshold and column_compression_zlib_level."""


def uncompress(data: bytes, limit: int) -> bytes:
    """The value of a compressed column, which is at most ``limit`` bytes long.

    Never uses more memory than the length that the value itself claims, nor than the limit. Raises
    `EventDecodeError` for anything outside the format.
    """
    if not data:
        return b""
    head = data[0]
    if head == 0:
        return data[1:]
    start = 1 + (head & 0x07)
    if head >> 4 != _ZLIB or not 1 < start <= 5 or len(data) < start:
        raise EventDecodeError(f"a compressed column that begins with {data[:5].hex()}")
    size = int.from_bytes(data[1:start], "big")
    if size > limit:
        raise EventDecodeError(f"a compressed column of {size} bytes where {limit} are allowed")
    stream = zlib.decompressobj(-15 if head & _RAW_DEFLATE else 15)
    try:
        value = stream.decompress(data[start:], size + 1)
    except zlib.error as error:
        raise EventDecodeError(f"a compressed column that does not uncompress: {error}") from None
    if len(value) != size or not stream.eof:
        raise EventDecodeError(f"a compressed column that is not the {size} bytes it claims")
    return value


def compressed_loader(loader: Callable[[bytes], Any], limit: int) -> Callable[[bytes], Any]:
    """Wraps a loader for the uncompressed value into one for the value as logged."""
    return lambda data: loader(uncompress(data, limit))


def compress(value: bytes) -> bytes:
    """A value as a compressed column logs it: deflated if that pays off, as MariaDB does.

    It does from 100 bytes on, if the result is shorter.
    """
    if not value:
        return b""
    if len(value) >= _THRESHOLD:
        size = len(value).to_bytes((len(value).bit_length() + 7) // 8, "big")
        stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, -15, 9)
        packed = stream.compress(value) + stream.flush()
        if 1 + len(size) + len(packed) < len(value):
            return bytes([_ZLIB << 4 | _RAW_DEFLATE | len(size)]) + size + packed
    return b"\0" + value


def compressed_dumper(
    dumper: Callable[[Any], bytes], longest: int, room: int
) -> Callable[[Any], bytes]:
    """Wraps a dumper for the value into one for the value as logged.

    ``longest``: the maximum bytes of a value; ``room``: the maximum after compression.
    """

    def dump_compressed(value: Any) -> bytes:
        data = dumper(value)
        if len(data) > longest:
            raise ValueRefused(f"{len(data)} bytes, the column holds {longest}")
        packed = compress(data)
        if len(packed) > room:
            raise ValueRefused(
                f"{len(data)} incompressible bytes, the column holds {room - 1} of these"
            )
        return packed

    return dump_compressed
