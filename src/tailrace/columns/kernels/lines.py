"""Lines that kernels wrote: finds those that must not be printed as they are, and orders all."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tailrace.columns.frames import text as f
from tailrace.columns.kernels.memory import copy32, get, helper, i64, put8, put64, u8, u32
from tailrace.columns.kernels.number_text import low_zeros


@intrinsic
def _marks16(typingctx: Any, address: Any) -> Any:
    """A bit for each of 16 bytes that is neither a printable ASCII character nor a line's end."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.IntType(8), 16)
        value = builder.load(builder.inttoptr(args[0], kind.as_pointer()), align=1)
        low = builder.icmp_signed("<", value, ir.Constant(kind, [0x20] * 16))  # and above 127
        feed = builder.icmp_unsigned("!=", value, ir.Constant(kind, [0x0A] * 16))
        delete = builder.icmp_unsigned("==", value, ir.Constant(kind, [0x7F] * 16))
        marks = builder.or_(builder.and_(low, feed), delete)
        return builder.zext(builder.bitcast(marks, ir.IntType(16)), ir.IntType(64))

    return types.int64(types.int64), codegen


@helper
def _character(p, end):
    """The character at ``p`` and its number of bytes; for malformed bytes, 0 and 1."""
    lead = u8(p)
    if lead < 0x80:
        return lead, 1
    width = 2 + (lead >= 0xE0) + (lead >= 0xF0)
    if lead < 0xC2 or end - p < width:
        return 0, 1
    point = lead & (0x7F >> width)
    for i in range(1, width):
        point = point << 6 | (u8(p + i) & 0x3F)
    return (point, width) if point < 0x110000 else (0, 1)


@helper
def _printable(point, table):
    """Whether a character may be printed; -1 if only the table can tell, and there is none."""
    if point < 0x80:
        return int(0x20 <= point < 0x7F)
    if point in (0x2026, 0x2192):  # characters that text for people uses itself
        return 1
    if table == 0:
        return -1
    return u8(table + (point >> 3)) >> (point & 7) & 1


def odd_lines(frame):
    """Note the lines with characters that are not printable; returns how many there are.

    -1 if there are characters other than ASCII, and no table of printable ones.
    """
    text = get(frame, f.L_TEXT)
    end = get(frame, f.L_END)
    offsets = get(frame, f.L_OFFSETS)
    printable = get(frame, f.L_PRINTABLE)
    keep = get(frame, f.L_KEEP)
    rows = get(frame, f.L_ROWS)
    found = 0
    row = 0
    p = text
    while p < end:
        if end - p >= 16:
            marks = _marks16(p)
            if marks == 0:
                p += 16
                continue
            p += low_zeros(marks)
        point, width = _character(p, end)
        good = _printable(point, printable)
        if good < 0:
            return -1
        if good or point in (0x0A, keep):
            p += width
            continue
        while row < rows and text + u32(offsets + 4 * row + 4) <= p:
            row += 1
        put64(get(frame, f.L_FOUND) + 8 * found, row)
        found += 1
        p = text + u32(offsets + 4 * row + 4)
        row += 1
    return found


@helper
def _copy(target, source, size):
    """Copy bytes without reading or writing any others."""
    while size >= 32:
        copy32(target, source)
        target += 32
        source += 32
        size -= 32
    while size >= 8:
        put64(target, i64(source))
        target += 8
        source += 8
        size -= 8
    while size > 0:
        put8(target, u8(source))
        target += 1
        source += 1
        size -= 1


def gather_lines(frame):
    """Write lines one after the other in the given order; returns their bytes."""
    order = get(frame, f.L_ORDER)
    starts = get(frame, f.L_STARTS)
    sizes = get(frame, f.L_SIZES)
    out = get(frame, f.L_OUT)
    begin = 0
    size = 0
    for number in range(get(frame, f.L_ROWS)):
        index = i64(order + 8 * number)
        start = i64(starts + 8 * index)
        if start != begin + size:
            _copy(out, begin, size)
            out += size
            begin = start
            size = 0
        size += i64(sizes + 8 * index)
    _copy(out, begin, size)
    return out + size - get(frame, f.L_OUT)
