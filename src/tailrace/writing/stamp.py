"""Stamping: what turns the events of a transaction's cache into those of a file.

In the cache an event has no checksum, and its header says so (length = header and body) and
nothing of its place (``log_pos`` 0). When the transaction is committed, its place is known.
"""

from __future__ import annotations

from importlib.util import find_spec
from struct import Struct
from typing import Final
from zlib import crc32

from tailrace.constants import CHECKSUM_SIZE
from tailrace.events.walk import LENGTH_AT, frames

_PLACE: Final = Struct("<II")  # length and log_pos, side by side in the header
_U32: Final = Struct("<I")
_LARGE: Final = 1 << 20
"""Bytes from which on the kernel is worth its start."""


def stamp(events: bytes | bytearray | memoryview, position: int, *, checksum: bool) -> bytes:
    """Whole events in cache form, as they stand in a file from the offset ``position`` on.

    Sets each event's length, ``log_pos`` (the low 32 bits of its end's offset: what every replica
    takes, also past 4 GiB and inside MariaDB's groups) and CRC32.
    """
    if len(events) >= _LARGE and find_spec("numba") is not None:
        from tailrace.columns.write.stamp import stamp_events  # noqa: PLC0415 - needs numba

        return stamp_events(events, position, checksum=checksum)
    return stamp_plainly(events, position, checksum=checksum)


def stamp_plainly(
    events: bytes | bytearray | memoryview, position: int, *, checksum: bool
) -> bytes:
    """`stamp` without the kernel: the same bytes."""
    tail = CHECKSUM_SIZE if checksum else 0
    parts: list[bytearray] = []
    view = memoryview(events)
    for start, end in frames(view):
        event = bytearray(view[start:end])
        length = len(event) + tail
        position += length
        _PLACE.pack_into(event, LENGTH_AT, length, position & 0xFFFFFFFF)
        if tail:
            event += _U32.pack(crc32(event))
        parts.append(event)
    return b"".join(parts)
