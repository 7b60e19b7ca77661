"""Numbers, decimals, dates and times into the bytes that a row holds for them: the inverse of
`numbers` (facts sheet 3.1).

Functions that write take the address to write at; they may write up to 8 bytes past the address
that they return. Those that can fail return the address after, or a code below 0 of
`frames.encode`.
"""

from __future__ import annotations

from tailrace.columns.frames import encode as f
from tailrace.columns.kernels.memory import bswap64, helper, i64, put8, put16, put32, put64, u8
from tailrace.columns.kernels.number_text import divide
from tailrace.columns.kernels.numbers import DAY, digit_bytes


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
    return p + 1 if low <= value <= high else f.OUT_OF_RANGE


@helper
def put_short(p, value, low, high):
    """Two bytes."""
    put16(p, value)
    return p + 2 if low <= value <= high else f.OUT_OF_RANGE


@helper
def put_medium(p, value, low, high):
    """Three bytes."""
    put32(p, value)
    return p + 3 if low <= value <= high else f.OUT_OF_RANGE


@helper
def put_long(p, value, low, high):
    """Four bytes."""
    put32(p, value)
    return p + 4 if low <= value <= high else f.OUT_OF_RANGE


@helper
def put_year(p, value):
    """YEAR: 1901 to 2155, and 0."""
    put8(p, value - 1900 if value else 0)
    return p + 1 if value == 0 or 1901 <= value <= 2155 else f.OUT_OF_RANGE


@helper
def put_bits(p, value, argument):
    """BIT of ``argument`` >> 8 bits in ``argument`` & 255 bytes."""
    size, bits = argument & 255, argument >> 8
    if bits < 64 and (value < 0 or value >> bits):
        return f.OUT_OF_RANGE
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
        return f.OUT_OF_RANGE
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
            return f.OUT_OF_RANGE
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
        return f.OUT_OF_RANGE
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
            return f.MALFORMED
        while source < end and 0x30 <= u8(source) <= 0x39 and exponent < 100000:
            exponent = exponent * 10 + u8(source) - 0x30
            source += 1
        exponent *= sign
    if seen == 0 or source != end:
        return f.MALFORMED
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
                return f.OUT_OF_RANGE
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


_FIRST_DAY = -719162  # 0001-01-01, as days since 1970
_LAST_DAY = 2932896  # 9999-12-31
_SECOND = 1_000_000
_LAST_HOUR = 838


@helper
def _fraction(part, digits):
    """Microseconds in the unit of a fraction's bytes (1/100, 1/10000, 1/1000000 of a second); -1
    if they are finer than ``digits`` digits. Dividing by constants is faster than by variables.
    """
    if digits == 6:
        return part
    if digits == 0:
        return -1 if part else 0
    if digits == 3:
        unit = divide(part, 1000)
        return unit * 10 if unit * 1000 == part else -1
    if digits == 5:
        return part if divide(part, 10) * 10 == part else -1
    if digits == 4:
        unit = divide(part, 100)
        return unit if unit * 100 == part else -1
    unit = divide(part, 10000 if digits == 2 else 100000)
    if unit * (10000 if digits == 2 else 100000) != part:
        return -1
    return unit if digits == 2 else unit * 10


@helper
def _put_fraction(p, part, digits):
    """Microseconds as a fraction of ``digits`` digits."""
    part = _fraction(part, digits)
    if part < 0:
        return f.TOO_PRECISE
    size = (digits + 1) >> 1
    put64(p, bswap64(part << 40) >> (8 * (3 - size)))
    return p + size


@helper
def _civil(days):
    """(year * 13 + month, day) from days since 0001-01-01, which are not negative.

    Years begin in March here, so that a leap day is the last (Hinnant's ``civil_from_days``).
    """
    days += 306
    era = divide(days, 146097)
    day = days - era * 146097
    year = divide(day - divide(day, 1460) + divide(day, 36524) - divide(day, 146096), 365)
    day -= 365 * year + divide(year, 4) - divide(year, 100)
    month = divide(5 * day + 2, 153)
    day -= divide(153 * month + 2, 5)
    month += 3
    year += era * 400
    if month > 12:
        month -= 12
        year += 1
    return year * 13 + month, day + 1


