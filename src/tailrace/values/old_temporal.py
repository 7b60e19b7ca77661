"""TIME, DATETIME and TIMESTAMP in the format before MySQL 5.6, which MariaDB may still log.

MariaDB does so for tables created under ``mysql56_temporal_format=OFF``. The log does not have
their number of fraction digits; only a schema does. Facts sheet section 3.1; MariaDB
``sql/field.cc``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import ColumnType
from tailrace.errors import EventDecodeError
from tailrace.values.family import Format, TypeFamily, Width, ascii_json
from tailrace.values.temporal import (
    clock_text,
    date_text,
    fraction_size,
    given_moment,
    given_seconds,
    given_time,
    timestamp_text,
)

if TYPE_CHECKING:
    from tailrace.values.family import Dumper, JsonWriter, Loader
    from tailrace.values.schema import Column

_T = ColumnType

_TIME_SIZE: Final = (3, 4, 4, 5, 5, 5, 6)
_DATETIME_SIZE: Final = (8, 6, 6, 7, 7, 7, 8)
_TIME_ZERO: Final = 839 * 3600  # one second more than the longest TIME
_SECOND: Final = 1_000_000


def _time_width(digits: int) -> Width:
    fraction_size(digits)
    return Width(_TIME_SIZE[digits])


def _datetime_width(digits: int) -> Width:
    fraction_size(digits)
    return Width(_DATETIME_SIZE[digits])


def _time_loader(column: Column) -> Loader:
    """MariaDB's old TIME(digits): with a fraction, big-endian units of it, from -839 hours on."""
    digits = column.metadata
    if not digits:
        return _load_old_time
    unit = 10 ** (6 - digits)
    zero = _TIME_ZERO * _SECOND // unit

    def load(data: bytes) -> str:
        number = (int.from_bytes(data, "big") - zero) * unit
        rest, microsecond = divmod(abs(number), _SECOND)
        minutes, second = divmod(rest, 60)
        clock = clock_text(minutes // 60, minutes % 60, second, microsecond, digits)
        return f"-{clock}" if number < 0 else clock

    return load


def _datetime_loader(column: Column) -> Loader:
    """MariaDB's old DATETIME(digits): with a fraction, big-endian units of it.

    They count from year 0, with 13 months per year and 32 days per month.
    """
    digits = column.metadata
    if not digits:
        return _load_old_datetime
    unit = 10 ** (6 - digits)

    def load(data: bytes) -> str:
        rest, microsecond = divmod(int.from_bytes(data, "big") * unit, _SECOND)
        days, clock = divmod(rest, 86_400)
        months, day = divmod(days, 32)
        minutes, second = divmod(clock, 60)
        time = clock_text(minutes // 60, minutes % 60, second, microsecond, digits)
        return f"{date_text(*divmod(months, 13), day)} {time}"

    return load


def _timestamp_loader(column: Column) -> Loader:
    """MariaDB's old TIMESTAMP(digits): with a fraction, big-endian seconds and units of it."""
    digits = column.metadata
    if not digits:
        return _load_old_timestamp
    unit = 10 ** (6 - digits)

    def load(data: bytes) -> str:
        seconds = int.from_bytes(data[:4], "big")
        return timestamp_text(seconds, int.from_bytes(data[4:], "big") * unit, digits)

    return load


def _load_old_time(data: bytes) -> str:
    """TIME before MySQL 5.6, and in MariaDB with the old format: 3 bytes, decimal +-HHMMSS."""
    number = int.from_bytes(data, "little", signed=True)
    rest, second = divmod(abs(number), 100)
    hour, minute = divmod(rest, 100)
    return ("-" if number < 0 else "") + clock_text(hour, minute, second, 0, 0)


def _load_old_datetime(data: bytes) -> str:
    """The old DATETIME: 8 bytes, decimal YYYYMMDDHHMMSS."""
    date, clock = divmod(int.from_bytes(data, "little"), 1_000_000)
    year, month = divmod(date // 100, 100)
    rest, second = divmod(clock, 100)
    hour, minute = divmod(rest, 100)
    if hour > 23:
        raise EventDecodeError(f"there is no hour {hour}")
    return f"{date_text(year, month, date % 100)} {clock_text(hour, minute, second, 0, 0)}"


def _load_old_timestamp(data: bytes) -> str:
    """The old TIMESTAMP: 4 bytes little-endian seconds since 1970."""
    return timestamp_text(int.from_bytes(data, "little"), 0, 0)


def _time_dumper(column: Column) -> Dumper:
    digits = column.metadata
    size = _TIME_SIZE[digits]
    unit: int = 10 ** (6 - digits)
    zero = _TIME_ZERO * _SECOND // unit

    def dump(value: Any) -> bytes:
        number = given_time(value, digits)
        if digits:
            return (number // unit + zero).to_bytes(size, "big")
        minutes, second = divmod(abs(number) // _SECOND, 60)
        shown = (minutes // 60 * 100 + minutes % 60) * 100 + second
        return (-shown if number < 0 else shown).to_bytes(size, "little", signed=True)

    return dump


def _datetime_dumper(column: Column) -> Dumper:
    digits = column.metadata
    size = _DATETIME_SIZE[digits]
    unit: int = 10 ** (6 - digits)

    def dump(value: Any) -> bytes:
        (year, month, day), hour, minute, second, microsecond = given_moment(value, digits)
        if digits:
            days = (year * 13 + month) * 32 + day
            seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
            return ((seconds * _SECOND + microsecond) // unit).to_bytes(size, "big")
        date = (year * 100 + month) * 100 + day
        shown = ((date * 100 + hour) * 100 + minute) * 100 + second
        return shown.to_bytes(size, "little")

    return dump


def _timestamp_dumper(column: Column) -> Dumper:
    """Text and datetimes without a zone are UTC."""
    digits = column.metadata
    size = fraction_size(digits)
    unit: int = 10 ** (6 - digits)

    def dump(value: Any) -> bytes:
        seconds, microsecond = given_seconds(value, digits)
        if digits:
            return seconds.to_bytes(4, "big") + (microsecond // unit).to_bytes(size, "big")
        return seconds.to_bytes(4, "little")

    return dump


def _json(_column: Column) -> JsonWriter:
    return ascii_json


FAMILY: Final = TypeFamily(
    widths={
        _T.TIME: _time_width,
        _T.DATETIME: _datetime_width,
        _T.TIMESTAMP: lambda digits: Width(4 + fraction_size(digits)),
    },
    formats={
        _T.TIME: Format(_time_loader, _time_dumper, _json),
        _T.DATETIME: Format(_datetime_loader, _datetime_dumper, _json),
        _T.TIMESTAMP: Format(_timestamp_loader, _timestamp_dumper, _json),
    },
)
TYPES: Final = frozenset(FAMILY.widths)
"""The types whose number of fraction digits is not in the log."""
