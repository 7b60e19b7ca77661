"""Numbers into the bytes that a row holds for them: the inverse of `numbers` (facts sheet 3.1).

Functions that write take the address to write at; they may write up to 8 bytes past the address
that they return. Those that can fail return the address after, or a code below 0 of
`encode_frames`.
"""

from __future__ import annotations

from tailrace.columns.frames.encode import MALFORMED, OUT_OF_RANGE
from tailrace.columns.kernels.digits import divide
from tailrace.columns.kernels.memory import bswap64, helper, i64, put8, put16, put32, put64, u8
from tailrace.columns.kernels.numbers import digit_bytes


@helper
def put_big_endian(p, value, size):
    """The low ``size`` bytes (1 to 8) of a number, most significant first; writes eight."""
    put64(p, bswap64(value << (64 - 8 * size)))


@helper
def put_little_endian(p, value, size):
    """The low ``size`` bytes (1 to 8) of a number that is below 256 ** size; writes eight."""
    put64(p, value)
    return p + size


@helper
def put_tiny(p, value, low, high):
    """One byte, of a number from ``low`` to ``high``."""
    put8(p, value)
    return p + 1 if low <= value <= high else OUT_OF_RANGE


@helper
def put_short(p, value, low, high):
    """Two bytes."""
    put16(p, value)
    return p + 2 if low <= value <= high else OUT_OF_RANGE


@helper
def put_medium(p, value, low, high):
    """Three bytes."""
    put32(p, value)
    return p + 3 if low <= value <= high else OUT_OF_RANGE


@helper
def put_long(p, value, low, high):
    """Four bytes."""
    put32(p, value)
    return p + 4 if low <= value <= high else OUT_OF_RANGE


@helper
def put_year(p, value):
    """YEAR: 1901 to 2155, and 0."""
    put8(p, value - 1900 if value else 0)
    return p + 1 if value == 0 or 1901 <= value <= 2155 else OUT_OF_RANGE


@helper
def put_bits(p, value, argument):
    """BIT of ``argument`` >> 8 bits in ``argument`` & 255 bytes."""
    size, bits = argument & 255, argument >> 8
    if bits < 64 and (value < 0 or value >> bits):
        return OUT_OF_RANGE
    put_big_endian(p, value, size)
    return p + size


@helper
def _divide128(low, high, by):
    """A number of 128 bits divided by one below 2**30: (low, high, rest)."""
    limb = (high >> 32) & 0xFFFFFFFF
    q3 = divide(limb, by)
    rest = (limb - q3 * by) << 32 | (high & 0xFFFFFFFF)
    q2 = divide(rest, by)
    rest = (rest - q2 * by) << 32 | ((low >> 32) & 0xFFFFFFFF)
    q1 = divide(rest, by)
    rest = (rest - q1 * by) << 32 | (low & 0xFFFFFFFF)
    q0 = divide(rest, by)
    return q1 << 32 | q0, q3 << 32 | q2, rest - q0 * by


@helper
def _short_decimal(p, value, negative, argument, powers):
    """`put_decimal128` for decimals whose bytes are all in one word."""
    whole, scale, digits = argument & 255, (argument >> 8) & 255, argument >> 24
    size = (argument >> 16) & 255
    factor = i64(powers + scale * 8)
    word = divide(value, factor)
    part = value - word * factor
    group = 0
    if whole >= 9:
        top = divide(word, 1_000_000_000)
        group = word - top * 1_000_000_000
        word = top
    if word >= i64(powers + digits * 8):
        return OUT_OF_RANGE
    if whole >= 9:
        word = word << 32 | group
    word = word << (8 * digit_bytes(scale)) | part
    if negative:
        word = ~word
    put_big_endian(p, word ^ (1 << (8 * size - 1)), size)
    return p + size


@helper
def put_decimal128(p, source, argument, powers):
    """Write a number of 128 bits as a packed DECIMAL; for ``argument`` see `layout.DECIMAL`."""
    low, high = i64(source), i64(source + 8)
    negative = high < 0
    if negative:
        high = ~high + (low == 0)
        low = -low
    whole, scale, first = argument & 255, (argument >> 8) & 255, argument >> 24
    size = (argument >> 16) & 255
    if size <= 8 and scale < 9 and whole < 18:
        if high != 0 or low < 0:
            return OUT_OF_RANGE
        return _short_decimal(p, low, negative, argument, powers)
    flip = 0xFFFFFFFF if negative else 0
    at = p + size
    # Groups of digits, from the last one back; the incomplete group of the fraction comes first.
    left = scale
    part = 0
    while part < 2:
        digits = 9
        if left <= 0:
            left = whole
            part += 1
            continue
        if part == 0 and left % 9:
            digits = left % 9
        elif left < 9:
            digits = first
        left -= digits
        low, high, group = _divide128(low, high, i64(powers + digits * 8))
        step = digit_bytes(digits)
        group ^= flip
        at -= step
        for byte in range(step):
            put8(at + byte, group >> (8 * (step - 1 - byte)))
    if low or high:
        return OUT_OF_RANGE
    put8(p, u8(p) ^ 0x80)
    return p + size


@helper
def _digits_of(source, size, scratch, whole, scale):
    """Write a decimal text's digits, one byte each, into ``scratch``: 1 if negative, or a code."""
    end = source + size
    negative = 0
    if source < end and (u8(source) == 0x2D or u8(source) == 0x2B):
        negative = int(u8(source) == 0x2D)
        source += 1
    mantissa = source
    before = seen = 0
    point = False
    while source < end:
        byte = u8(source)
        if 0x30 <= byte <= 0x39:
            seen += 1
            before += not point
        elif byte == 0x2E and not point:
            point = True
        else:
            break
        source += 1
    stop = source
    exponent = 0
    if source < end and (u8(source) | 0x20) == 0x65:
        source += 1
        sign = 1
        if source < end and (u8(source) == 0x2D or u8(source) == 0x2B):
            sign = -1 if u8(source) == 0x2D else 1
            source += 1
        if source == end:
            return MALFORMED
        while source < end and 0x30 <= u8(source) <= 0x39 and exponent < 100000:
            exponent = exponent * 10 + u8(source) - 0x30
            source += 1
        exponent *= sign
    if seen == 0 or source != end:
        return MALFORMED
    for index in range(whole + scale):
        put8(scratch + index, 0)
    power = before + exponent - 1
    some = 0
    while mantissa < stop:
        digit = u8(mantissa) - 0x30
        mantissa += 1
        if digit < 0:
            continue
        if digit:
            if power >= whole or power < -scale:
                return OUT_OF_RANGE
            put8(scratch + whole - 1 - power, digit)
            some = 1
        power -= 1
    return negative & some


@helper
def put_decimal_text(p, source, size, argument, scratch):
    """Write a decimal text (an exponent is allowed) as a packed DECIMAL."""
    whole, scale, digits = argument & 255, (argument >> 8) & 255, argument >> 24
    negative = _digits_of(source, size, scratch, whole, scale)
    if negative < 0:
        return negative
    flip = 0xFFFFFFFF if negative else 0
    at = p
    left = whole + scale
    if digits == 0:
        digits = min(9, left)
    while left > 0:
        group = 0
        for _ in range(digits):
            group = group * 10 + u8(scratch)
            scratch += 1
        group ^= flip
        step = digit_bytes(digits)
        for byte in range(step):
            put8(at + byte, group >> (8 * (step - 1 - byte)))
        at += step
        left -= digits
        digits = min(9, left)
    put8(p, u8(p) ^ 0x80)
    return at
