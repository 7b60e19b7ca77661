"""Dates and times into the bytes that a row holds for them (facts sheet 3.1).

Functions take the address to write at and may write up to 8 bytes past what they return: the
address after, or a code below 0 of `encode_frames`.
"""

from __future__ import annotations

from tailrace.columns.frames.encode import OUT_OF_RANGE, TOO_PRECISE
from tailrace.columns.kernels.digits import divide
from tailrace.columns.kernels.encode_numbers import put_big_endian
from tailrace.columns.kernels.memory import bswap64, helper, put32, put64
from tailrace.columns.kernels.numbers import DAY

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
        return TOO_PRECISE
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
        return OUT_OF_RANGE
    months, day = _civil(days - _FIRST_DAY)
    year = divide(months, 13)
    put32(p, year << 9 | (months - 13 * year) << 5 | day)
    return p + 3


@helper
def put_datetime(p, value, digits):
    """Write a DATETIME(digits) from microseconds since 1970."""
    value -= _FIRST_DAY * DAY
    if value < 0 or value >= (_LAST_DAY + 1 - _FIRST_DAY) * DAY:
        return OUT_OF_RANGE
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
        return OUT_OF_RANGE
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
        return OUT_OF_RANGE
    part = _fraction(part, digits)
    if part < 0:
        return TOO_PRECISE
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
        return OUT_OF_RANGE
    seconds = divide(value, _SECOND)
    put32(p, seconds)
    return TOO_PRECISE if value != seconds * _SECOND else p + 4


@helper
def put_old_datetime(p, value):
    """DATETIME of MariaDB's old format: the number YYYYMMDDhhmmss."""
    value -= _FIRST_DAY * DAY
    if value < 0 or value >= (_LAST_DAY + 1 - _FIRST_DAY) * DAY:
        return OUT_OF_RANGE
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
    return TOO_PRECISE if value != seconds * _SECOND else p + 8


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
        return OUT_OF_RANGE
    clock = (hours * 100 + minutes - hours * 60) * 100 + seconds - minutes * 60
    put32(p, sign * clock)
    return TOO_PRECISE if value != seconds * _SECOND else p + 3
