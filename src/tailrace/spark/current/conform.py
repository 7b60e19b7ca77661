"""Rows of a table as it was, in the columns of the table as it is: after ALTER TABLE, in bulk."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.errors import PipelineError
from tailrace.rows.surrogates import escaped, has_surrogates

if TYPE_CHECKING:
    from collections.abc import Callable

_Types = "Callable[[pa.DataType], bool]"


class RefusedError(PipelineError):
    """A table can have no current state; the message says why, as a sentence about the table."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a column of the table as it is comes from, in rows written before.

    ``name`` is the column's name in those rows. Where it is None the column was added since, and
    they have ``text``, the default as SELECT prints it (None: NULL). ``unknown`` says why the log
    does not tell what they have.
    """

    name: str | None
    text: str | None = None
    unknown: str | None = None


def _number(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow) or pa.types.is_decimal(arrow))


# What the server converts as Arrow does; Arrow itself refuses what would lose digits.
_SAME: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]], ...]] = (
    (_number, _number),
    (_number, pa.types.is_string),
    (pa.types.is_integer, pa.types.is_floating),
    (pa.types.is_floating, pa.types.is_floating),
    (pa.types.is_date, pa.types.is_timestamp),
)


def conform(column: pa.ChunkedArray, arrow: pa.DataType, name: str) -> pa.ChunkedArray:
    """The column's values in another type, where that is sure to be what the server made of them.

    Raises `RefusedError` where it is not.
    """
    old = column.type
    if pa.types.is_dictionary(old):
        column, old = column.cast(old.value_type), old.value_type
    if old == arrow:
        return column
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column), arrow)])
    textual = {old, arrow} == {pa.string(), pa.binary()}
    if textual and _ascii(column):
        return column.cast(arrow)
    if any(before(old) and after(arrow) for before, after in _SAME):
        try:
            return column.cast(arrow)
        except pa.ArrowInvalid:
            pass
    raise RefusedError(
        f"its column {name} was changed from {old} to {arrow}, and what the server made of the "
        "older values is not in the log"
    )


def _ascii(column: pa.ChunkedArray) -> bool:
    """Whether bytes and text are the same in any character set that a server has by default."""
    try:
        return bool(pc.all(pc.string_is_ascii(column.cast(pa.string()))).as_py())
    except pa.ArrowInvalid:
        return False


def default(source: Source, arrow: pa.DataType, rows: int) -> tuple[pa.Array, pa.Array | None]:
    """A column of the default's value; and, where no typed value is it, of its text.

    Raises `RefusedError` where the default cannot be told.
    """
    if source.unknown is not None:
        return pa.nulls(rows, arrow), None
    if source.text is None:
        return pa.nulls(rows, arrow), None
    if pa.types.is_string(arrow) and has_surrogates(source.text):
        return pa.nulls(rows, arrow), pa.repeat(pa.scalar(escaped(source.text)), rows)
    try:
        value = _value(source.text, arrow)
        if value is not None:
            return pa.repeat(pa.scalar(value, arrow), rows), None
    except (ValueError, ArithmeticError, pa.ArrowException) as error:
        raise RefusedError(
            f"a column was added to it with the default {source.text!r}, which is no {arrow}"
        ) from error
    return pa.nulls(rows, arrow), pa.repeat(pa.scalar(source.text), rows)


_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?\Z")
_TIME: Final = re.compile(r"(-?)(\d{1,3}):(\d\d):(\d\d)(?:\.(\d{1,6}))?\Z")


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
        if not (found := _TIME.match(text)):
            raise ValueError(text)
        hours, minutes, seconds = int(found[2]), int(found[3]), int(found[4])
        micros = int((found[5] or "").ljust(6, "0"))
        span = dt.timedelta(0, seconds, micros, 0, minutes, hours)
        return -span if found[1] else span
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
