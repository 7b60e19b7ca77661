"""Walks the frames of a stream of materialised events: which pass, which are dropped, and which
Python has to decode.
"""

from __future__ import annotations

from tailrace.columns.frames import materialised as f
from tailrace.columns.kernels.memory import copy_in, get, put, u8, u16, u32


def filter_frames(frame):
    """Walk from the cursor on; returns why it stopped (see `tailrace.columns.frames.materialised`).

    Frames that pass are a run until one is dropped or needs Python; then the run is copied.
    """
    p = get(frame, f.CURSOR)
    end = get(frame, f.END)
    run = get(frame, f.RUN)
    out = get(frame, f.OUT)
    kinds = get(frame, f.KINDS)
    tables = get(frame, f.TABLES)
    table_count = get(frame, f.TABLE_COUNT)
    passed = get(frame, f.PASSED)
    dropped = get(frame, f.DROPPED)
    reason = f.DONE
    while p < end:
        if end - p < f.HEAD:
            reason = f.BAD_LENGTH
            break
        size = u32(p)
        if size < f.HEAD or size > end - p:
            reason = f.BAD_LENGTH
            break
        action = u8(kinds + u16(p + 4))
        if action == f.PASS:
            table = u32(p + 8)
            if table:
                action = u8(tables + table) if table < table_count else f.UNKNOWN
        if action == f.PASS:
            passed += 1
            p += size
            continue
        if action != f.DROP:
            reason = action
            break
        if p > run:
            copy_in(out, run, p - run, end)
            out += p - run
        dropped += 1
        p += size
        run = p
    put(frame, f.CURSOR, p)
    put(frame, f.PASSED, passed)
    put(frame, f.DROPPED, dropped)
    whole = reason == f.DONE and run == get(frame, f.BEGIN)
    if reason in (f.DONE, f.DECODE) and not whole and p > run:
        copy_in(out, run, p - run, end)
        out += p - run
        run = p
    put(frame, f.RUN, run)
    put(frame, f.OUT, out)
    return reason
