"""Walk the headers of a log: where it can be split, and what Python has to look at on the way."""

from __future__ import annotations

from tailrace.columns.kernels.memory import get, put, put64, u8, u16, u32
from tailrace.columns.kernels.plan import BEGIN, COMMIT
from tailrace.columns.layout import (
    AT_EVENT,
    BAD_EVENT,
    BAD_LENGTH,
    BASE,
    CHECKSUM_BYTES,
    CURSOR,
    DONE,
    END,
    FULL,
    HAS_GTIDS,
    SAFE,
    SCAN_BEGAN,
    SCAN_BOUNDS,
    SCAN_CAPACITY,
    SCAN_COUNT,
    SCAN_LAST,
    SCAN_TARGET,
)


def scan_events(frame):
    """Walk from the cursor on; return why it stopped (see `tailrace.columns.layout`)."""
    end_of_block = get(frame, END)
    base = get(frame, BASE)
    tail = get(frame, CHECKSUM_BYTES)
    p = get(frame, CURSOR)
    while end_of_block - p >= 19:
        put(frame, CURSOR, p)
        size = u32(p + 9)
        if size < 19 + tail or size > 0x40000000:
            return BAD_LENGTH
        if end_of_block - p < size:
            return DONE
        kind = u8(p + 4)
        begins = False
        if kind in (33, 34, 42, 162):
            put(frame, HAS_GTIDS, 1)
            put(frame, SAFE, p + base)
            put(frame, SCAN_BEGAN, p + base)
            begins = True
        elif kind in (16, 40):
            put(frame, SAFE, p + size + base)
        elif kind == 2:
            text = p + 32 + u16(p + 30) + u8(p + 27) + 1
            length = p + size - tail - text
            if size < 32 + tail or length < 0:
                return BAD_EVENT
            if length == 5 and u32(text) == BEGIN and u8(text + 4) == 78:
                begins = get(frame, HAS_GTIDS) == 0
                if begins:
                    put(frame, SCAN_BEGAN, p + base)
            elif length == 6 and u32(text) == COMMIT and u16(text + 4) == 0x5449:
                put(frame, SAFE, p + size + base)
            else:
                return AT_EVENT
        elif kind in (15, 38, 164, 165):
            return AT_EVENT
        if begins and p + base - get(frame, SCAN_LAST) >= get(frame, SCAN_TARGET):
            count = get(frame, SCAN_COUNT)
            if count >= get(frame, SCAN_CAPACITY):
                return FULL
            put64(get(frame, SCAN_BOUNDS) + count * 8, p + base)
            put(frame, SCAN_COUNT, count + 1)
            put(frame, SCAN_LAST, p + base)
        p += size
    put(frame, CURSOR, p)
    return DONE
