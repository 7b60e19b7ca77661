"""Integers, decimals and doubles as decimal text.

Every function takes the address to write at and returns the address after what it wrote. Stores
may run up to 8 bytes past that.

A double's shortest digits are found by Raffaele Giulietti's Schubfach method: a table of powers of
ten to 126 bits and three multiplications. The table is part of the machine code, made from Python's
integers.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tailrace.columns.frames.text import BAD_NUMBER
from tailrace.columns.kernels.memory import helper, i64, put8, put32, put64, u8, umulh
from tailrace.values.decimals import MOST_GROUPS

ZEROS = 0x3030303030303030


@intrinsic
def low_zeros(typingctx: Any, value: Any) -> Any:
    """Count the zero bits below the lowest set one; the value must not be 0."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


@intrinsic
def divide(typingctx: Any, value: Any, by: Any) -> Any:
    """Divide as unsigned 64-bit numbers, so that a constant divisor becomes a multiplication."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.udiv(args[0], args[1])

    return types.int64(types.int64, types.int64), codegen


@helper
def digits8(value: int) -> int:
    """Give a number below 10**8 as eight digits (0..9) in the bytes of a word, first one lowest."""
    top = divide(value, 10000)
    pair = top | ((value - top * 10000) << 32)
    top = ((pair * 10486) >> 20) & 0x7F0000007F
    pair = top | ((pair - top * 100) << 16)
    top = ((pair * 103) >> 10) & 0x000F000F000F000F
    return top | ((pair - top * 10) << 8)


@helper
def put_unsigned(out: int, value: int) -> int:
    """Write an unsigned 64-bit number in decimal."""
    if 0 <= value < 100000000:
        word = digits8(value)
        skip = low_zeros(word | (1 << 56)) & 56
        put64(out, (word | ZEROS) >> skip)
        return out + 8 - (skip >> 3)
    high = divide(value, 100000000)
    low = value - high * 100000000
    top = divide(high, 100000000)
    word = digits8(top or high)
    skip = low_zeros(word | (1 << 56)) & 56
    put64(out, (word | ZEROS) >> skip)
    out += 8 - (skip >> 3)
    if top:
        put64(out, digits8(high - top * 100000000) | ZEROS)
        out += 8
    put64(out, digits8(low) | ZEROS)
    return out + 8


@helper
def put_signed(out: int, value: int) -> int:
    """Write a signed 64-bit number in decimal."""
    put8(out, 0x2D)
    negative = (value >> 63) & 1
    return put_unsigned(out + negative, (value ^ -negative) + negative)


@helper
def _bytes_of(digits: int) -> int:
    """Bytes of a group of 0 to 9 digits: 0, 1, 1, 2, 2, 3, 3, 4, 4, 4."""
    return (digits + 1) >> 1 if digits < 8 else 4


@helper
def _put_nine(out: int, value: int) -> int:
    """Write a number below 10**9 as nine digits."""
    top = divide(value, 100000000)
    put8(out, 0x30 + top)
    put64(out + 1, digits8(value - top * 100000000) | ZEROS)
    return out + 9


@helper
def put_packed_decimal(out: int, p: int, size: int, precision: int, scale: int) -> int:
    """Write a packed number of ``size`` bytes with all its fraction digits; at most 84 bytes.

    It may have more digits than a column can have: up to nine groups. Gives `BAD_NUMBER` instead of
    an address if there are more, or if size and digits do not match.
    """
    whole = precision - scale
    if precision <= 0 or scale < 0 or whole < 0:
        return BAD_NUMBER
    if divide(whole + 8, 9) + divide(scale + 8, 9) > MOST_GROUPS:
        return BAD_NUMBER
    first = whole - divide(whole, 9) * 9
    last = scale - divide(scale, 9) * 9
    if size != _bytes_of(first) + _bytes_of(last) + 4 * (divide(whole, 9) + divide(scale, 9)):
        return BAD_NUMBER
    flip = 0 if u8(p) & 0x80 else 0xFF
    top = 0x80
    put8(out, 0x2D)
    out += flip & 1
    digits = first or 9
    left = whole
    started = False
    fraction = False
    while True:
        if left == 0:
            if fraction:
                return out
            if not started:
                put8(out, 0x30)
                out += 1
            if scale == 0:
                return out
            put8(out, 0x2E)
            out += 1
            fraction = True
            left = scale
        if fraction:
            digits = min(left, 9)
        value = 0
        for _ in range(_bytes_of(digits)):
            value = value << 8 | (u8(p) ^ flip ^ top)
            top = 0
            p += 1
        ceiling = 1
        for _ in range(digits):
            ceiling *= 10
        if value >= ceiling:
            return BAD_NUMBER
        left -= digits
        if fraction or started:
            for _ in range(9 - digits):
                value *= 10
            _put_nine(out, value)
            out += digits
        elif value:
            out = put_unsigned(out, value)
            started = True
        digits = 9


_TEN19 = 10**19 - 2**64  # as a signed word
_INVERSE = (2**128 - 1) // 10**19 - 2**65  # of 10**19, scaled (Moeller and Granlund); also signed


@helper
def _above(a: int, b: int) -> int:
    """Whether a > b as unsigned words."""
    return (a ^ -(1 << 63)) > (b ^ -(1 << 63))


@helper
def _put_padded(out: int, value: int, width: int) -> int:
    """Write the last ``width`` (1 to 24) digits of an unsigned word, zeros in front."""
    if width > 16:
        top = divide(value, 10000000000000000)
        value -= top * 10000000000000000
        put64(out, (digits8(top) | ZEROS) >> (8 * (24 - width)))
        out += width - 16
        width = 16
    if width > 8:
        top = divide(value, 100000000)
        value -= top * 100000000
        put64(out, (digits8(top) | ZEROS) >> (8 * (16 - width)))
        out += width - 8
        width = 8
    put64(out, (digits8(value) | ZEROS) >> (8 * (8 - width)))
    return out + width


@helper
def put_decimal128(out: int, p: int, scale: int, unit: int) -> int:
    """Write a 128-bit number of up to 38 digits, ``scale`` of them after the point.

    ``unit`` is 10**scale if scale is below 19. Gives `BAD_NUMBER` for a larger number.
    """
    low = i64(p)
    high = i64(p + 8)
    if high < 0:
        put8(out, 0x2D)
        out += 1
        high = ~high + (low == 0)
        low = -low
    if high == 0 and scale < 19:
        if scale == 0:
            return put_unsigned(out, low)
        whole = divide(low, unit)
        out = put_unsigned(out, whole)
        put8(out, 0x2E)
        return _put_padded(out + 1, low - whole * unit, scale)
    if high < 0:
        return BAD_NUMBER
    q0 = _INVERSE * high
    q1 = umulh(_INVERSE, high) + high
    q0 += low
    q1 += _above(low, q0) + 1
    rest = low - q1 * _TEN19
    if _above(rest, q0):
        q1 -= 1
        rest += _TEN19
    if not _above(_TEN19, rest):
        q1 += 1
        rest -= _TEN19
    if not _above(_TEN19, q1):
        return BAD_NUMBER
    digits = out + 64
    put8(digits, 0x30)
    _put_padded(_put_padded(digits + 1, q1, 19), rest, 19)
    point = 39 - scale
    at = 0
    while at < point - 1 and u8(digits + at) == 0x30:
        at += 1
    for i in range(at, 39):
        if i == point:
            put8(out, 0x2E)
            out += 1
        put8(out, u8(digits + i))
        out += 1
    return out


LEAST: Final = -292
MOST: Final = 324


def _power(exponent: int) -> int:
    """10**exponent, scaled to 126 bits and rounded up (exact powers too)."""
    if exponent >= 0:
        value = 10**exponent
        shift = 126 - value.bit_length()
        return (value << shift if shift >= 0 else value >> -shift) + 1
    value = 10**-exponent
    return (1 << (value.bit_length() + 125)) // value + 1


_POWERS: Final = b"".join(
    struct.pack("<QQ", power & (2**64 - 1), power >> 64)
    for power in map(_power, range(LEAST, MOST + 1))
)


@intrinsic
def powers(typingctx: Any) -> Any:
    """The address of the table of powers: 16 bytes each, low word first, from `LEAST` up."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = bytearray(_POWERS)
        kind = ir.ArrayType(ir.IntType(8), len(data))
        table = ir.GlobalVariable(builder.module, kind, "tailrace.powers.of.ten")
        table.linkage = "internal"
        table.global_constant = True
        table.align = 16
        table.initializer = ir.Constant(kind, data)
        return builder.ptrtoint(table, ir.IntType(64))

    return types.int64(), codegen


