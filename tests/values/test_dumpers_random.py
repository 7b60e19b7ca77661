"""Random values of each type come back from their bytes as what they were."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.constants import ColumnType
from tailrace.errors import ValueRejected
from tailrace.values.registry import dumper_of, loader_of
from tests.cases import each_case
from tests.values.test_dumpers import decimal
from tests.values.test_loaders import column

if TYPE_CHECKING:
    from decimal import Decimal

T = ColumnType


@given(st.decimals(allow_nan=False, allow_infinity=False), st.integers(1, 65), st.data())
def test_a_decimal_is_kept_or_refused(value: Decimal, precision: int, data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, min(precision, 30)))
    kind = decimal(precision, scale)
    try:
        dumped = dumper_of(kind)(value)
    except ValueRejected:
        _, digits, exponent = value.as_tuple()
        fits = int(exponent) >= -scale and len(digits) + int(exponent) <= precision - scale
        assert value
        assert not fits
    else:
        assert loader_of(kind)(dumped) == value


TIMES = st.sampled_from([T.TIME2, T.TIME])
MOMENTS = st.sampled_from([T.DATETIME2, T.DATETIME])
STAMPS = st.sampled_from([T.TIMESTAMP2, T.TIMESTAMP])
DIGITS = st.integers(0, 6)
LONGEST = timedelta(hours=838, minutes=59, seconds=59)


def shown_fraction(microsecond: int, digits: int) -> str:
    return f".{microsecond:06}"[: digits + 1] if digits else ""


@given(TIMES, DIGITS, st.timedeltas(-LONGEST, LONGEST))
def test_timedeltas(kind: ColumnType, digits: int, value: timedelta) -> None:
    value -= value % timedelta(microseconds=10 ** (6 - digits))
    value = max(value, -LONGEST)
    seconds, microsecond = divmod(abs(value) // timedelta(microseconds=1), 10**6)
    text = f"{'-' if value < timedelta() else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}"
    text += f":{seconds % 60:02}{shown_fraction(microsecond, digits)}"
    each = column(kind, digits)
    dumped = dumper_of(each)(value)
    assert loader_of(each)(dumped) == text
    assert dumper_of(each)(text) == dumped


@given(MOMENTS, DIGITS, st.datetimes())
def test_datetimes(kind: ColumnType, digits: int, value: datetime) -> None:
    value = value.replace(microsecond=value.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits))
    text = value.isoformat(" ", "seconds") + shown_fraction(value.microsecond, digits)
    each = column(kind, digits)
    dumped = dumper_of(each)(value)
    assert loader_of(each)(dumped) == text
    assert dumper_of(each)(text) == dumped


@given(STAMPS, DIGITS, st.integers(1, 2**32 - 1), st.integers(0, 10**6 - 1), st.integers(-23, 23))
def test_timestamps(
    kind: ColumnType, digits: int, seconds: int, microsecond: int, east: int
) -> None:
    microsecond -= microsecond % 10 ** (6 - digits)
    value = datetime.fromtimestamp(seconds, UTC).replace(microsecond=microsecond)
    text = value.replace(tzinfo=None).isoformat(" ", "seconds")
    text += shown_fraction(microsecond, digits)
    each = column(kind, digits)
    dumped = dumper_of(each)(value.astimezone(timezone(timedelta(hours=east))))
    assert loader_of(each)(dumped) == text
    assert dumper_of(each)(text) == dumped
    assert dumper_of(each)(value.replace(tzinfo=None)) == dumped


@given(st.dates())
def test_dates(value: date) -> None:
    each = column(T.DATE)
    assert loader_of(each)(dumper_of(each)(value)) == value.isoformat()


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(width=32, allow_nan=False))
def test_floats(double: float, single: float) -> None:
    each = column(T.DOUBLE)
    assert repr(loader_of(each)(dumper_of(each)(double))) == repr(double)
    each = column(T.FLOAT)
    if abs(single) != float("inf"):
        assert repr(loader_of(each)(dumper_of(each)(single))) == repr(single)
    try:
        near = loader_of(each)(dumper_of(each)(double))
    except ValueRejected:
        assert abs(double) > 3.4e38
    else:
        assert near == pytest.approx(double, rel=2**-24, abs=2**-149)


@each_case("kind", [T.TINY, T.SHORT, T.INT24, T.LONG, T.LONGLONG])
@each_case("unsigned", [True, False])
@given(data=st.data())
def test_integers(kind: ColumnType, unsigned: bool, data: st.DataObject) -> None:
    bits = 8 * {T.TINY: 1, T.SHORT: 2, T.INT24: 3, T.LONG: 4, T.LONGLONG: 8}[kind]
    least, most = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    each = column(kind, unsigned=unsigned)
    value = data.draw(st.integers(least, most))
    assert loader_of(each)(dumper_of(each)(value)) == value
    beyond = data.draw(st.integers(max_value=least - 1) | st.integers(min_value=most + 1))
    with pytest.raises(ValueRejected, match="is not between"):
        dumper_of(each)(beyond)
