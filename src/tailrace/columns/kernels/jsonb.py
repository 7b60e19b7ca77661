"""MySQL's binary JSON as the text that its server prints.

Source: ``sql-common/json_binary.h`` (layout), ``json_dom.cc`` (text); facts sheet section 3.2.
"""

from __future__ import annotations

from tailrace.columns.frames import json_codes as j
from tailrace.columns.frames import text as f
from tailrace.columns.kernels.each_row import each_row
from tailrace.columns.kernels.memory import (
    behind_json_length,
    get,
    helper,
    i16,
    i32,
    i64,
    json_length,
    put,
    put8,
    put16,
    put32,
    put64,
    u8,
    u16,
    u32,
)
from tailrace.columns.kernels.number_text import (
    divide,
    put_float,
    put_packed_decimal,
    put_signed,
    put_unsigned,
)
from tailrace.columns.kernels.strings import put_base64, put_quick_string
from tailrace.columns.kernels.temporal_text import put_clock, put_date

_LINE = 57  # bytes on each line of the server's base64


@helper
def _moment(out: int, field: int, packed: int) -> int:
    """Write a DATE, TIME, DATETIME or TIMESTAMP, six digits of fraction."""
    put8(out, 0x22)
    out += 1
    if packed < 0:
        if field != j.TIME:
            return f.BAD_TIME
        packed = -packed
        put8(out, 0x2D)
        out += 1
    micros = packed & 0xFFFFFF
    clock = (packed >> 24) & 0xFFFFFFFFFF
    hour = clock >> 12 if field == j.TIME else (clock >> 12) & 0x1F
    minute = (clock >> 6) & 63
    second = clock & 63
    if hour > 838 or minute > 59 or second > 59 or micros > 999999:
        return f.BAD_TIME
    if field != j.TIME:
        month = clock >> 22
        year = divide(month, 13)
        if year > 9999 or hour > 23:
            return f.BAD_TIME
        out = put_date(out, year, month - 13 * year, (clock >> 17) & 31)
        if field != j.DATE:
            put8(out, 0x20)
            out += 1
    if field != j.DATE:
        out = put_clock(out, hour, minute, second, micros, 6)
    put8(out, 0x22)
    return out + 1


@helper
def _opaque(out: int, at: int, end: int, limit: int) -> int:
    """Write a value of an SQL type: decimal, date or time; others as base64.

    VAR_STRING is text in an unknown character set: it is written as UTF-8 if it is valid UTF-8.
    """
    length = json_length(at + 1, end)
    if length < 0:
        return f.CUT_SHORT
    field = u8(at)
    at = behind_json_length(at + 1, end)
    if length > end - at:
        return f.CUT_SHORT
    if field == j.NEWDECIMAL:
        if length < 2:
            return f.BAD_NUMBER
        return put_packed_decimal(out, at + 2, length - 2, u8(at), u8(at + 1))
    if field == j.TIMESTAMP or j.DATE <= field <= j.DATETIME:
        if length != 8:
            return f.BAD_TIME
        return _moment(out, field, i64(at))
    if field == j.VAR_STRING:
        text = put_quick_string(out, at, length, end, limit)
        if text != f.NOT_UTF8:
            return text
    put64(out, 0x3A34366573616222)  # "base64:type
    put32(out + 8, 0x65707974)
    out = put_unsigned(out + 12, field)
    put8(out, 0x3A)
    out = put_base64(out + 1, at, length, _LINE, limit)
    if out > 0:
        put8(out, 0x22)
        out += 1
    return out


@helper
def _scalar(out: int, type_: int, at: int, end: int, limit: int) -> int:
    """Write a value that is neither a container nor a string."""
    room = end - at
    if type_ <= j.UINT16:
        if room < 1 + (type_ > j.LITERAL):
            return f.CUT_SHORT
        if type_ > j.LITERAL:
            return put_signed(out, i16(at) if type_ == j.INT16 else u16(at))
        literal = u8(at)
        if literal > 2:
            return f.BAD_TYPE
        text = 0x6C6C756E if literal == 0 else 0x65757274
        put64(out, 0x65736C6166 if literal == 2 else text)
        return out + 4 + (literal == 2)
    if type_ <= j.UINT32:
        if room < 4:
            return f.CUT_SHORT
        return put_signed(out, i32(at) if type_ == j.INT32 else u32(at))
    if type_ <= j.DOUBLE:
        if room < 8:
            return f.CUT_SHORT
        bits = i64(at)
        if type_ == j.INT64:
            return put_signed(out, bits)
        if type_ == j.UINT64:
            return put_unsigned(out, bits)
        if (bits >> 52) & 0x7FF == 0x7FF:
            return f.BAD_NUMBER
        return put_float(out, bits, 52, -14, 15, 0)
    if type_ != j.OPAQUE:
        return f.BAD_TYPE
    return _opaque(out, at, end, limit)


