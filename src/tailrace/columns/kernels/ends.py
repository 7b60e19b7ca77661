"""Where transactions end in a block of whole events, by the grammar in `tailrace.transactions`.

Statements other than BEGIN and COMMIT, and what else is rare, are for Python to say.
"""

from __future__ import annotations

from tailrace.columns import ends_frame as f
from tailrace.columns import layout as k
from tailrace.columns.kernels.memory import get, helper, put, u8, u16, u32


@helper
def _ended(frame, offset):
    put(frame, f.STATE, f.OUTSIDE)
    put(frame, f.LAST, offset)
    if get(frame, f.FIRST) < 0:
        put(frame, f.FIRST, offset)


@helper
def _query(frame, p, behind):
    """BEGIN and COMMIT; every other statement is for Python."""
    if behind - p < 32:
        return f.BAD_EVENT
    text = p + 32 + u16(p + 30) + u8(p + 27) + 1
    size = behind - text
    if size < 0:
        return f.BAD_EVENT
    state = get(frame, f.STATE)
    if size == 5 and u32(text) == k.BEGIN and u8(text + 4) == 78 and state in (f.OUTSIDE, f.BEGUN):
        if state == f.OUTSIDE:
            put(frame, f.BEGAN, p + get(frame, f.BASE))
        put(frame, f.STATE, f.OPEN)
        return f.DONE
    if size == 6 and u32(text) == k.COMMIT and u16(text + 4) == 0x5449 and state == f.OPEN:
        _ended(frame, behind + get(frame, f.CHECKSUM_BYTES) + get(frame, f.BASE))
        return f.DONE
    return f.AT_EVENT


@helper
def _step(frame, p, size, kind):
    """Take in one event; DONE, or why Python has to look at it."""
    state = get(frame, f.STATE)
    offset = p + get(frame, f.BASE)
    tail = get(frame, f.CHECKSUM_BYTES)
    if kind == 2:
        return _query(frame, p, p + size - tail)
    if 23 <= kind <= 25 or 30 <= kind <= 32 or 166 <= kind <= 171 or kind == 39:
        if state < f.OPEN:
            return f.AT_EVENT
        if size < 27 + tail:
            return f.BAD_EVENT
        if state == f.SINGLE and u16(p + 25) & 1:
            _ended(frame, offset + size)
    elif kind in (19, 29, 37, 160):
        if state < f.OPEN:
            return f.AT_EVENT
    elif kind in (33, 34, 42, 162):
        if state != f.OUTSIDE:
            return f.AT_EVENT
        put(frame, f.BEGAN, offset)
        put(frame, f.STATE, f.BEGUN)
        if kind == 162:
            if size < 32 + tail:
                return f.BAD_EVENT
            put(frame, f.STATE, f.SINGLE if u8(p + 31) & 1 else f.OPEN)
    elif kind == 16:
        if state != f.OPEN:
            return f.AT_EVENT
        _ended(frame, offset + size)
    elif kind in (5, 8, 9, 13, 14, 17):
        if state == f.OUTSIDE:
            put(frame, f.BEGAN, offset)
            put(frame, f.STATE, f.BEGUN)
    elif kind in (6, 10, 11, 12, 18, 26, 38, 40, 165):
        return f.AT_EVENT
    elif state == f.OUTSIDE:
        put(frame, f.LAST, offset + size)
    return f.DONE


def find_ends(frame):
    """Walk from the cursor on; return why it stopped (see `tailrace.columns.ends_frame`)."""
    end = get(frame, f.END)
    tail = get(frame, f.CHECKSUM_BYTES)
    p = get(frame, f.CURSOR)
    while p < end:
        put(frame, f.CURSOR, p)
        if end - p < 19:
            return f.BAD_EVENT
        size = u32(p + 9)
        if size < 19 + tail or size > end - p:
            return f.BAD_EVENT
        reason = _step(frame, p, size, u8(p + 4))
        if reason != f.DONE:
            return reason
        p += size
    put(frame, f.CURSOR, p)
    return f.DONE