@helper
def _round_to_odd(power: int, scaled: int) -> int:
    """Bits 128 and up of the product, the lowest one set if anything below them is lost."""
    by = types.uint64(scaled)
    low = types.uint64(umulh(i64(power), scaled))
    middle = types.uint64(i64(power + 8)) * by + low
    high = types.uint64(umulh(i64(power + 8), scaled)) + types.uint64(middle < low)
    return types.int64(high) | (middle != types.uint64(0))


@helper
def shortest(mantissa: int, exponent: int, hidden: int) -> tuple[int, int]:
    """Digits and power of ten of a finite number that is not 0; trailing zeros are kept.

    ``mantissa`` and ``exponent`` are the bits as stored, ``hidden`` is the mantissa's width: 52 for
    a double, 23 for a float. Of the shortest texts the nearest is chosen; of two equally near, the
    even.
    """
    bias = 1075 if hidden == 52 else 150
    c = mantissa
    q = 1 - bias
    if exponent:
        c |= 1 << hidden
        q = exponent - bias
    if -hidden - 1 < q <= 0 and c & ((1 << -q) - 1) == 0:
        return c >> -q, 0
    closer = mantissa == 0 and exponent > 1  # the number below is nearer than the one above
    k = (q * 1262611 - (524031 if closer else 0)) >> 22
    h = q + ((-k * 1741647) >> 19) + 3
    power = powers() + ((-k - LEAST) << 4)
    odd = c & 1
    low = _round_to_odd(power, (4 * c - 2 + closer) << h) + odd
    value = _round_to_odd(power, 4 * c << h)
    high = _round_to_odd(power, (4 * c + 2) << h) - odd
    s = value >> 2
    if s >= 10:
        ten = divide(s, 10)
        down = low <= 40 * ten
        up = 40 * ten + 40 <= high
        if down != up:
            return ten + up, k + 1
    down = low <= 4 * s
    up = 4 * s + 4 <= high
    if down != up:
        return s + up, k
    middle = 4 * s + 2
    return s + (value > middle or (value == middle and s & 1)), k


