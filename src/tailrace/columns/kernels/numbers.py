"""Decimals, dates and times: from their bytes in a row to numbers (facts sheet 3.1)."""

from __future__ import annotations

from tailrace.columns.frames import plan as k
from tailrace.columns.kernels.memory import be16, be64, helper, i32, i64, u8, umulh

DAY = 86_400_000_000
"""Microseconds."""


MOST_MICROSECONDS = 999_999
NO_FRACTION = 1 << 40
NO_TIME = -(1 << 60)


@helper
def big_endian(p, size):
    """``size`` bytes (1 to 8), most significant first; reads eight."""
    value = be64(p) >> (64 - 8 * size)
    return value if size == 8 else value & ((1 << (8 * size)) - 1)


@helper
def checked_fraction(microseconds, digits):
    """The microseconds, or NO_FRACTION if they are finer than an odd number of digits: those are
    stored as one digit more.
    """
    if digits & 1 and microseconds % (100000 if digits == 1 else (1000 if digits == 3 else 10)):
        return NO_FRACTION
    return microseconds


@helper
def fraction(p, digits):
    """Microseconds from the fraction bytes of a temporal value with ``digits`` digits.

    Above MOST_MICROSECONDS if they are not a valid fraction of so many digits.
    """
    if digits == 0:
        return 0
    if digits <= 2:
        return checked_fraction(u8(p) * 10000, digits)
    if digits <= 4:
        return checked_fraction(be16(p) * 100, digits)
    return checked_fraction((be16(p) << 8) | u8(p + 2), digits)


@helper
def packed_time(p, digits):
    """TIME(fsp) in microseconds, possibly negative; its bytes are one biased number.

    NO_TIME if it is invalid.
    """
    size = 3 + ((digits + 1) >> 1)
    value = big_endian(p, size) - (1 << (8 * size - 1))
    sign = 1
    if value < 0:
        value = -value
        sign = -1
    bits = 8 * (size - 3)
    clock = value >> bits
    part = value & ((1 << bits) - 1)
    if size == 4:
        part *= 10000
    elif size == 5:
        part *= 100
    if digits & 1:
        part = checked_fraction(part, digits)
    hour, minute, second = clock >> 12, (clock >> 6) & 63, clock & 63
    if hour > 838 or minute > 59 or second > 59 or part > MOST_MICROSECONDS:
        return NO_TIME
    return sign * ((hour * 3600 + minute * 60 + second) * 1_000_000 + part)


@helper
def second_parts(digits):
    """The units of a second in a fraction of ``digits`` digits."""
    parts = 1
    for _ in range(digits):
        parts *= 10
    return parts


@helper
def date_days(months, day, calendar):
    """Days since 1970-01-01 of a day of a month, or k.NO_DATE for one that is not in the calendar.

    ``months`` is year * 13 + month, ``calendar`` the address of the table of
    `tailrace.columns.calendar`.
    """
    entry = i32(calendar + months * 4)
    return (entry >> 5) + day - 1 if 0 < day <= entry & 31 else k.NO_DATE


@helper
def digit_bytes(digits):
    """Bytes that hold 0 to 9 decimal digits."""
    return (digits + 1) >> 1 if digits < 7 else 4


@helper
def _short_decimal(p, size, whole, scale, digits, powers):
    """`decimal128` if all bytes are one word: a first group, one of nine digits, a fraction."""
    word = be64(p)
    negative = word >= 0  # the sign bit is inverted
    word ^= -0x8000000000000000
    if negative:
        word = ~word
    word >>= 64 - 8 * size
    bits = 8 * digit_bytes(scale)
    fraction_part = word & ((1 << bits) - 1)
    word >>= bits
    group = 0
    if whole >= 9:
        group = word & 0xFFFFFFFF
        word >>= 32
    factor = i64(powers + scale * 8)
    sound = fraction_part < factor and group < 1_000_000_000 and word < i64(powers + digits * 8)
    value = (word * 1_000_000_000 + group if whole >= 9 else word) * factor + fraction_part
    if negative:
        value = -value
    return value, value >> 63, sound


@helper
def decimal128(p, argument, powers):
    """A packed decimal of up to 38 digits: (low word, high word, whether it is well formed).

    For ``argument`` see `tailrace.columns.frames.plan.DECIMAL`; ``powers`` is the address of
    10 ** n.
    """
    whole, scale, digits = argument & 255, (argument >> 8) & 255, argument >> 24
    size = (argument >> 16) & 255
    if size <= 8 and scale < 9 and whole < 18:
        return _short_decimal(p, size, whole, scale, digits, powers)
    negative = u8(p) & 0x80 == 0
    at = p
    low = high = 0
    sound = True
    left_whole = whole - digits
    left_scale = scale
    first = True
    while True:
        if digits > 0:
            size = digit_bytes(digits)
            group = big_endian(at, size)
            if first:
                group ^= 1 << (8 * size - 1)
                first = False
            if negative:
                group ^= (1 << (8 * size)) - 1
            factor = i64(powers + digits * 8)
            if group >= factor:
                sound = False
            at += size
            if high == 0 and 0 <= low < 1_000_000_000:
                low = low * factor + group
            else:
                high = high * factor + umulh(low, factor)
                low = low * factor
                total = low + group
                # The carry of an unsigned addition: bit 63 was set, and is not set in the sum.
                if low < 0 and total >= 0:
                    high += 1
                low = total
        if left_whole > 0:
            digits = 9
            left_whole -= 9
        elif left_scale >= 9:
            digits = 9
            left_scale -= 9
        elif left_scale > 0:
            digits = left_scale
            left_scale = 0
        else:
            break
    if negative:
        low = -low
        high = ~high + (1 if low == 0 else 0)
    return low, high, sound
