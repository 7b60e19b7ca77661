"""The servers' character sets to UTF-8 and back: by tables, or UTF-16 and UTF-32.

A table's entry for a code is its character's UTF-8 bytes as a little-endian number, 0 if it has
none; the table of the way back has a character's code in the same form.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tailrace.columns.frames import encode as f
from tailrace.columns.frames import text as t
from tailrace.columns.kernels.each_row import each_row
from tailrace.columns.kernels.memory import (
    be16,
    be32,
    bswap64,
    get,
    helper,
    put8,
    put16,
    put32,
    u8,
    u16,
    u32,
)
from tailrace.columns.kernels.number_text import divide, low_zeros


@intrinsic
def _copy16_high(typingctx: Any, target: Any, source: Any) -> Any:
    """Copy 16 bytes; give one bit for each that is above 127."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.IntType(8), 16)
        value = builder.load(builder.inttoptr(args[1], kind.as_pointer()), align=1)
        builder.store(value, builder.inttoptr(args[0], kind.as_pointer()), align=1)
        marks = builder.icmp_signed("<", value, ir.Constant(kind, [0] * 16))
        return builder.zext(builder.bitcast(marks, ir.IntType(16)), ir.IntType(64))

    return types.int64(types.int64, types.int64), codegen


@helper
def _utf8(point: int) -> int:
    """A code point's UTF-8 bytes as a number, the first one lowest."""
    if point < 0x80:
        return point
    last = 0x80 | (point & 0x3F)
    if point < 0x800:
        return 0xC0 | point >> 6 | last << 8
    middle = 0x80 | (point >> 6) & 0x3F
    if point < 0x10000:
        return 0xE0 | point >> 12 | middle << 8 | last << 16
    return 0xF0 | point >> 18 | (0x80 | (point >> 12) & 0x3F) << 8 | middle << 16 | last << 24


@helper
def _put_utf8(out: int, word: int) -> int:
    """Write the bytes that `_utf8` or a table gives; returns the address after them."""
    put32(out, word)
    return out + 1 + (word > 0xFF) + (word > 0xFFFF) + (word > 0xFFFFFF)


@helper
def _wide(out: int, p: int, size: int, kind: int, limit: int) -> int:
    """Write one value of UTF-16 (``kind`` 2 big-endian, 3 little-endian), UTF-32 (4) or UCS-2 (5).

    The last two have surrogates as characters, which are written as such.
    """
    stop = p + size
    while p < stop:
        if out > limit:
            return t.MORE
        if kind == 4:
            if stop - p < 4:
                return t.BAD_CODE
            point = be32(p)
            p += 4
        else:
            if stop - p < 2:
                return t.BAD_CODE
            point = u16(p) if kind == 3 else be16(p)
            p += 2
            if point >> 10 == 0x36 and kind < 4 and stop - p >= 2:  # the first half of a pair
                second = u16(p) if kind == 3 else be16(p)
                if second >> 10 == 0x37:
                    point = 0x10000 + ((point & 0x3FF) << 10 | second & 0x3FF)
                    p += 2
        if point > 0x10FFFF or (point >> 11 == 0x1B and kind < 4):
            return t.BAD_CODE
        out = _put_utf8(out, _utf8(point))
    return out


@helper
def _gb18030_four(p: int, table: int) -> int:
    """The character of a four-byte code whose first byte was checked; 0 if malformed."""
    second = u8(p + 1) - 0x30
    third = u8(p + 2) - 0x81
    fourth = u8(p + 3) - 0x30
    if second < 0 or second > 9 or third < 0 or third > 125 or fourth < 0 or fourth > 9:
        return 0
    number = (((u8(p) - 0x81) * 10 + second) * 126 + third) * 10 + fourth
    if number < t.FOUR_CODES:
        return u32(table + 4 * number)
    number -= t.FOUR_PLANES
    return _utf8(number + 0x10000) if 0 <= number < 0x100000 else 0x3F


@helper
def _by_table(out: int, p: int, stop: int, safe: int, frame: int, limit: int) -> int:
    """Write one value of a set that has tables."""
    single = get(frame, t.SINGLE)
    double = get(frame, t.DOUBLE)
    plain = get(frame, t.ASCII)
    while p < stop:
        if out > limit:
            return t.MORE
        lead = u8(p)
        if plain and lead < 0x80 and safe - p >= 16:
            marks = _copy16_high(out, p) | 1 << 16
            step = min(low_zeros(marks), stop - p)
            out += step
            p += step
            continue
        word = u32(single + 4 * lead)
        size = 1
        if word == 0 and lead:
            if double == 0 or stop - p < 2:
                return t.BAD_CODE
            size = 2
            word = u32(double + 4 * (lead << 8 | u8(p + 1)))
            if word == 0:
                if lead == 0x8F and get(frame, t.TRIPLE) and stop - p >= 3:
                    size = 3
                    word = u32(get(frame, t.TRIPLE) + 4 * be16(p + 1))
                elif get(frame, t.FOUR) and 0x81 <= lead <= 0xFE and stop - p >= 4:
                    size = 4
                    word = _gb18030_four(p, get(frame, t.FOUR))
                if word == 0:
                    return t.BAD_CODE
        out = _put_utf8(out, word)
        p += size
    return out


@each_row
def charset_text(out: int, row: int, frame: int, limit: int) -> int:
    """Write one row's text."""
    data = get(frame, t.DATA)
    safe = get(frame, t.DATA_END)
    offsets = get(frame, t.OFFSETS) + 4 * row
    p = data + u32(offsets)
    stop = data + u32(offsets + 4)
    if stop < p or stop > safe:
        return t.CUT_SHORT
    kind = get(frame, t.WIDE)
    if kind:
        return _wide(out, p, stop - p, kind, limit)
    return _by_table(out, p, stop, safe, frame, limit)


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
    number = point - 0x10000 + t.FOUR_PLANES
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
    data = get(frame, t.DATA)
    offsets = get(frame, t.OFFSETS) + 4 * row
    p, stop = data + u32(offsets), data + u32(offsets + 4)
    if stop < p or stop > get(frame, t.DATA_END):
        return t.BY_HAND
    kind = get(frame, f.WIDE)
    codes = get(frame, f.CODES)
    while p < stop:
        if out > limit:
            return t.MORE
        width = _width(u8(p))
        if width > stop - p:
            return t.BY_HAND
        point = _point(p, width)
        p += width
        if kind:
            out = _put_wide(out, point, kind)
        elif point > 0xFFFF:
            if get(frame, f.PLANES) == 0:
                return t.BY_HAND
            out = _put_planes(out, point)
        else:
            code = u32(codes + 4 * point)
            if code == 0 and point:
                return t.BY_HAND
            put32(out, code)
            out += 1 + (code > 0xFF) + (code > 0xFFFF) + (code > 0xFFFFFF)
    return out
