"""Events of a stretch as a list, and its transactions' first lines for people."""

from __future__ import annotations

from tailrace.columns.frames import plan as k
from tailrace.columns.frames.text import (
    E_BEGIN,
    E_END,
    E_OUT,
    E_ROOM,
    EVENT_WORDS,
    H_BEFORE,
    H_BEHIND,
    H_ENTRIES,
    H_FILE,
    MORE,
)
from tailrace.columns.kernels.each_row import each_row
from tailrace.columns.kernels.gtids import gtid_text
from tailrace.columns.kernels.memory import get, move, put8, put16, put64, u8, u32
from tailrace.columns.kernels.number_text import put_unsigned
from tailrace.columns.kernels.temporal_text import put_moment


@each_row
def transaction_lines(out: int, row: int, frame: int, limit: int) -> int:
    """Write one transaction's first line; returns the address after it, or a code."""
    transaction = get(frame, H_ENTRIES) + row * 8 * k.TRANSACTION_WORDS
    name = get(frame, H_FILE)
    size = get(frame, H_FILE + 1)
    if out + size + get(frame, H_BEFORE + 1) + get(frame, H_BEHIND + 1) > limit:
        return MORE
    move(out, get(frame, H_BEFORE), get(frame, H_BEFORE + 1))
    out += get(frame, H_BEFORE + 1)
    for i in range(size):
        put8(out + i, u8(name + i))
    out += size
    put8(out, 0x3A)
    out = put_unsigned(out + 1, get(transaction, k.T_START))
    put16(out, 0x2020)
    out += 2
    if get(transaction, k.T_KIND) == k.NO_GTID:
        put64(out, 0x44495447206F6E)  # no GTID
        out += 7
    else:
        out = gtid_text(transaction, out)
    put16(out, 0x2020)
    stamp = get(transaction, k.T_STAMP)
    if stamp < 0:
        stamp = get(transaction, k.T_SECONDS) * 1000000
    days = stamp // 86400000000
    micros = stamp - days * 86400000000
    out = put_moment(out + 2, days, micros, 6 if micros % 1000000 else 0)
    if out > 0:
        put8(out, 0x0A)
        move(out + 1, get(frame, H_BEHIND), get(frame, H_BEHIND + 1))
        out += 1 + get(frame, H_BEHIND + 1)
    return out


def list_events(frame):
    """List planned events; returns how many there are, or -1 if there is no room."""
    p = get(frame, E_BEGIN)
    end = get(frame, E_END)
    room = get(frame, E_ROOM)
    out = get(frame, E_OUT)
    count = 0
    while p < end:
        if count == room:
            return -1
        size = u32(p + 9)
        put64(out, p)
        put64(out + 8, u8(p + 4))
        put64(out + 16, size)
        put64(out + 24, u32(p))
        out += 8 * EVENT_WORDS
        count += 1
        p += size
    return count
