"""Rows of a table as it was, in the columns of the table as it is: after ALTER TABLE, in bulk."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.errors import PipelineError
from tailrace.values.surrogates import escaped, has_surrogates

if TYPE_CHECKING:
    from collections.abc import Callable

    Numbers = np.ndarray[Any, np.dtype[Any]]

_Types = "Callable[[pa.DataType], bool]"


class RefusedError(PipelineError):
    """A table can have no current state; the message says why, as a sentence about the table."""


@dataclass(frozen=True, slots=True)
class Fit:
    """What ALTER TABLE made of the values of a column whose type Arrow has no narrower one for.

    ``declared`` is the type that was written. Of a moment or a TIME ``digits`` are those of its
    seconds' fraction, which ``rounds`` or is cut; of a FLOAT or DOUBLE with ``width`` digits those
    after the point; of text, bytes and bits ``width`` is the most of them.
    """

    declared: str
    digits: int = 0
    width: int | None = None
    rounds: bool = True


@dataclass(frozen=True, slots=True)
class Source:
    """Where a column of the table as it is comes from, in rows written before.

    ``name`` is the column's name in those rows. Where it is None the column was added since, and
    they have ``text``, the default as SELECT prints it (None: NULL). ``unknown`` says why the log
    does not tell what they have. ``fits`` are to be done to their values, in order.
    """

    name: str | None
    text: str | None = None
    unknown: str | None = None
    fits: tuple[Fit, ...] = ()


def _number(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow) or pa.types.is_decimal(arrow))


# What the server converts as Arrow does; Arrow itself rejects what would lose digits.
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


def carried(
    column: pa.ChunkedArray, source: Source, field: pa.Field, *, key: bool = False
) -> pa.ChunkedArray:
    """The values that rows from before have in a column of the table as it is; see `conform`.

    Those of a ``key`` that ALTER TABLE changed would be another row's.
    """
    if not source.fits:
        return conform(column, field.type, field.name)
    before = column.cast(column.type.value_type) if _is_dictionary(column.type) else column
    found = before
    for fit in source.fits:
        found = fitted(found, fit, field.name)
    if key and not found.equals(before):
        raise RefusedError(_lost(field.name, source.fits[-1].declared))
    return conform(found, field.type, field.name)


def fitted(column: pa.ChunkedArray, fit: Fit, name: str) -> pa.ChunkedArray:
    """The values as the server stores them in a column that was declared so.

    Raises `RefusedError` where that is not sure.
    """
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        numbers = column.cast(pa.int64())
        return _each_chunk(numbers, lambda each: _fraction(each, fit, kind)).cast(kind)
    if pa.types.is_floating(kind):
        if fit.width is None or (pa.types.is_float32(kind) and fit.declared.startswith("float")):
            return column  # for a redeclared FLOAT the servers change only what is printed
        made = _each_chunk(column.cast(pa.float64()), lambda each: _decimals(each, fit))
        limit = 10.0 ** (fit.width - fit.digits)
        if pc.any(pc.greater_equal(pc.abs(made), limit)).as_py():
            raise RefusedError(_lost(name, fit.declared))
        return made.cast(kind)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        measure = pc.utf8_length if pa.types.is_string(kind) else pc.binary_length
        if fit.width is not None and pc.any(pc.greater(measure(column), fit.width)).as_py():
            raise RefusedError(_lost(name, fit.declared))
    elif fit.width is not None and (pc.max(column).as_py() or 0) >= 1 << fit.width:  # a BIT
        raise RefusedError(_lost(name, fit.declared))
    return column


def fitted_texts(texts: pa.ChunkedArray, source: Source, name: str) -> pa.ChunkedArray:
    """Texts that stand for values which no type holds (zero dates), as SELECT prints them then."""
    for fit in source.fits:
        made = [None if text is None else _cut(text, fit, name) for text in texts.to_pylist()]
        texts = pa.chunked_array([pa.array(made, pa.string())])
    return texts


def _cut(text: str, fit: Fit, name: str) -> str:
    whole, _, fraction = text.partition(".")
    if fit.rounds and fraction[fit.digits :].strip("0"):
        raise RefusedError(_lost(name, fit.declared))
    return f"{whole}.{fraction[: fit.digits]}" if fit.digits and fraction else whole


def _is_dictionary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind))


def _lost(name: str, declared: str) -> str:
    return (
        f"its column {name} was changed to {declared}, and what the server made of older values "
        "that do not fit is not in the log"
    )


def _each_chunk(column: pa.ChunkedArray, make: Callable[[Numbers], Numbers]) -> pa.ChunkedArray:
    """What is made of the numbers of a column; NULL stays NULL."""
    chunks = []
    for chunk in column.chunks:
        there = chunk.is_valid().to_numpy(zero_copy_only=False)
        made = make(chunk.fill_null(0).to_numpy(zero_copy_only=False))
        chunks.append(pa.array(made, column.type, mask=~there))
    return pa.chunked_array(chunks, column.type)


def _fraction(micros: Numbers, fit: Fit, kind: pa.DataType) -> Numbers:
    """Microseconds with so many digits; of a TIME it is the amount that is rounded, or cut."""
    step = 10 ** (6 - fit.digits)
    signs = np.where(pa.types.is_duration(kind) & (micros < 0), -1, 1)
    amounts = micros * signs + (step // 2 if fit.rounds else 0)
    made: Numbers = amounts // step * step * signs
    return made


def _decimals(values: Numbers, fit: Fit) -> Numbers:
    """Numbers with so many decimals, as the servers round them: of what is behind the point."""
    power = 10.0**fit.digits
    floors = np.floor(values)
    made: Numbers = floors + np.rint((values - floors) * power) / power
    return made


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
