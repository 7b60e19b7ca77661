"""Write rows of one table, from Arrow arrays, as whole events, and make these events of a file.

`encode_rows` is the inverse of `rows`. An event is a prefix, the same for all, and as many rows as
fit; its length is written into its header. When there is no more room the kernel stops at a row's
start, to be called again with more. `stamp_events` gives the events of a transaction's cache their
positions and checksums.
"""

from __future__ import annotations

from tailrace.columns.frames import encode as f
from tailrace.columns.kernels.crc import crc32
from tailrace.columns.kernels.encode_image import encode_image
from tailrace.columns.kernels.memory import (
    copy32,
    copy_in,
    get,
    helper,
    put,
    put8,
    put32,
    put64,
    u8,
    u32,
)


@helper
def _shift(p, size, by):
    """Move ``size`` bytes up by ``by``, which is positive; starting with the last ones."""
    while size >= 32:
        size -= 32
        copy32(p + size + by, p + size)
    while size > 0:
        size -= 1
        put8(p + size + by, u8(p + size))


@helper
def _row(frame, p, limit, row):
    """Write a row's images: returns the address after them, or a code below 0."""
    count = get(frame, f.BEFORE_COUNT)
    if count >= 0:
        p = encode_image(frame, get(frame, f.BEFORE), count, p, limit, row, 0)
    count = get(frame, f.AFTER_COUNT)
    if count >= 0 and p > 0:
        p = encode_image(frame, get(frame, f.AFTER), count, p, limit, row, 1)
    return p


@helper
def _begin(frame, at, event):
    """Write an event's first bytes at the address ``at``; ``event`` is its offset."""
    prefix, size = get(frame, f.PREFIX), get(frame, f.PREFIX_SIZE)
    copy_in(at, prefix, size, prefix + size)  # no byte more: the row after it is already written
    count = get(frame, f.STARTS_COUNT)
    put64(get(frame, f.STARTS) + count * 8, event)
    put(frame, f.STARTS_COUNT, count + 1)


def encode_rows(frame):
    """Write rows from the frame's row on, until all are written or one cannot be."""
    out = get(frame, f.OUT)
    used = get(frame, f.USED)
    event = get(frame, f.EVENT)
    head = get(frame, f.PREFIX_SIZE)
    most = get(frame, f.MOST)
    row = get(frame, f.ROW)
    rows = get(frame, f.ROWS)
    least = 2 * head + get(frame, f.FIXED)
    capacity = get(frame, f.CAPACITY)
    limit = out + capacity - least
    result = f.DONE
    while row < rows:
        if get(frame, f.STARTS_COUNT) + 2 > get(frame, f.STARTS_ROOM):
            result = f.STARTS_FULL
            break
        if used + least > capacity:
            result = f.MORE
            break
        odd = get(frame, f.ODD_AT)
        p = out + used
        fresh = event < 0
        if fresh:
            p += head
        behind = _row(frame, p, limit, row)
        if behind < 0:
            put(frame, f.ODD_AT, odd)
            result = behind
            break
        if fresh:
            event = used
            _begin(frame, out + event, event)
        elif behind - out - event > most:
            put32(out + event + 9, used - event)
            _shift(p, behind - p, head)
            behind += head
            event = used
            _begin(frame, out + event, event)
        if behind - out - event > f.LARGEST:
            result = f.EVENT_TOO_LARGE
            break
        used = behind - out
        row += 1
    if event >= 0:
        put32(out + event + 9, used - event)
    put(frame, f.USED, used)
    put(frame, f.EVENT, event)
    put(frame, f.ROW, row)
    return result


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
