"""Walk the headers of a log: where it can be split, and what Python has to look at on the way."""

from __future__ import annotations

from tailrace.columns import layout as k
from tailrace.columns.kernels.memory import get, put, put64, u8, u16, u32


def scan_events(frame):
    """Walk from the cursor on; return why it stopped (see `tailrace.columns.layout`)."""
    end_of_block = get(frame, k.END)
    base = get(frame, k.BASE)
    tail = get(frame, k.CHECKSUM_BYTES)
    p = get(frame, k.CURSOR)
    while end_of_block - p >= 19:
        put(frame, k.CURSOR, p)
        size = u32(p + 9)
        if size < 19 + tail or size > 0x40000000:
            return k.BAD_LENGTH
        if end_of_block - p < size:
            return k.DONE
        kind = u8(p + 4)
        begins = False
        if kind in (33, 34, 42, 162):
            put(frame, k.HAS_GTIDS, 1)
            put(frame, k.SAFE, p + base)
            put(frame, k.SCAN_BEGAN, p + base)
            begins = True
        elif kind in (16, 40):
            put(frame, k.SAFE, p + size + base)
        elif kind == 2:
            text = p + 32 + u16(p + 30) + u8(p + 27) + 1
            length = p + size - tail - text
            if size < 32 + tail or length < 0:
                return k.BAD_EVENT
            if length == 5 and u32(text) == k.BEGIN and u8(text + 4) == 78:
                begins = get(frame, k.HAS_GTIDS) == 0
                if begins:
                    put(frame, k.SCAN_BEGAN, p + base)
            elif length == 6 and u32(text) == k.COMMIT and u16(text + 4) == 0x5449:
                put(frame, k.SAFE, p + size + base)
            else:
                return k.AT_EVENT
        elif kind in (15, 38, 164, 165):
            return k.AT_EVENT
        if begins and p + base - get(frame, k.SCAN_LAST) >= get(frame, k.SCAN_TARGET):
            count = get(frame, k.SCAN_COUNT)
            if count >= get(frame, k.SCAN_CAPACITY):
                return k.FULL
            put64(get(frame, k.SCAN_BOUNDS) + count * 8, p + base)
            put(frame, k.SCAN_COUNT, count + 1)
            put(frame, k.SCAN_LAST, p + base)
        p += size
    put(frame, k.CURSOR, p)
    return k.DONE
