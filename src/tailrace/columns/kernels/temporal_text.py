"""Dates and times as the text that ``SELECT`` prints."""

from __future__ import annotations

from tailrace.columns.kernels.digits import ZEROS, digits8, divide, put_unsigned
from tailrace.columns.kernels.memory import helper, put8, put64
from tailrace.columns.text_frames import BAD_TIME

_DAYS_BEFORE_1970 = 719468  # since 0000-03-01


@helper
def put_date(out: int, year: int, month: int, day: int) -> int:
    """Write ``YYYY-MM-DD``; the year is below 10000, the others below 100."""
    word = digits8(year * 10000 + month * 100 + day) | ZEROS
    put64(out, (word & 0xFFFFFFFF) | 0x2D << 32 | ((word >> 32) & 0xFFFF) << 40 | 0x2D << 56)
    put64(out + 8, word >> 48)
    return out + 10


@helper
def put_clock(out: int, hour: int, minute: int, second: int, micros: int, digits: int) -> int:
    """Write ``HH:MM:SS`` and ``digits`` digits (0 to 6) of the fraction; hours may be above 99."""
    if hour > 99:
        top = divide(hour, 100)
        out = put_unsigned(out, top)
        hour -= top * 100
    word = (digits8(hour * 10000 + minute * 100 + second) | ZEROS) >> 16
    colons = 0x3A << 16 | 0x3A << 40
    put64(
        out,
        (word & 0xFFFF) | ((word >> 16) & 0xFFFF) << 24 | ((word >> 32) & 0xFFFF) << 48 | colons,
    )
    if digits == 0:
        return out + 8
    put8(out + 8, 0x2E)
    put64(out + 9, (digits8(micros) | ZEROS) >> 16)
    return out + 9 + digits


@helper
def _put_seconds(out: int, micros: int, digits: int) -> int:
    """Write microseconds >= 0 as hours, minutes and seconds."""
    seconds = divide(micros, 1000000)
    minutes = divide(seconds, 60)
    hours = divide(minutes, 60)
    rest = micros - seconds * 1000000
    return put_clock(out, hours, minutes - hours * 60, seconds - minutes * 60, rest, digits)


@helper
def put_moment(out: int, days: int, micros: int, digits: int) -> int:
    """Write a date, given in days since 1970, and, where ``digits`` >= 0, the time of day.

    Gives `BAD_TIME` in place of an address for a year that has not four digits.
    """
    if days < -719528 or days > 2932896:
        return BAD_TIME
    days += _DAYS_BEFORE_1970
    if days < 0:  # January and February of the year 0
        month = 1 if days < -29 else 2
        out = put_date(out, 0, month, days + (61 if month == 1 else 30))
    else:
        era = divide(days, 146097)
        day = days - era * 146097
        year = divide(day - divide(day, 1460) + divide(day, 36524) - divide(day, 146096), 365)
        day -= 365 * year + divide(year, 4) - divide(year, 100)
        month = divide(5 * day + 2, 153)
        day -= divide(153 * month + 2, 5) - 1
        month += 3 if month < 10 else -9
        out = put_date(out, era * 400 + year + (month <= 2), month, day)
    if digits < 0:
        return out
    put8(out, 0x20)
    return _put_seconds(out + 1, micros, digits)


@helper
def put_span(out: int, micros: int, digits: int) -> int:
    """Write a TIME of so many microseconds; `BAD_TIME` for more hours than any has."""
    if micros < 0:
        put8(out, 0x2D)
        out += 1
        micros = -micros
    if micros < 0 or micros >= 839 * 3600000000:
        return BAD_TIME
    return _put_seconds(out, micros, digits)
