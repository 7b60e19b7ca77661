"""Dates and times from a user: the text that loaders give, or Python's own objects.

Everything that the servers can hold may be given as text, including zero dates and times of 838
hours. A Python object must not lose anything: a datetime with a time zone is rejected for a
DATETIME, and microseconds are not rounded.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tailrace.errors import ValueRejected
from tailrace.printable import short_repr

_DATE_TEXT: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_CLOCK: Final = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
_MOMENT_TEXT: Final = re.compile(rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})[ T]{_CLOCK}")
_TIME_TEXT: Final = re.compile(r"(-?)([0-9]{1,3}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?")
_EPOCH: Final = date(1970, 1, 1).toordinal()
_MICROSECOND: Final = timedelta(microseconds=1)
_SECOND: Final = 1_000_000
_LONGEST_TIME: Final = 839 * 3600 * _SECOND
_ZERO: Final = (0, 0, 0)

Day = tuple[int, int, int]
"""Year, month, day; zeros are legal."""


class DateAndTime(NamedTuple):
    """A date and a time of day."""

    day: Day
    hour: int
    minute: int
    second: int
    microsecond: int


@lru_cache(maxsize=8192)
def _day_of_text(text: str) -> Day:
    found = _DATE_TEXT.fullmatch(text)
    if found is None:
        raise ValueRejected(f"{short_repr(text)} is no date: YYYY-MM-DD")
    year, month, day = map(int, found.groups())
    if month > 12 or day > 31:
        raise ValueRejected(f"{short_repr(text)}: there is no such date")
    return year, month, day


def _fraction(text: str | None, digits: int, given: Any) -> int:
    """Microseconds of a fraction's digits; those beyond ``digits`` must be zeros."""
    if not text:
        return 0
    if text[digits:].strip("0"):
        raise _too_fine(given, digits)
    return int(text[:digits].ljust(6, "0"))


def _too_fine(given: Any, digits: int) -> ValueRejected:
    return ValueRejected(
        f"{short_repr(given)} has more fraction digits than the column's {digits}: round it first"
    )


def _whole(microsecond: int, digits: int, given: Any) -> int:
    if microsecond % 10 ** (6 - digits):
        raise _too_fine(given, digits)
    return microsecond


def given_day(value: Any) -> Day:
    """A DATE: text, a date, or a datetime at midnight without a zone.

    `ValueRejected` for others.
    """
    if isinstance(value, str):
        return _day_of_text(value)
    if isinstance(value, datetime):
        moment = given_moment(value, 6)
        if any(moment[1:]):
            raise ValueRejected(f"{short_repr(value)} is more than a date")
        return moment.day
    if isinstance(value, date):
        return value.year, value.month, value.day
    raise ValueRejected(f"{short_repr(value)} is no date")


def given_moment(value: Any, digits: int) -> DateAndTime:
    """A DATETIME: text, a datetime without a zone, or a date (at midnight).

    `ValueRejected` for anything else, and for a fraction of more than ``digits`` digits.
    """
    if isinstance(value, str):
        return _moment_of_text(value, digits)
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            raise ValueRejected(
                f"{short_repr(value)} has a time zone, which a DATETIME cannot hold: "
                "give the local date and time without a zone"
            )
        return _moment_of(value, digits)
    if isinstance(value, date):
        return DateAndTime((value.year, value.month, value.day), 0, 0, 0, 0)
    raise ValueRejected(f"{short_repr(value)} is no date and time")


def _moment_of_text(text: str, digits: int) -> DateAndTime:
    found = _MOMENT_TEXT.fullmatch(text)
    if found is None:
        raise ValueRejected(f"{short_repr(text)} is no date and time: YYYY-MM-DD HH:MM:SS[.ffffff]")
    day, hour, minute, second, fraction = found.groups()
    moment = DateAndTime(
        _day_of_text(day), int(hour), int(minute), int(second), _fraction(fraction, digits, text)
    )
    if moment.hour > 23 or moment.minute > 59 or moment.second > 59:
        raise ValueRejected(f"{short_repr(text)}: there is no such time of day")
    return moment


