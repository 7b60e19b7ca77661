"""The byte layout of the native format (docs/design/materialised.md). Numbers are little-endian."""

from __future__ import annotations

from struct import Struct
from typing import Final

MAGIC: Final = b"\xff\xff\xff\xffTAILRACE"
"""How a stream begins; no block has a size of 0xFFFFFFFF."""
VERSION: Final = 1
STREAM: Final = Struct("<12sHH")
"""A stream's head: magic, version, and how many filters wrote definitions into it (its depth)."""
MOST_DEPTH: Final = 15

BLOCK: Final = Struct("<III")
"""A block's head: bytes of its frames (0: the stream's end), how many frames, their CRC-32."""
CHECK: Final = Struct("<I")
"""After it: the CRC-32 of the block's head."""
BLOCK_HEAD: Final = BLOCK.size + CHECK.size
MOST_IN_BLOCK: Final = 0xFFFFFFFE
BLOCK_SIZE: Final = 256 << 10
"""Bytes of frames after which a writer begins the next block."""

FRAME: Final = Struct("<IHHIQ")
"""A frame's head: its bytes with the head, kind, flags, number of the table (0: none), local id of
the transaction."""
HEAD: Final = FRAME.size
DEFINITION: Final = 0
"""The kind of frames that define numbers."""
ROLLED_BACK: Final = 1
"""A flag: the event's transaction, or a ROLLBACK TO in it, rolls it back later, or may."""
HELD: Final = 2
"""A flag: who wants what is rolled back was told of it before; it was held for the others."""

DEPTH_BITS: Final = 4
"""The low bits of a number say the depth at which it was defined: a filter's numbers differ from
those of the stream that it passes on."""

# Tags of values. From 0x80 on: the numbers 0 to 127. After a tag from 0x20 on, and the others that
# have no fixed size, comes the number of bytes that follow (a varint), so readers can skip a value
# of a later version.
NONE: Final = 0
FALSE: Final = 1
TRUE: Final = 2
FLOAT: Final = 3
"""8 bytes, IEEE 754."""
TIMEDELTA: Final = 4
"""Days, seconds, microseconds: 4 bytes each."""
SHARED: Final = 5
"""A varint: the number of a value that was defined before."""
INTEGER: Final = 0x20
"""Two's complement, in as few bytes as hold it."""
TEXT: Final = 0x21
"""UTF-8, with surrogates as if they were characters."""
BYTES: Final = 0x22
DECIMAL: Final = 0x23
"""ASCII."""
JSON: Final = 0x24
"""A JSON document's text."""
DATE: Final = 0x25
"""ISO 8601, as the next two, which begin with a byte for the fold."""
TIME: Final = 0x26
DATETIME: Final = 0x27
TUPLE: Final = 0x28
"""A varint for their number, and the values; so are the next two, the last with keys and values in
turn."""
LIST: Final = 0x29
DICT: Final = 0x2A
RECORD: Final = 0x2B
"""A varint for the number of the record's definition, and its fields' values."""
ROW: Final = 0x2C
"""A mapping: a varint for the number of a shared tuple of its keys, and the values."""
SMALL: Final = 0x80
LONG: Final = 0x20
"""The first tag that a length follows."""
