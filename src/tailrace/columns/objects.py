"""Values as Python objects (those of the object path) in Arrow, and back."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tailrace.constants import ColumnType
from tailrace.errors import UnsupportedType
from tailrace.values.json_diff import JsonDiffs
from tailrace.values.jsonb import JsonText
from tailrace.values.schema import Logical
from tailrace.values.surrogates import escaped, has_surrogates, unescaped
from tailrace.values.temporal import clock_text

if TYPE_CHECKING:
    from tailrace.columns.types import Plan
    from tailrace.values.schema import Column

_EPOCH: Final = date(1970, 1, 1)
_TEMPORAL: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d+))?)?")
_DURATION: Final = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?")


def arrow_value(value: Any, plan: Plan) -> tuple[Any, str | None]:
    """A value of the object path as ``plan.type`` holds it; or None and its text, if it cannot."""
    arrow = plan.type
    if isinstance(value, JsonDiffs):
        raise UnsupportedType(
            "a partial JSON update without the document before it, so its value is unknown: "
            "log with binlog_row_image=FULL or without binlog_row_value_options=PARTIAL_JSON, or "
            "leave the column or its table out"
        )
    if pa.types.is_date(arrow) or pa.types.is_timestamp(arrow):
        return _temporal(str(value), arrow)
    if pa.types.is_duration(arrow):
        match = _DURATION.fullmatch(value)
        if match is None:
            return None, str(value)
        sign, hours, minutes, seconds, part = match.groups()
        duration = timedelta(
            hours=int(hours),
            minutes=int(minutes),
            seconds=int(seconds),
            microseconds=int((part or "0").ljust(6, "0")),
        )
        return (-duration if sign else duration), None
    if pa.types.is_decimal(arrow):
        return Decimal(value), None
    if isinstance(value, Decimal):
        return f"{value:f}", None
    if isinstance(value, str) and has_surrogates(value):
        return None, escaped(value)
    return value, None


def _temporal(text: str, arrow: pa.DataType) -> tuple[Any, str | None]:
    match = _TEMPORAL.fullmatch(text)
    if match is None:
        return None, text
    year, month, day = (int(part) for part in match.groups()[:3])
    try:
        days = (date(year, month, day) - _EPOCH).days
    except ValueError:
        return None, text
    if pa.types.is_date(arrow):
        return days, None
    hours, minutes, seconds = (int(part) for part in match.groups()[3:6])
    part = int((match[7] or "0").ljust(6, "0"))
    return ((days * 24 + hours) * 3600 + minutes * 60 + seconds) * 1_000_000 + part, None


def object_value(value: Any, column: Column) -> Any:
    """The value of the object path that `arrow_value` made; ``value`` is not None."""
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(" ", timespec="microseconds")
        return text[: 20 + column.metadata] if column.metadata else text[:19]
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        seconds, micros = divmod(abs(value) // timedelta(microseconds=1), 1_000_000)
        minutes, second = divmod(seconds, 60)
        text = clock_text(minutes // 60, minutes % 60, second, micros, column.metadata)
        return f"-{text}" if value < timedelta() else text
    if column.type is ColumnType.NEWDECIMAL:
        return Decimal(value)
    if isinstance(value, Decimal):
        return int(value)
    if column.type is ColumnType.JSON or column.logical is Logical.JSON:
        return JsonText(value)
    return tuple(value) if column.logical is Logical.VECTOR else value


def odd_value(text: str, arrow: pa.DataType) -> str:
    """The value of the object path of which `arrow_value` gave only a text."""
    return unescaped(text) if pa.types.is_string(arrow) else text
