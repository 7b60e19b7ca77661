"""DECIMAL as text: from the server's packed form, and from Arrow's 128-bit integers."""

from __future__ import annotations

from tailrace.columns.frames.text import BAD_NUMBER
from tailrace.columns.kernels.digits import ZEROS, digits8, divide, put_unsigned
from tailrace.columns.kernels.memory import helper, i64, put8, put64, u8, umulh
from tailrace.values.decimals import MOST_GROUPS


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
