"""UTF-8 as bytes of the servers' character sets: by a table, or as UTF-16 and UTF-32."""

from __future__ import annotations

from tailrace.columns.frames import encode as f
from tailrace.columns.frames.text import DATA, DATA_END, FOUR_PLANES, MORE, OFFSETS
from tailrace.columns.kernels.digits import divide
from tailrace.columns.kernels.each_row import each_row
from tailrace.columns.kernels.memory import bswap64, get, helper, put8, put16, put32, u8, u32


@helper
def _width(lead: int) -> int:
    """The number of bytes of a character, from its first byte."""
    return 1 + (lead > 0xBF) + (lead > 0xDF) + (lead > 0xEF)


@helper
def _point(p: int, width: int) -> int:
    """The code point of a character in well-formed UTF-8."""
    lead = u8(p)
    if width == 1:
        return lead
    point = lead & (0x7F >> width)
    for index in range(1, width):
        point = point << 6 | (u8(p + index) & 0x3F)
    return point


@helper
def _swap16(value: int) -> int:
    return (value >> 8) & 0xFF | (value & 0xFF) << 8


@helper
def _put_wide(out: int, point: int, kind: int) -> int:
    """Write UTF-16 (``kind`` 2 big-endian, 3 little-endian) or UTF-32 (4)."""
    if kind == 4:
        put32(out, bswap64(point << 32))
        return out + 4
    if point > 0xFFFF:
        point -= 0x10000
        high, low = 0xD800 | point >> 10, 0xDC00 | point & 0x3FF
        put16(out, high if kind == 3 else _swap16(high))
        put16(out + 2, low if kind == 3 else _swap16(low))
        return out + 4
    put16(out, point if kind == 3 else _swap16(point))
    return out + 2


@helper
def _put_planes(out: int, point: int) -> int:
    """Write a character past U+FFFF in gb18030."""
    number = point - 0x10000 + FOUR_PLANES
    rest = divide(number, 10)
    put8(out + 3, 0x30 + number - rest * 10)
    number = divide(rest, 126)
    put8(out + 2, 0x81 + rest - number * 126)
    rest = divide(number, 10)
    put8(out + 1, 0x30 + number - rest * 10)
    put8(out, 0x81 + rest)
    return out + 4


@each_row
def charset_bytes(out: int, row: int, frame: int, limit: int) -> int:
    """Write one row's bytes."""
    data = get(frame, DATA)
    offsets = get(frame, OFFSETS) + 4 * row
    p, stop = data + u32(offsets), data + u32(offsets + 4)
    if stop < p or stop > get(frame, DATA_END):
        return f.BY_HAND
    kind = get(frame, f.WIDE)
    codes = get(frame, f.CODES)
    while p < stop:
        if out > limit:
            return MORE
        width = _width(u8(p))
        if width > stop - p:
            return f.BY_HAND
        point = _point(p, width)
        p += width
        if kind:
            out = _put_wide(out, point, kind)
        elif point > 0xFFFF:
            if get(frame, f.PLANES) == 0:
                return f.BY_HAND
            out = _put_planes(out, point)
        else:
            code = u32(codes + 4 * point)
            if code == 0 and point:
                return f.BY_HAND
            put32(out, code)
            out += 1 + (code > 0xFF) + (code > 0xFFFF) + (code > 0xFFFFFF)
    return out
