"""DATE, TIME, DATETIME, TIMESTAMP to the text that ``SELECT`` prints in a UTC session, and back.

They are text because zero dates ('0000-00-00'), partial dates ('2024-00-10') and times of 838 hours
are legal, and no Python object can hold them. A user may also give Python's own objects, which must
not lose anything: a datetime with a time zone is rejected for a DATETIME, and microseconds are not
rounded. Facts sheet section 3.1.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tailrace.constants import ColumnType
from tailrace.errors import EventDecodeError, ValueRejected
from tailrace.printable import short_repr
from tailrace.values.family import Declaration, Format, TypeFamily, Width, ascii_json, sized

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.events.column_metadata import ColumnSpec
    from tailrace.values.family import Declared, Dumper, JsonWriter, Loader
    from tailrace.values.schema import Column

_T = ColumnType
FRACTION_SIZE: Final = (0, 1, 1, 2, 2, 3, 3)
"""Bytes of the fraction for 0 to 6 digits."""
_FRACTION_UNIT: Final = (1, 10_000, 10_000, 100, 100, 1, 1)
"""Microseconds per unit of the stored fraction."""

_DIGIT: Final = (1, 100_000, 10_000, 1_000, 100, 10, 1)
"""Microseconds of the last of 0 to 6 digits; without digits no fraction is stored."""

_DATETIME_BIAS: Final = 0x8000000000
_TIME_BIAS: Final = 0x800000
_LONG_TIME_BIAS: Final = 0x800000000000


_HOURS: Final = tuple(f"{hour:02}" for hour in range(839))
"""Numbers of two or more digits: looked up, as formatting each would take most of the time."""


def fraction_size(digits: int) -> int:
    """Bytes of a fraction with this many digits; `EventDecodeError` beyond 6."""
    if not 0 <= digits <= 6:
        raise EventDecodeError(f"fractional seconds of {digits} digits do not exist")
    return FRACTION_SIZE[digits]


@lru_cache(maxsize=8192)
def date_text(year: int, month: int, day: int) -> str:
    """``YYYY-MM-DD``; zeros are legal. `EventDecodeError` for values out of a field's range.

    Cached, as the dates of a log are close together.
    """
    if year > 9999 or month > 12 or day > 31:
        raise EventDecodeError(f"there is no date of year {year}, month {month}, day {day}")
    return f"{year:04}-{month:02}-{day:02}"


def clock_text(hour: int, minute: int, second: int, microsecond: int, digits: int) -> str:
    """``HH:MM:SS`` and the fraction's first ``digits`` digits; hours may be many."""
    if hour > 838 or minute > 59 or second > 59 or microsecond > 999_999:
        raise EventDecodeError(
            f"there is no time of hour {hour}, minute {minute}, second {second}, "
            f"microsecond {microsecond}"
        )
    if microsecond % _DIGIT[digits]:
        raise EventDecodeError(f"{microsecond} microseconds do not fit into {digits} digits")
    text = f"{_HOURS[hour]}:{_HOURS[minute]}:{_HOURS[second]}"
    return f"{text}.{str(1_000_000 + microsecond)[1 : 1 + digits]}" if digits else text


def load_date(data: bytes) -> str:
    """DATE, 3 bytes: day 5 bits, month 4, year 15."""
    number = int.from_bytes(data, "little")
    return date_text(number >> 9, number >> 5 & 15, number & 31)


def datetime_text(packed: int, microsecond: int, digits: int) -> str:
    """DATETIME2's whole number (year*13+month 17 bits, day 5, hour 5, minute 6, second 6)."""
    year, month = divmod(packed >> 22, 13)
    hour = packed >> 12 & 31
    if hour > 23:
        raise EventDecodeError(f"there is no hour {hour}")
    clock = clock_text(hour, packed >> 6 & 63, packed & 63, microsecond, digits)
    return f"{date_text(year, month, packed >> 17 & 31)} {clock}"


def time_text(packed: int, digits: int) -> str:
    """A TIME as a signed number: microseconds 24 bits, second 6, minute 6, hour 10."""
    sign = "-" if packed < 0 else ""
    rest, microsecond = divmod(abs(packed), 1 << 24)
    clock = clock_text(rest >> 12, rest >> 6 & 63, rest & 63, microsecond, digits)
    return sign + clock


def _datetime2_loader(column: Column) -> Loader:
    """DATETIME(digits): 5 bytes big-endian, biased, and the fraction."""
    digits = column.metadata
    fraction_size(digits)
    unit = _FRACTION_UNIT[digits]

    def load_datetime2(data: bytes) -> str:
        packed = int.from_bytes(data[:5], "big") - _DATETIME_BIAS
        if packed < 0:
            raise EventDecodeError("a DATETIME before year 0")
        return datetime_text(packed, int.from_bytes(data[5:], "big") * unit, digits)

    return load_datetime2


def _timestamp2_loader(column: Column) -> Loader:
    """TIMESTAMP(digits): 4 bytes big-endian seconds since 1970, and the fraction."""
    digits = column.metadata
    fraction_size(digits)
    unit = _FRACTION_UNIT[digits]

    def load_timestamp2(data: bytes) -> str:
        seconds = int.from_bytes(data[:4], "big")
        return timestamp_text(seconds, int.from_bytes(data[4:], "big") * unit, digits)

    return load_timestamp2


