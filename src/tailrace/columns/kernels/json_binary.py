"""JSON texts as MySQL's binary JSON: the inverse of `jsonb`.

Source: ``sql-common/json_binary.cc``; facts sheet section 3.2. A container is small if all of it
fits into 65535 bytes; keys are ordered by size, then by bytes.
"""

from __future__ import annotations

from tailrace.columns.frames import encode as f
from tailrace.columns.frames import json_codes as j
from tailrace.columns.frames import text as t
from tailrace.columns.kernels.each_row import each_row
from tailrace.columns.kernels.json_parse import NODE, parse
from tailrace.columns.kernels.memory import (
    copy_in,
    get,
    helper,
    put,
    put8,
    put16,
    put32,
    put64,
    u32,
)


@helper
def _put_bytes(frame: int, out: int, source: int, size: int) -> None:
    """Copy bytes of the text, or of its unescaped strings."""
    texts, end = get(frame, f.TEXTS), get(frame, f.TEXTS_END)
    copy_in(out, source, size, end if texts <= source < end else get(frame, t.DATA_END))


@helper
def _put_scalar(frame: int, out: int, node: int) -> None:
    """Write a value that is not a container."""
    if get(node, f.V_TYPE) != 12:
        put64(out, get(node, f.V_DATA))
        return
    size = get(node, f.V_COUNT)
    left = size
    while left > 0x7F:
        put8(out, left & 0x7F | 0x80)
        out += 1
        left >>= 7
    put8(out, left)
    _put_bytes(frame, out + 1, get(node, f.V_DATA), size)


@helper
def _put_offset(out: int, value: int, large: int) -> None:
    if large:
        put32(out, value)
    else:
        put16(out, value)


@helper
def _put_keys(frame: int, base: int, node: int) -> tuple[int, int]:
    """Write a container's size and keys: (entry of its first value, where its values begin)."""
    type_ = get(node, f.V_TYPE)
    count = get(node, f.V_COUNT)
    large = type_ & 1
    width = 2 + 2 * large
    _put_offset(base, count, large)
    _put_offset(base + width, get(node, f.V_SIZE), large)
    entry = base + 2 * width
    at = 2 * width + count * (1 + width)
    if type_ > 1:
        return entry, at
    at += count * (2 + width)
    key = get(node, f.V_DATA)
    for _ in range(count):
        size = get(key, f.V_KEY_SIZE)
        _put_offset(entry, at, large)
        put16(entry + width, size)
        _put_bytes(frame, base + at, get(key, f.V_KEY), size)
        entry += width + 2
        at += size
        key += NODE
    return entry, at


@helper
def _put_containers(frame: int, base: int, node: int, levels: int) -> None:
    """Write a container and all that it contains at ``base``, from lower to higher addresses.

    Copies may write past their end, where later data will be written; only entries come before what
    is already written. A container whose values are being written is ``child`` (the next value),
    ``last``, ``entry``, ``at``, ``base`` and ``large``; its parents are on the stack ``levels``.
    """
    depth = 0
    large = get(node, f.V_TYPE) & 1
    entry, at = _put_keys(frame, base, node)
    child = get(node, f.V_DATA)
    last = child + get(node, f.V_COUNT) * NODE
    while True:
        if child == last:
            if depth == 0:
                return
            depth -= 1
            level = levels + depth * 64
            child, last = get(level, 0), get(level, 1)
            entry, at = get(level, 2), get(level, 3)
            base, large = get(level, 4), get(level, 5)
            continue
        kind = get(child, f.V_TYPE)
        put8(entry, kind)
        inlined = kind in (j.LITERAL, j.INT16) or (kind == j.INT32 and large)
        _put_offset(entry + 1, get(child, f.V_DATA) if inlined else at, large)
        entry += 3 + 2 * large
        node = child
        child += NODE
        if inlined:
            continue
        here = base + at
        at += get(node, f.V_SIZE)
        if kind > j.LARGE_ARRAY:
            _put_scalar(frame, here, node)
            continue
        level = levels + depth * 64
        put(level, 0, child)
        put(level, 1, last)
        put(level, 2, entry)
        put(level, 3, at)
        put(level, 4, base)
        put(level, 5, large)
        depth += 1
        base = here
        large = kind & 1
        entry, at = _put_keys(frame, base, node)
        child = get(node, f.V_DATA)
        last = child + get(node, f.V_COUNT) * NODE


@each_row
def json_binary(out: int, row: int, frame: int, limit: int) -> int:
    """Write one row's document."""
    data = get(frame, t.DATA)
    offsets = get(frame, t.OFFSETS) + 4 * row
    p, stop = data + u32(offsets), data + u32(offsets + 4)
    if stop < p or stop > get(frame, t.DATA_END) or stop - p > get(frame, f.LONGEST):
        return t.BY_HAND
    if parse(frame, p, stop) < 0:
        return t.BY_HAND
    root = get(frame, f.NODES)
    size = get(root, f.V_SIZE)
    if out + size > limit:
        return t.MORE
    put8(out, get(root, f.V_TYPE))
    if get(root, f.V_TYPE) > 3:
        _put_scalar(frame, out + 1, root)
    else:
        _put_containers(frame, out + 1, root, get(frame, f.LEVELS))
    return out + 1 + size
