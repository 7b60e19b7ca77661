"""MariaDB's compressed columns (VARCHAR and BLOB ... COMPRESSED). Facts sheet section 3.3."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import EventDecodeError

if TYPE_CHECKING:
    from collections.abc import Callable

_ZLIB: Final = 8
"""The high nibble of the first byte; zlib is the only method there is."""
_RAW_DEFLATE: Final = 0x08


def uncompress(data: bytes, limit: int) -> bytes:
    """The value of a compressed column, which is at most ``limit`` bytes long.

    Never takes more memory than the length that the value itself claims, nor than the limit.
    Raises `EventDecodeError` for anything that the format does not have.
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
    """A loader for the uncompressed value, to one for the value as it is logged."""
    return lambda data: loader(uncompress(data, limit))
