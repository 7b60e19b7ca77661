"""Bytes of the servers' character sets as UTF-8: by tables, or from UTF-16 and UTF-32.

A table's entry is a character's UTF-8 bytes as a little-endian number, 0 where there is none.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tailrace.columns.kernels.digits import low_zeros
from tailrace.columns.kernels.memory import be16, be32, helper, i64, put32, put64, u8, u16, u32
from tailrace.columns.text_frames import (
    ASCII,
    BAD_CODE,
    CAPACITY,
    CUT_SHORT,
    DATA,
    DATA_END,
    DONE,
    DOUBLE,
    FOUR,
    FOUR_CODES,
    FOUR_PLANES,
    MORE,
    OFFSETS,
    OUT,
    OUT_OFFSETS,
    ROOM,
    ROW,
    ROWS,
    SINGLE,
    TRIPLE,
    USED,
    VALID,
    VALID_BIT,
    WIDE,
)


@intrinsic
def _copy16_high(typingctx: Any, target: Any, source: Any) -> Any:  # noqa: ARG001 - numba's signature
    """Copy 16 bytes; give a bit for each that is above 127."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
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
    """Write the bytes that `_utf8` or a table gives; the address behind them."""
    put32(out, word)
    lead = word & 0xFF
    return out + 1 + (lead > 0xBF) + (lead > 0xDF) + (lead > 0xEF)


@helper
def _wide(out: int, p: int, size: int, kind: int, limit: int) -> int:
    """Write one value of UTF-16 (``kind`` 2 big-endian, 3 little-endian) or UTF-32 (4)."""
    stop = p + size
    while p < stop:
        if out > limit:
            return MORE
        if kind == 4:
            if stop - p < 4:
                return BAD_CODE
            point = be32(p)
            p += 4
        else:
            if stop - p < 2:
                return BAD_CODE
            point = be16(p) if kind == 2 else u16(p)
            p += 2
            if point >> 10 == 0x36 and stop - p >= 2:  # the first half of a pair
                second = be16(p) if kind == 2 else u16(p)
                if second >> 10 == 0x37:
                    point = 0x10000 + ((point & 0x3FF) << 10 | second & 0x3FF)
                    p += 2
        if point > 0x10FFFF or point >> 11 == 0x1B:
            return BAD_CODE
        out = _put_utf8(out, _utf8(point))
    return out


@helper
def _gb18030_four(p: int, table: int) -> int:
    """The character of a code of four bytes, the first of which is known to fit; 0 if malformed."""
    second = u8(p + 1) - 0x30
    third = u8(p + 2) - 0x81
    fourth = u8(p + 3) - 0x30
    if second < 0 or second > 9 or third < 0 or third > 125 or fourth < 0 or fourth > 9:
        return 0
    number = (((u8(p) - 0x81) * 10 + second) * 126 + third) * 10 + fourth
    if number < FOUR_CODES:
        return u32(table + 4 * number)
    number -= FOUR_PLANES
    return _utf8(number + 0x10000) if 0 <= number < 0x100000 else 0x3F


@helper
def _by_table(out: int, p: int, stop: int, safe: int, frame: int, limit: int) -> int:
    """Write one value of a set that has tables."""
    single = i64(frame + 8 * SINGLE)
    double = i64(frame + 8 * DOUBLE)
    plain = i64(frame + 8 * ASCII)
    while p < stop:
        if out > limit:
            return MORE
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
                return BAD_CODE
            size = 2
            word = u32(double + 4 * (lead << 8 | u8(p + 1)))
            if word == 0:
                if lead == 0x8F and i64(frame + 8 * TRIPLE) and stop - p >= 3:
                    size = 3
                    word = u32(i64(frame + 8 * TRIPLE) + 4 * be16(p + 1))
                elif i64(frame + 8 * FOUR) and 0x81 <= lead <= 0xFE and stop - p >= 4:
                    size = 4
                    word = _gb18030_four(p, i64(frame + 8 * FOUR))
                if word == 0:
                    return BAD_CODE
        out = _put_utf8(out, word)
        p += size
    return out


def charset_text(frame: int) -> int:
    """Write each row's text; give `DONE`, `MORE` or what is wrong, with the row in the frame."""
    start = i64(frame + 8 * OUT)
    limit = start + i64(frame + 8 * CAPACITY) - ROOM
    data = i64(frame + 8 * DATA)
    data_end = i64(frame + 8 * DATA_END)
    offsets = i64(frame + 8 * OFFSETS)
    out_offsets = i64(frame + 8 * OUT_OFFSETS)
    valid = i64(frame + 8 * VALID)
    valid_bit = i64(frame + 8 * VALID_BIT)
    kind = i64(frame + 8 * WIDE)
    rows = i64(frame + 8 * ROWS)
    row = i64(frame + 8 * ROW)
    out = start + i64(frame + 8 * USED)
    result = DONE
    while row < rows:
        bit = valid_bit + row
        if valid == 0 or (u8(valid + (bit >> 3)) >> (bit & 7)) & 1:
            p = data + u32(offsets + 4 * row)
            stop = data + u32(offsets + 4 * row + 4)
            if stop < p or stop > data_end:
                result = CUT_SHORT
                break
            if kind:
                wrote = _wide(out, p, stop - p, kind, limit)
            else:
                wrote = _by_table(out, p, stop, data_end, frame, limit)
            if wrote <= 0:
                result = wrote
                break
            out = wrote
        row += 1
        put32(out_offsets + 4 * row, out - start)
    put64(frame + 8 * ROW, row)
    put64(frame + 8 * USED, out - start)
    return result