def timestamp_text(seconds: int, microsecond: int, digits: int) -> str:
    """A TIMESTAMP by its seconds since 1970 UTC."""
    if seconds == 0 and microsecond == 0:  # the zero timestamp, not the epoch
        return f"{date_text(0, 0, 0)} {clock_text(0, 0, 0, 0, digits)}"
    days, rest = divmod(seconds, 86_400)
    minutes, second = divmod(rest, 60)
    clock = clock_text(minutes // 60, minutes % 60, second, microsecond, digits)
    return f"{_day_text(days)} {clock}"


@lru_cache(maxsize=4096)
def _day_text(days: int) -> str:
    """The date this many days after 1970-01-01; cached, as a log's dates are close together."""
    return date.fromordinal(_EPOCH + days).isoformat()


def _time2_loader(column: Column) -> Loader:
    """TIME(digits): 3 bytes big-endian, biased, and the fraction; from 5 digits on, 6 bytes."""
    digits = column.metadata
    size = fraction_size(digits)
    unit = _FRACTION_UNIT[digits]

    def load_long_time2(data: bytes) -> str:
        return time_text(int.from_bytes(data, "big") - _LONG_TIME_BIAS, digits)

    def load_time2(data: bytes) -> str:
        whole = int.from_bytes(data[:3], "big") - _TIME_BIAS
        fraction = int.from_bytes(data[3:], "big")
        if whole < 0 and fraction:  # the fraction of a negative time is stored as a complement
            whole, fraction = whole + 1, fraction - (1 << 8 * size)
        return time_text((whole << 24) + fraction * unit, digits)

    return load_long_time2 if digits > 4 else load_time2


def dump_date(value: Any) -> bytes:
    """DATE: what `given_day` takes."""
    year, month, day = given_day(value)
    return (year << 9 | month << 5 | day).to_bytes(3, "little")


def packed_datetime(value: Any, digits: int) -> tuple[int, int]:
    """DATETIME2's whole number and the microseconds, from what `given_moment` takes."""
    (year, month, day), hour, minute, second, microsecond = given_moment(value, digits)
    date = (year * 13 + month) << 5 | day
    return date << 17 | hour << 12 | minute << 6 | second, microsecond


def packed_time(value: Any, digits: int) -> int:
    """A TIME as `time_text` takes it, from what `given_time` takes."""
    number = given_time(value, digits)
    seconds, microsecond = divmod(abs(number), 1_000_000)
    minutes, second = divmod(seconds, 60)
    packed = (minutes // 60 << 12 | minutes % 60 << 6 | second) << 24 | microsecond
    return -packed if number < 0 else packed


def _datetime2_dumper(column: Column) -> Dumper:
    digits = column.metadata
    size, unit = fraction_size(digits), _FRACTION_UNIT[digits]

    def dump_datetime2(value: Any) -> bytes:
        packed, microsecond = packed_datetime(value, digits)
        fraction = (microsecond // unit).to_bytes(size, "big")
        return (packed + _DATETIME_BIAS).to_bytes(5, "big") + fraction

    return dump_datetime2


def _timestamp2_dumper(column: Column) -> Dumper:
    """Text and datetimes without a zone are UTC."""
    digits = column.metadata
    size, unit = fraction_size(digits), _FRACTION_UNIT[digits]

    def dump_timestamp2(value: Any) -> bytes:
        seconds, microsecond = given_seconds(value, digits)
        return seconds.to_bytes(4, "big") + (microsecond // unit).to_bytes(size, "big")

    return dump_timestamp2


def _time2_dumper(column: Column) -> Dumper:
    digits = column.metadata
    size, unit = fraction_size(digits), _FRACTION_UNIT[digits]

    def dump_time2(value: Any) -> bytes:
        packed = packed_time(value, digits)
        whole, microsecond = divmod(abs(packed), 1 << 24)
        number = whole << 8 * size | microsecond // unit
        number = -number if packed < 0 else number
        return (number + (_TIME_BIAS << 8 * size)).to_bytes(3 + size, "big")

    return dump_time2


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


def _digits_differ(spec: ColumnSpec, declared: Declared) -> str | None:
    if spec.type not in _WHOLE_SIZE:  # the old format: the log does not have the digits
        return None
    digits = declared.numbers[0] if declared.numbers else 0
    return None if digits == spec.metadata else f"the log says {spec.metadata} digits"


def _fractional(name: str, type_: ColumnType, old: ColumnType) -> Declaration:
    return Declaration(
        name,
        frozenset({type_, old}),
        lambda declared: declared.spec(type_, declared.number(0, 0, 6)),
        trouble=_digits_differ,
    )


def _width(whole: int) -> Callable[[int], Width]:
    return lambda digits: Width(whole + fraction_size(digits))


def _json(_column: Column) -> JsonWriter:
    return ascii_json


_WHOLE_SIZE: Final = {_T.TIME2: 3, _T.DATETIME2: 5, _T.TIMESTAMP2: 4}
"""Bytes without the fraction."""
FAMILY: Final = TypeFamily(
    widths={
        **dict.fromkeys((_T.DATE, _T.NEWDATE), sized(3)),
        **{code: _width(size) for code, size in _WHOLE_SIZE.items()},
    },
    formats={
        **dict.fromkeys((_T.DATE, _T.NEWDATE), Format.of(load_date, dump_date, ascii_json)),
        _T.TIME2: Format(_time2_loader, _time2_dumper, _json),
        _T.DATETIME2: Format(_datetime2_loader, _datetime2_dumper, _json),
        _T.TIMESTAMP2: Format(_timestamp2_loader, _timestamp2_dumper, _json),
    },
    names={
        "date": Declaration(
            "date", frozenset({_T.DATE, _T.NEWDATE}), lambda declared: declared.spec(_T.DATE)
        ),
        "time": _fractional("time", _T.TIME2, _T.TIME),
        "datetime": _fractional("datetime", _T.DATETIME2, _T.DATETIME),
        "timestamp": _fractional("timestamp", _T.TIMESTAMP2, _T.TIMESTAMP),
    },
)
