"""Strings in the form of JSON, with their escapes, and bytes as base64.

Every function takes the address to write at and returns the address after what it wrote, or a
code <= 0 of `text_frames`. Stores may run up to 16 bytes past that; loads never pass the given end.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tailrace.columns.frames.text import MORE, NOT_UTF8
from tailrace.columns.kernels.memory import helper, put8, put16, put32, u8, u16
from tailrace.columns.kernels.number_text import low_zeros

_KIND = ir.VectorType(ir.IntType(8), 16)
_LOWEST = 0x20


def copying16(marked: tuple[int, ...], *, plain_ascii: bool) -> Any:
    """Make an intrinsic that copies 16 bytes and gives one bit for each that is marked.

    With ``plain_ascii`` control characters and bytes above 127 are marked as well.
    """

    @intrinsic
    def copy(typingctx: Any, target: Any, source: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = builder.load(builder.inttoptr(args[1], _KIND.as_pointer()), align=1)
            builder.store(value, builder.inttoptr(args[0], _KIND.as_pointer()), align=1)
            least = _LOWEST if plain_ascii else -0x80
            marks = builder.icmp_signed("<", value, ir.Constant(_KIND, [least] * 16))
            for byte in marked:
                found = builder.icmp_unsigned("==", value, ir.Constant(_KIND, [byte] * 16))
                marks = builder.or_(marks, found)
            return builder.zext(builder.bitcast(marks, ir.IntType(16)), ir.IntType(64))

        return types.int64(types.int64, types.int64), codegen

    return copy


def copying(copy16: Any, marked: tuple[int, ...], *, plain_ascii: bool) -> Any:
    """Make a helper that copies bytes from ``p`` up to ``stop``, at most 16.

    It returns how many come before the first marked byte, and whether there is one. ``copy16``
    is `copying16` of the same bytes. Writes up to 16 bytes; reads nothing from ``end`` on.
    """

    @helper
    def copy(out, p, stop, end):
        step = min(stop - p, 16)
        if end - p >= 16:
            marks = copy16(out, p) & ((1 << step) - 1)
        else:
            byte = u8(p)
            put8(out, byte)
            step = 1
            marks = int(byte in marked or (plain_ascii and (byte < _LOWEST or byte > 0x7F)))
        if marks == 0:
            return step, 0
        return low_zeros(marks), 1

    return copy


_MARKED: Final = (0x22, 0x5C)  # what a JSON string must escape; also bytes above 127

copy16_marking = copying16(_MARKED, plain_ascii=True)
_copy_plain = copying(copy16_marking, _MARKED, plain_ascii=True)


@helper
def utf8_width(p: int, end: int) -> int:
    """Check the UTF-8 sequence at ``p``; give its length in bytes, or 0 if it is not one."""
    lead = u8(p)
    if lead < 0x80:
        return 1
    if lead < 0xC2 or lead > 0xF4:
        return 0
    width = 2 + (lead >= 0xE0) + (lead >= 0xF0)
    if end - p < width:
        return 0
    second = u8(p + 1)
    if second & 0xC0 != 0x80:
        return 0
    if width == 2:
        return 2
    # the first continuation byte rules out overlong forms, surrogates and code points past U+10FFFF
    point = (lead << 6) | (second & 0x3F)
    if width == 3:
        point &= 0x3FF
        if point < 0x20 or 0x360 <= point < 0x380:
            return 0
        return 3 * (u8(p + 2) & 0xC0 == 0x80)
    point &= 0x1FF
    if point < 0x10 or point >= 0x110:
        return 0
    return 4 * (u16(p + 2) & 0xC0C0 == 0x8080)


@helper
def put_escape(out: int, byte: int) -> int:
    """Write a control character, a quote or a backslash in the form of JSON strings."""
    letter = 0
    if byte > 0x1F:
        letter = byte
    elif byte == 8:
        letter = 0x62
    elif byte == 9:
        letter = 0x74
    elif byte == 10:
        letter = 0x6E
    elif byte == 12:
        letter = 0x66
    elif byte == 13:
        letter = 0x72
    if letter:
        put16(out, 0x5C | (letter << 8))
        return out + 2
    put32(out, 0x3030755C)  # \u00
    low = byte & 15
    put16(out + 4, (0x30 + (byte >> 4)) | ((low + 0x30 + 39 * (low > 9)) << 8))
    return out + 6


@helper
def put_string(out: int, p: int, size: int, end: int, limit: int) -> int:
    """Write UTF-8 bytes as a JSON string, quotes included.

    ``end`` limits the bytes that may be read, ``limit`` where a write may begin.
    """
    put8(out, 0x22)
    out += 1
    stop = p + size
    while p < stop:
        if out > limit:
            return MORE
        step, marked = _copy_plain(out, p, stop, end)
        out += step
        p += step
        if marked == 0:
            continue
        byte = u8(p)
        if byte < 0x80:
            out = put_escape(out, byte)
            p += 1
            continue
        while byte >= 0x80:
            width = utf8_width(p, stop)
            if width == 0:
                return NOT_UTF8
            if out > limit:
                return MORE
            put16(out, u16(p))
            put16(out + width - 2, u16(p + width - 2))
            out += width
            p += width
            if p >= stop:
                break
            byte = u8(p)
    put8(out, 0x22)
    return out + 1


@helper
def put_quick_string(out: int, p: int, size: int, end: int, limit: int) -> int:
    """Like `put_string`, with a fast path for short and plain strings."""
    if size <= 16 and end - p >= 16 and out <= limit:
        put8(out, 0x22)
        if copy16_marking(out + 1, p) & ((1 << size) - 1) == 0:
            put8(out + 1 + size, 0x22)
            return out + 2 + size
    return put_string(out, p, size, end, limit)


@helper
def _sextet(value: int) -> int:
    """The base64 letter of six bits."""
    letter = value + 0x41
    letter += 6 * (value > 25)
    letter -= 75 * (value > 51)
    letter -= 15 * (value > 61)
    return letter + 3 * (value > 62)


@helper
def put_base64(out: int, p: int, size: int, line: int, limit: int) -> int:
    r"""Write bytes as base64; with ``line`` > 0, an escaped ``\n`` after every ``line`` bytes."""
    done = 0
    full = line or size
    while done < size:
        if out > limit:
            return MORE
        if done == full:
            put16(out, 0x6E5C)
            out += 2
            full += line
        left = size - done
        word = u8(p + done) << 16
        if left > 1:
            word |= u8(p + done + 1) << 8
        if left > 2:
            word |= u8(p + done + 2)
        put8(out, _sextet(word >> 18))
        put8(out + 1, _sextet((word >> 12) & 63))
        put8(out + 2, _sextet((word >> 6) & 63) if left > 1 else 0x3D)
        put8(out + 3, _sextet(word & 63) if left > 2 else 0x3D)
        out += 4
        done += 3
    return out


@intrinsic
def _copy16_one_line(typingctx: Any, target: Any, source: Any) -> Any:
    """Copy 16 bytes, with line ends as spaces."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.IntType(8), 16)
        value = builder.load(builder.inttoptr(args[1], kind.as_pointer()), align=1)
        feed = builder.icmp_unsigned("==", value, ir.Constant(kind, [0x0A] * 16))
        home = builder.icmp_unsigned("==", value, ir.Constant(kind, [0x0D] * 16))
        value = builder.select(builder.or_(feed, home), ir.Constant(kind, [0x20] * 16), value)
        builder.store(value, builder.inttoptr(args[0], kind.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@helper
def put_raw_json(out: int, p: int, size: int, end: int, limit: int) -> int:
    """Write a text that is JSON unchanged, but on one line."""
    if out + size > limit:
        return MORE
    done = 0
    while done < size:
        if end - p >= done + 16:
            _copy16_one_line(out + done, p + done)
            done += 16
        else:
            byte = u8(p + done)
            put8(out + done, 0x20 if byte in (0x0A, 0x0D) else byte)
            done += 1
    return out + size
