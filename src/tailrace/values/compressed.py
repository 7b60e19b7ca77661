"""MariaDB's compressed columns (VARCHAR and BLOB ... COMPRESSED). Facts sheet section 3.3."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import ColumnType
from tailrace.errors import EventDecodeError, ValueRejected

if TYPE_CHECKING:
    from tailrace.values.family import Dumper, Loader
    from tailrace.values.schema import Column

TYPES: Final = frozenset({ColumnType.BLOB_COMPRESSED, ColumnType.VARCHAR_COMPRESSED})
_ZLIB: Final = 8
"""The high nibble of the first byte; zlib is the only method."""
_RAW_DEFLATE: Final = 0x08
_SIZE_BYTES: Final = 0x07
_THRESHOLD: Final = 100
_LEVEL: Final = 6
"""MariaDB's defaults of column_compression_threshold and column_compression_zlib_level."""
_SMALL: Final = 4096
"""Logged values shorter than this are uncompressed by one call, which sets no bound."""
_SMALL_MOST: Final = 1032 * _SMALL
"""The most that deflate can make of one, whatever it claims: 4 MB."""


def uncompress(data: bytes | memoryview, limit: int) -> bytes:
    """The value of a compressed column, which is at most ``limit`` bytes long.

    Of 4 KB and more it never uses more memory than the length that the value itself claims, nor
    than the limit. Raises `EventDecodeError` for anything outside the format.
    """
    if not data:
        return b""
    head = data[0]
    if head == 0:
        return bytes(data[1:])
    start = 1 + (head & _SIZE_BYTES)
    if head >> 4 != _ZLIB or not 1 < start <= 5 or len(data) < start:
        raise EventDecodeError(f"a compressed column that begins with {data[:5].hex()}")
    size = int.from_bytes(data[1:start], "big")
    if size > limit:
        raise EventDecodeError(f"a compressed column of {size} bytes where {limit} are allowed")
    bits = -zlib.MAX_WBITS if head & _RAW_DEFLATE else zlib.MAX_WBITS
    try:
        if len(data) < _SMALL and size <= _SMALL_MOST:  # one call takes half of an object's time
            value = zlib.decompress(data[start:], bits, size + 1)
            ended = True
        else:
            stream = zlib.decompressobj(bits)
            value = stream.decompress(data[start:], size + 1)
            ended = stream.eof
    except zlib.error as error:
        raise EventDecodeError(f"a compressed column that does not uncompress: {error}") from None
    if len(value) != size or not ended:
        raise EventDecodeError(f"a compressed column that is not the {size} bytes it claims")
    return value


def longest_uncompressed(column: Column) -> int:
    """The maximum bytes of a value in a compressed column."""
    if column.type is ColumnType.BLOB_COMPRESSED:
        return (1 << 8 * column.metadata) - 1
    return column.metadata


def compressed_loader(load: Loader, column: Column) -> Loader:
    """Wraps a loader for the uncompressed value into one for the value as logged."""
    limit = longest_uncompressed(column)
    return lambda data: load(uncompress(data, limit))


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


def compressed_dumper(dump: Dumper, column: Column) -> Dumper:
    """Wraps a dumper for the value into one for the value as logged."""
    room = longest_uncompressed(column)
    longest = room - (column.type is ColumnType.VARCHAR_COMPRESSED)

    def dump_compressed(value: Any) -> bytes:
        data = dump(value)
        if len(data) > longest:
            raise ValueRejected(f"{len(data)} bytes, the column holds {longest}")
        packed = compress(data)
        if len(packed) > room:
            raise ValueRejected(
                f"{len(data)} incompressible bytes, the column holds {room - 1} of these"
            )
        return packed

    return dump_compressed
