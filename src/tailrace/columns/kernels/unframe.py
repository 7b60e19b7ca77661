"""Turns a dump's packets into the bytes of the log, in place, like `tailrace.wire.unframe`."""

from __future__ import annotations

from tailrace.columns.frames import unframe as w
from tailrace.columns.kernels.memory import (
    copy16,
    copy32,
    get,
    helper,
    i64,
    le24,
    put,
    put8,
    put16,
    put32,
    put64,
    u8,
    u16,
    u32,
)


@helper
def _down(target, source, size):
    """Move ``size`` bytes, which may overlap; no bytes after them are read or written.

    ``target`` is before ``source``, so what a step overwrites was already read.
    """
    done = 0
    while size - done >= 32:
        copy32(target + done, source + done)
        done += 32
    if (size - done) & 16:
        copy16(target + done, source + done)
        done += 16
    if (size - done) & 8:
        put64(target + done, i64(source + done))
        done += 8
    if (size - done) & 4:
        put32(target + done, u32(source + done))
        done += 4
    if (size - done) & 2:
        put16(target + done, u16(source + done))
        done += 2
    if (size - done) & 1:
        put8(target + done, u8(source + done))


@helper
def _event(p, size, offset):
    """The kind of the event at ``p``, which has ``size`` bytes and begins at ``offset`` of its
    file.
    """
    if u32(p + 9) != size:
        return w.BAD_LENGTH
    kind = u8(p + 4)
    if kind in (w.ROTATE, w.FORMAT_DESCRIPTION, w.HEARTBEAT, w.HEARTBEAT_V2, w.START_ENCRYPTION):
        return w.CONTROL
    if u16(p + 17) & w.ARTIFICIAL:
        return w.CONTROL
    said = u32(p + 13)
    if said != 0 and said != (offset + size) & 0xFFFFFFFF:
        return w.HOLE
    return w.PLAIN


def unframe(data, starts, room, state):
    """Make a chunk of the packets that are whole; returns why it stopped.

    ``data`` and ``starts`` are addresses, ``room`` is the number of starts that fit, ``state`` the
    address of the words.
    """
    read, end = get(state, w.READ), get(state, w.END)
    begin, write = get(state, w.BEGIN), get(state, w.WRITE)
    offset, count = get(state, w.OFFSET), get(state, w.COUNT)
    reason = w.PLAIN
    while reason == w.PLAIN:
        if end - read < 4:
            put(state, w.NEED, 4)
            reason = w.MORE
            break
        length = le24(data + read)
        if length == 0xFFFFFF:
            reason = w.CONTINUED
            break
        if end - read < 4 + length:
            put(state, w.NEED, 4 + length)
            reason = w.MORE
            break
        if length == 0 or u8(data + read + 4) != 0:
            reason = w.ANSWER
            break
        size = length - 1
        if size < 19:
            reason = w.BAD_LENGTH
            break
        reason = _event(data + read + 5, size, offset)
        if reason != w.PLAIN:
            break
        if count >= room:
            reason = w.FULL
            break
        put64(starts + count * 8, write - begin)
        _down(data + write, data + read + 5, size)
        read += 4 + length
        write += size
        offset += size
        count += 1
    put(state, w.READ, read)
    put(state, w.WRITE, write)
    put(state, w.OFFSET, offset)
    put(state, w.COUNT, count)
    return reason