@helper
def put_date(p, days):
    """Write a DATE from days since 1970: the years 1 to 9999."""
    if days < _FIRST_DAY or days > _LAST_DAY:
        return f.OUT_OF_RANGE
    months, day = _civil(days - _FIRST_DAY)
    year = divide(months, 13)
    put32(p, year << 9 | (months - 13 * year) << 5 | day)
    return p + 3


@helper
def put_datetime(p, value, digits):
    """Write a DATETIME(digits) from microseconds since 1970."""
    value -= _FIRST_DAY * DAY
    if value < 0 or value >= (_LAST_DAY + 1 - _FIRST_DAY) * DAY:
        return f.OUT_OF_RANGE
    days = divide(value, DAY)
    months, day = _civil(days)
    value -= days * DAY
    seconds = divide(value, _SECOND)
    minutes = divide(seconds, 60)
    hours = divide(minutes, 60)
    packed = (months << 5 | day) << 17
    packed |= hours << 12 | (minutes - hours * 60) << 6 | (seconds - minutes * 60)
    put_big_endian(p, packed + 0x8000000000, 5)
    return _put_fraction(p + 5, value - seconds * _SECOND, digits)


@helper
def put_timestamp(p, value, digits):
    """Write a TIMESTAMP(digits) from microseconds since 1970.

    The bytes of 1970-01-01 00:00:00 mean the zero timestamp.
    """
    if value <= 0 or value >= 0x100000000 * _SECOND:
        return f.OUT_OF_RANGE
    seconds = divide(value, _SECOND)
    put_big_endian(p, seconds, 4)
    return _put_fraction(p + 4, value - seconds * _SECOND, digits)


@helper
def put_time(p, value, digits):
    """Write a TIME(digits) from microseconds."""
    negative = value < 0
    if negative:
        value = -value
    seconds = divide(value, _SECOND)
    part = value - seconds * _SECOND
    minutes = divide(seconds, 60)
    hours = divide(minutes, 60)
    if hours > _LAST_HOUR or value < 0:
        return f.OUT_OF_RANGE
    part = _fraction(part, digits)
    if part < 0:
        return f.TOO_PRECISE
    size = (digits + 1) >> 1
    packed = hours << 12 | (minutes - hours * 60) << 6 | (seconds - minutes * 60)
    packed = packed << (8 * size) | part
    if negative:
        packed = -packed
    size += 3
    put_big_endian(p, packed + (1 << (8 * size - 1)), size)
    return p + size


@helper
def put_old_timestamp(p, value):
    """TIMESTAMP of MariaDB's old format."""
    if value <= 0 or value >= 0x100000000 * _SECOND:
        return f.OUT_OF_RANGE
    seconds = divide(value, _SECOND)
    put32(p, seconds)
    return f.TOO_PRECISE if value != seconds * _SECOND else p + 4


@helper
def put_old_datetime(p, value):
    """DATETIME of MariaDB's old format: the number YYYYMMDDhhmmss."""
    value -= _FIRST_DAY * DAY
    if value < 0 or value >= (_LAST_DAY + 1 - _FIRST_DAY) * DAY:
        return f.OUT_OF_RANGE
    days = divide(value, DAY)
    months, day = _civil(days)
    value -= days * DAY
    year = divide(months, 13)
    seconds = divide(value, _SECOND)
    minutes = divide(seconds, 60)
    hours = divide(minutes, 60)
    date = (year * 100 + months - 13 * year) * 100 + day
    clock = (hours * 100 + minutes - hours * 60) * 100 + seconds - minutes * 60
    put64(p, date * 1_000_000 + clock)
    return f.TOO_PRECISE if value != seconds * _SECOND else p + 8


@helper
def put_old_time(p, value):
    """TIME of MariaDB's old format: the number hhmmss, three bytes."""
    sign = 1
    if value < 0:
        value = -value
        sign = -1
    seconds = divide(value, _SECOND)
    minutes = divide(seconds, 60)
    hours = divide(minutes, 60)
    if hours > _LAST_HOUR or value < 0:
        return f.OUT_OF_RANGE
    clock = (hours * 100 + minutes - hours * 60) * 100 + seconds - minutes * 60
    put32(p, sign * clock)
    return f.TOO_PRECISE if value != seconds * _SECOND else p + 3
