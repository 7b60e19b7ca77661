"""Rows of a table as it was, in the columns of the table as it is: after ALTER TABLE, in bulk."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.schema.conversions import How
from tailrace.spark.state.current.conversions import Values, converted
from tailrace.spark.state.failure import RejectedError
from tailrace.values.surrogates import escaped, has_surrogates
from tailrace.values.temporal import given_time

if TYPE_CHECKING:
    from tailrace.spark.state.current.conversions import Step

    Bits = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a column of the table as it is comes from, in rows written before.

    ``name`` is the column's name in those rows. Where it is None the column was added since, and
    they have ``text``, the default as SELECT prints it (None: NULL). ``unknown`` says why the log
    does not tell what they have. ``steps`` were done to their values, in order.
    """

    name: str | None
    text: str | None = None
    unknown: str | None = None
    steps: tuple[Step, ...] = ()


def _number(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow) or pa.types.is_decimal(arrow))


def conform(column: pa.ChunkedArray, arrow: pa.DataType, name: str) -> pa.ChunkedArray:
    """The same values in another Arrow type. Raises `RejectedError` where it does not hold them."""
    old = column.type
    if pa.types.is_dictionary(old):
        column, old = column.cast(old.value_type), old.value_type
    if old == arrow:
        return column
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column), arrow)])
    if _number(old) and _number(arrow):
        with suppress(pa.ArrowInvalid):
            return column.cast(arrow)
    raise RejectedError(
        f"its column {name} was changed from {old} to {arrow}, and what the server made of the "
        "older values is not in the log"
    )


def carried(
    column: pa.ChunkedArray,
    texts: pa.ChunkedArray | None,
    source: Source,
    field: pa.Field,
    *,
    there: Bits | None = None,
    key: bool = False,
) -> Values:
    """The values that rows from before have in a column of the table as it is, and their texts.

    Those of a ``key`` must be known, and equal to what they were: else they would be another row's.
    """
    if not source.steps:
        return Values(conform(column, field.type, field.name), texts, np.zeros(len(column), bool))
    before = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    found = Values(before, texts, np.zeros(len(column), np.bool_))
    for number, step in enumerate(source.steps):
        last = found.values
        found = converted(found, step, there=there)
        if key and (found.unknown.any() or _changed(last, found.values, step)):
            raise RejectedError(step.reason)
        if step.conversion is None:  # only NULL is known, until it may not be any more
            nulls = any(each.nulls for each in source.steps[number + 1 :])
            unknown = found.unknown | (nulls if there is None else nulls & there)
            return Values(pa.chunked_array([pa.nulls(len(column), field.type)]), None, unknown)
    values = found.values
    if values.type != field.type and found.unknown.any():
        values = pc.if_else(pa.array(~found.unknown), values, None)
    return replace(found, values=conform(values, field.type, field.name))


def _changed(before: pa.ChunkedArray, after: pa.ChunkedArray, step: Step) -> bool:
    how = step.conversion.how if step.conversion is not None else How.SAME
    return how not in _SAME_KEYS and not (before.type == after.type and before.equals(after))


_SAME_KEYS: Final = frozenset({How.SAME, How.NUMBER, How.DIGITS})
"""What makes different keys of different ones, in an order of their own."""


def default(source: Source, arrow: pa.DataType, rows: int) -> tuple[pa.Array, pa.Array | None]:
    """A column of the default's value; and, where no typed value is it, of its text.

    Raises `RejectedError` where the default cannot be told.
    """
    if source.unknown is not None or source.text is None:
        return pa.nulls(rows, arrow), None
    if pa.types.is_string(arrow) and has_surrogates(source.text):
        return pa.nulls(rows, arrow), pa.repeat(pa.scalar(escaped(source.text)), rows)
    try:
        value = _value(source.text, arrow)
        if value is not None:
            return pa.repeat(pa.scalar(value, arrow), rows), None
    except (ValueError, ArithmeticError, pa.ArrowException) as error:
        raise RejectedError(
            f"a column was added to it with the default {source.text!r}, which is no {arrow}"
        ) from error
    return pa.nulls(rows, arrow), pa.repeat(pa.scalar(source.text), rows)


_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?\Z")


def _value(text: str, arrow: pa.DataType) -> Any:
    """The value of a default's text; None where only the text itself can say it (zero dates)."""
    if pa.types.is_integer(arrow):
        return int(decimal.Decimal(text).quantize(decimal.Decimal(1), decimal.ROUND_HALF_UP))
    if pa.types.is_decimal(arrow):
        step = decimal.Decimal(1).scaleb(-arrow.scale)
        with decimal.localcontext(prec=80):
            return decimal.Decimal(text).quantize(step, decimal.ROUND_HALF_UP)
    if pa.types.is_floating(arrow):
        return float(text)
    if pa.types.is_string(arrow):
        return text
    if pa.types.is_binary(arrow):
        return text.encode("ascii")
    if pa.types.is_duration(arrow):
        return dt.timedelta(microseconds=given_time(text, 6))
    if not (found := _DATE.match(text)):
        raise ValueError(text)
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    if not (year and month and day):
        return None
    if pa.types.is_date(arrow):
        return dt.date(year, month, day)
    micros = int((found[7] or "").ljust(6, "0"))
    zone = dt.UTC if arrow.tz else None
    return dt.datetime(year, month, day, hour, minute, second, micros, zone)