@helper
def _document(out: int, p: int, size: int, safe: int, limit: int, words: int) -> int:
    """Write one document; returns the address after it, or instead `MORE` or an error.

    A container being written is ``base`` (its first byte), ``stop`` (its end), ``key`` and
    ``value`` (the next entries), ``left`` (how many), ``kind``; its parents are on the stack.
    ``budget`` counts down the bytes that headers, keys and values take, so that none may overlap.
    """
    if out > limit:
        return f.MORE
    if size == 0:
        put32(out, 0x6C6C756E)  # an empty value means null
        return out + 4
    budget = size
    stack = get(words, f.STACK)
    depth = 0
    base = stop = key = value = left = kind = 0
    at = p + 1
    end = p + size
    type_ = u8(p)
    inlined = False
    while True:
        if out > limit:
            return f.MORE
        between = 2
        if type_ == j.STRING:
            length = u8(at) if at < end else 0x80
            text = at + 1
            if length >= 0x80:
                length = json_length(at, end)
                text = behind_json_length(at, end)
            budget -= length + text - at
            at = text
            if length < 0 or length > end - at or budget < 0:
                return f.OVERLAP if budget < 0 else f.CUT_SHORT
            out = put_quick_string(out, at, length, safe, limit)
            if out <= 0:
                return out
        elif type_ > j.LARGE_ARRAY:
            if type_ == j.OPAQUE:
                if get(words, f.TYPED):
                    put8(get(words, f.TYPED) + get(words, f.TYPED + 1), 1)
                length = json_length(at + 1, end)
                budget -= length + behind_json_length(at + 1, end) - at
            elif not inlined:
                budget -= min(8, 1 << ((type_ - j.LARGE_ARRAY) >> 1))
            if budget < 0:
                return f.OVERLAP
            out = _scalar(out, type_, at, end, limit)
            if out <= 0:
                return out
        else:
            large = type_ & 1
            width = 2 + 2 * large
            if end - at < 2 * width:
                return f.CUT_SHORT
            count = u32(at) if large else u16(at)
            total = u32(at + 4) if large else u16(at + 2)
            keys = count * (2 + width) if type_ <= j.LARGE_OBJECT else 0
            head = 2 * width + count * (1 + width) + keys
            budget -= head
            if total > end - at or head > total:
                return f.CUT_SHORT
            if budget < 0:
                return f.OVERLAP
            if depth == f.DEPTH:
                return f.TOO_DEEP
            frame = stack + depth * 8 * f.FRAME_WORDS
            put(frame, 0, base)
            put(frame, 1, stop)
            put(frame, 2, key)
            put(frame, 3, value)
            put(frame, 4, left)
            put(frame, 5, kind)
            depth += 1
            kind = type_
            left = count
            base = at
            stop = at + total
            key = at + 2 * width
            value = key + keys
            put8(out, 0x7B if type_ <= j.LARGE_OBJECT else 0x5B)
            out += 1
            between = 0
        while left == 0:
            if depth == 0:
                return out
            put8(out, 0x7D if kind <= j.LARGE_OBJECT else 0x5D)
            out += 1
            depth -= 1
            frame = stack + depth * 8 * f.FRAME_WORDS
            base = get(frame, 0)
            stop = get(frame, 1)
            key = get(frame, 2)
            value = get(frame, 3)
            left = get(frame, 4)
            kind = get(frame, 5)
            between = 2
        put16(out, 0x202C)
        out += between
        large = kind & 1
        floor = value + left * (3 + 2 * large)  # the header's end
        left -= 1
        if kind <= j.LARGE_OBJECT:
            at = base + (u32(key) if large else u16(key))
            length = u16(key + 2 + 2 * large)
            key += 4 + 2 * large
            budget -= length
            if at < floor or length > stop - at or budget < 0:
                return f.OVERLAP if budget < 0 else f.CUT_SHORT
            out = put_quick_string(out, at, length, safe, limit)
            if out <= 0:
                return out
            put16(out, 0x203A)
            out += 2
        type_ = u8(value)
        at = value + 1
        value += 3 + 2 * large
        inlined = j.LITERAL <= type_ <= (j.UINT32 if large else j.UINT16)
        if inlined:
            end = value
        else:
            at = base + (u32(at) if large else u16(at))
            end = stop
            if at < floor or at > stop:
                return f.CUT_SHORT


@each_row
def json_text(out: int, row: int, frame: int, limit: int) -> int:
    """Write one row's document."""
    data = get(frame, f.DATA)
    safe = get(frame, f.DATA_END)
    offsets = get(frame, f.OFFSETS) + 4 * row
    p = data + u32(offsets)
    stop = data + u32(offsets + 4)
    if stop < p or stop > safe:
        return f.CUT_SHORT
    put(frame, f.TYPED + 1, row)
    return _document(out, p, stop - p, safe, limit, frame)