@helper
def put_float(out: int, bits: int, hidden: int, least: int, most: int, python: int) -> int:
    """Write a finite double (``hidden`` 52) or float (23), shortest; 26 bytes at most.

    ``least`` and ``most`` limit the decimal point's distance from the first digit, for a text
    without exponent. ``python`` chooses ``1e+20`` and ``1e-07`` instead of ``1e20`` and ``1e-7``.
    """
    mantissa = bits & ((1 << hidden) - 1)
    exponent = (bits >> hidden) & (0x7FF if hidden == 52 else 0xFF)
    negative = (bits >> (63 if hidden == 52 else 31)) & 1
    put8(out, 0x2D)
    out += negative
    if mantissa == 0 and exponent == 0:
        put32(out, 0x302E30)  # 0.0
        return out + 3
    digits, k = shortest(mantissa, exponent, hidden)
    ten = divide(digits, 10)
    while ten * 10 == digits:
        digits = ten
        k += 1
        ten = divide(digits, 10)
    end = put_unsigned(out + 1, digits)
    count = end - out - 1
    point = count + k
    if least <= point and (point <= most or (count > point and not python)):
        if point <= 0:
            put64(out, 0x3030303030302E30)
            put64(out + 8, 0x3030303030303030)
            return put_unsigned(out + 2 - point, digits)
        if point >= count:
            put64(end, 0x3030303030303030)
            put64(end + 8, 0x3030303030303030)
        for i in range(point):
            put8(out + i, u8(out + i + 1))
        put8(out + point, 0x2E)
        if point >= count:
            put8(out + point + 1, 0x30)
            return out + point + 2
        return end
    put8(out, u8(out + 1))
    put8(out + 1, 0x2E)
    end -= count == 1
    point -= 1
    put8(end, 0x65)
    end += 1
    if point < 0:
        put8(end, 0x2D)
        point = -point
        end += 1
    elif python:
        put8(end, 0x2B)
        end += 1
    if python and point < 10:
        put8(end, 0x30)
        end += 1
    return put_unsigned(end, point)
