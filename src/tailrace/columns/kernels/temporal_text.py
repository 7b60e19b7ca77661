"""Dates and times as the text that ``SELECT`` prints."""

from __future__ import annotations

from tailrace.columns.frames.text import BAD_TIME
from tailrace.columns.kernels.memory import helper, put8, put16, put64
from tailrace.columns.kernels.number_text import ZEROS, digits8, divide, put_unsigned

_DAYS_BEFORE_1970 = 719468  # since 0000-03-01


@helper
def put_date(out: int, year: int, month: int, day: int) -> int:
    """Write ``YYYY-MM-DD``; the year is below 10000, the others below 100."""
    century = divide(year, 100)
    pairs = century | (year - century * 100) << 16 | month << 40  # at the positions of their digits
    tens = ((pairs * 103) >> 10) & (0x0F | 0x0F << 16 | 0x0F << 40)
    dashes = 0x2D << 32 | 0x2D << 56
    put64(out, (tens | ((pairs - tens * 10) << 8)) + (0x0030300030303030 | dashes))
    tens = (day * 103) >> 10
    put16(out + 8, (tens | ((day - tens * 10) << 8)) + 0x3030)
    return out + 10


@helper
def put_clock(out: int, hour: int, minute: int, second: int, micros: int, digits: int) -> int:
    """Write ``HH:MM:SS`` and ``digits`` digits (0 to 6) of the fraction; hours may be above 99."""
    if hour > 99:
        top = divide(hour, 100)
        out = put_unsigned(out, top)
        hour -= top * 100
    pairs = hour | minute << 24 | second << 48
    tens = ((pairs * 103) >> 10) & (0x0F | 0x0F << 24 | 0x0F << 48)
    put64(out, (tens | ((pairs - tens * 10) << 8)) + 0x30303A30303A3030)
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
    """Write a date, given in days since 1970, and, if ``digits`` >= 0, the time of day.

    The calendar is by Neri and Schneider, "Euclidean affine functions and their application to
    calendar algorithms" (2022): years, months and days by multiplication.

    Gives `BAD_TIME` instead of an address for a year that does not have four digits.
    """
    if days < -719528 or days > 2932896:
        return BAD_TIME
    days += _DAYS_BEFORE_1970
    if days < 0:  # January and February of the year 0
        month = 1 if days < -29 else 2
        out = put_date(out, 0, month, days + (61 if month == 1 else 30))
    else:
        quarters = 4 * days + 3
        century = divide(quarters, 146097)
        scaled = 2939745 * ((quarters - century * 146097) | 3)
        since_march = divide(scaled & 0xFFFFFFFF, 11758980)
        scaled_day = 2141 * since_march + 197913
        next_year = int(since_march >= 306)  # January and February
        month = (scaled_day >> 16) - 12 * next_year
        day = divide(scaled_day & 0xFFFF, 2141) + 1
        out = put_date(out, century * 100 + (scaled >> 32) + next_year, month, day)
    if digits < 0:
        return out
    put8(out, 0x20)
    return _put_seconds(out + 1, micros, digits)


@helper
def put_span(out: int, micros: int, digits: int) -> int:
    """Write a TIME of ``micros`` microseconds; `BAD_TIME` for more hours than a TIME can have."""
    if micros < 0:
        put8(out, 0x2D)
        out += 1
        micros = -micros
    if micros < 0 or micros >= 839 * 3600000000:
        return BAD_TIME
    return _put_seconds(out, micros, digits)
