"""Events of a transaction's cache become those of a file: positions and checksums."""

from __future__ import annotations

from tailrace.columns.frames import encode as f
from tailrace.columns.kernels.crc import crc32
from tailrace.columns.kernels.encode_strings import copy_in
from tailrace.columns.kernels.memory import get, helper, put, put32, u32


@helper
def _size(frame):
    """Bytes of all events with their checksums; OUTSIDE if one does not fit."""
    p = get(frame, f.S_IN)
    end = get(frame, f.S_END)
    size = 0
    while p < end:
        put(frame, f.S_LAST, p - get(frame, f.S_IN))
        if end - p < 19 or u32(p + 9) < 19 or u32(p + 9) > end - p:
            return f.OUTSIDE
        size += u32(p + 9) + get(frame, f.S_CHECKSUM)
        p += u32(p + 9)
    put(frame, f.S_SIZE, size)
    return f.DONE


def stamp_events(frame):
    """Copy the events, each with its length, the low 32 bits of its end's offset, its checksum."""
    if get(frame, f.S_COUNT_ONLY):
        return _size(frame)
    p = get(frame, f.S_IN)
    end = get(frame, f.S_END)
    out = get(frame, f.S_OUT)
    tail = get(frame, f.S_CHECKSUM)
    tables = get(frame, f.S_TABLES)
    position = get(frame, f.S_POSITION)
    while p < end:
        size = u32(p + 9)
        position += size + tail
        copy_in(out, p, size, end)
        put32(out + 9, size + tail)
        put32(out + 13, position)
        if tail:
            put32(out + size, crc32(out, size, tables))
        p += size
        out += size + tail
    return f.DONE