def _moment_of(value: datetime, digits: int) -> DateAndTime:
    try:
        day = (int(value.year), int(value.month), int(value.day))
    except (TypeError, ValueError):  # pandas' NaT is a datetime without a year
        raise ValueRejected(f"{short_repr(value)} is no date and time") from None
    microsecond = _whole(value.microsecond, digits, value)
    if getattr(value, "nanosecond", 0):  # pandas' Timestamp has them
        raise _too_fine(value, digits)
    return DateAndTime(day, value.hour, value.minute, value.second, microsecond)


def given_seconds(value: Any, digits: int) -> tuple[int, int]:
    """A TIMESTAMP: seconds since 1970 UTC, and microseconds.

    Text is UTC, and so is a datetime without a zone; one with a zone is that moment. The zero
    timestamp, ``0000-00-00 00:00:00``, is (0, 0). The epoch itself cannot be distinguished from it
    and is rejected. `ValueRejected` for anything else, and beyond 32 bits (2106-02-07; the limit of
    MySQL, and of MariaDB before 11.5, is 2038-01-19).
    """
    if isinstance(value, datetime) and value.tzinfo is not None:
        try:
            utc = value.astimezone(UTC)
        except (OverflowError, ValueError):
            raise ValueRejected(f"{short_repr(value)} is no TIMESTAMP") from None
        moment = _moment_of(utc, digits)
    else:
        moment = given_moment(value, digits)
    day, hour, minute, second, microsecond = moment
    if day == _ZERO and not any(moment[1:]):
        return 0, 0
    try:
        days = date(*day).toordinal() - _EPOCH
    except ValueError:
        raise ValueRejected(f"{short_repr(value)}: there is no such day") from None
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    if not 0 <= seconds < 1 << 32 or not (seconds or microsecond):
        raise ValueRejected(
            f"{short_repr(value)} is no TIMESTAMP: 1970-01-01 00:00:01 to 2106-02-07 06:28:15 UTC"
        )
    return seconds, microsecond


def given_time(value: Any, digits: int) -> int:
    """A TIME in microseconds, possibly negative: text, a timedelta, or a time without a zone.

    `ValueRejected` for anything else, beyond 838:59:59.999999 in either direction, and for a
    fraction of more than ``digits`` digits.
    """
    if isinstance(value, str):
        return _time_of_text(value, digits)
    if isinstance(value, timedelta):
        try:
            number = value // _MICROSECOND
            exact = number * _MICROSECOND == value  # pandas' Timedelta has nanoseconds
        except (TypeError, ValueError, OverflowError):
            raise ValueRejected(f"{short_repr(value)} is no time") from None
        if not exact:
            raise _too_fine(value, digits)
    elif isinstance(value, time) and value.tzinfo is None:
        number = ((value.hour * 60 + value.minute) * 60 + value.second) * _SECOND
        number += value.microsecond
    else:
        raise ValueRejected(f"{short_repr(value)} is no time without a zone")
    if abs(number) >= _LONGEST_TIME:
        raise ValueRejected(f"{short_repr(value)} is longer than 838:59:59")
    return _whole(number, digits, value)


def _time_of_text(text: str, digits: int) -> int:
    found = _TIME_TEXT.fullmatch(text)
    if found is None:
        raise ValueRejected(f"{short_repr(text)} is no time: [-]HHH:MM:SS[.ffffff]")
    sign, hour, minute, second = found[1], int(found[2]), int(found[3]), int(found[4])
    if hour > 838 or minute > 59 or second > 59:
        raise ValueRejected(f"{short_repr(text)}: there is no such time")
    number = ((hour * 60 + minute) * 60 + second) * _SECOND + _fraction(found[5], digits, text)
    return -number if sign else number
