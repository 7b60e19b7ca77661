"""Walk the headers of a log: where it can be split, and what Python has to look at on the way."""

from __future__ import annotations

from tailrace.columns import scan_frame as f
from tailrace.columns.kernels.memory import get, helper, length_encoded, put, put64, u8, u16, u32


@helper
def _note_begin(frame, offset):
    """A transaction begins; False where its bound is wanted and has no room."""
    put(frame, f.BEGAN, offset)
    put(frame, f.STATEMENT_ENDED, 0)
    if offset - get(frame, f.LAST) >= get(frame, f.BOUND_TARGET):
        count = get(frame, f.BOUND_COUNT)
        if count >= get(frame, f.BOUND_CAPACITY):
            return False
        put64(get(frame, f.BOUNDS) + count * 8, offset)
        put(frame, f.BOUND_COUNT, count + 1)
        put(frame, f.LAST, offset)
    return True


@helper
def _note_statement(frame, offset):
    """A statement's rows begin inside a transaction; False as above."""
    began = get(frame, f.BEGAN)
    if offset - max(get(frame, f.LAST), began) >= get(frame, f.INNER_TARGET):
        count = get(frame, f.INNER_COUNT)
        if count >= get(frame, f.INNER_CAPACITY):
            return False
        entry = get(frame, f.INNER) + count * (f.INNER_WORDS * 8)
        put64(entry, offset)
        put64(entry + 8, began)
        put(frame, f.INNER_COUNT, count + 1)
        put(frame, f.LAST, offset)
    put(frame, f.STATEMENT_ENDED, 0)
    return True


@helper
def _frames_at(p, end):
    """Where the zstd frames of a payload event begin; 0 for what is not written by servers of now.

    Before them stand fields: type, length, value; 2 is the compression, 0 ends them.
    """
    at = p + 19
    zstd = False
    while at < end:
        kind, at = length_encoded(at, end)
        if kind == 0:
            return at if zstd else 0
        size, at = length_encoded(at, end)
        if kind < 0 or kind > 3 or size < 0 or size > end - at:
            return 0
        if kind == 2:
            zstd = size == 1 and u8(at) == 0
        at += size
    return 0


@helper
def _note_payload(frame, p, size):
    """A transaction payload; False as above."""
    offset = p + get(frame, f.BASE)
    capacity = get(frame, f.PAYLOAD_CAPACITY)
    if capacity:
        count = get(frame, f.PAYLOAD_COUNT)
        if count >= capacity:
            return False
        entry = get(frame, f.PAYLOADS) + count * (f.PAYLOAD_WORDS * 8)
        put64(entry, offset)
        put64(entry + 8, size)
        put64(entry + 16, get(frame, f.BEGAN))
        frames = _frames_at(p, p + size - get(frame, f.CHECKSUM_BYTES))
        put64(entry + 24, frames - p if frames else 0)
        put(frame, f.PAYLOAD_COUNT, count + 1)
    put(frame, f.SAFE, offset + size)
    return True


@helper
def _statement(frame, p, size, tail):
    """Pass over BEGIN and COMMIT; Python looks at every other statement."""
    if size < 32 + tail:
        return f.AT_EVENT
    text = p + 32 + u16(p + 30) + u8(p + 27) + 1
    length = p + size - tail - text
    if length < 0:
        return f.AT_EVENT
    offset = p + get(frame, f.BASE)
    if length == 5 and u32(text) == f.BEGIN and u8(text + 4) == 78:
        if get(frame, f.HAS_GTIDS) == 0 and not _note_begin(frame, offset):
            return f.FULL
    elif length == 6 and u32(text) == f.COMMIT and u16(text + 4) == 0x5449:
        put(frame, f.SAFE, offset + size)
    else:
        return f.AT_EVENT
    return f.DONE


def scan_events(frame):
    """Walk from the cursor on; return why it stopped (see `tailrace.columns.scan_frame`)."""
    end_of_block = get(frame, f.END)
    base = get(frame, f.BASE)
    tail = get(frame, f.CHECKSUM_BYTES)
    p = get(frame, f.CURSOR)
    while end_of_block - p >= 19:
        put(frame, f.CURSOR, p)
        size = u32(p + 9)
        if size < 19 + tail or size > 0x40000000:
            return f.BAD_LENGTH
        if end_of_block - p < size:
            return f.DONE
        kind = u8(p + 4)
        if kind in (19, 29, 160):
            if get(frame, f.STATEMENT_ENDED) and not _note_statement(frame, p + base):
                return f.FULL
        elif 30 <= kind <= 32 or 23 <= kind <= 25 or 166 <= kind <= 171 or kind == 39:
            if size >= 27 + tail and u8(p + 25) & 1:
                put(frame, f.STATEMENT_ENDED, 1)
        elif kind in (33, 34, 42, 162):
            put(frame, f.HAS_GTIDS, 1)
            put(frame, f.SAFE, p + base)
            if not _note_begin(frame, p + base):
                return f.FULL
        elif kind == 16:
            put(frame, f.SAFE, p + size + base)
        elif kind == 40:
            if not _note_payload(frame, p, size):
                return f.FULL
        elif kind == 2:
            reason = _statement(frame, p, size, tail)
            if reason != f.DONE:
                return reason
        elif kind in (15, 38, 164, 165):
            return f.AT_EVENT
        p += size
    put(frame, f.CURSOR, p)
    return f.DONE
