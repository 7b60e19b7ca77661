"""Rows of a table as it was, in the columns of the table as it is: after ALTER TABLE, in bulk.

The list of exact conversions (`tailrace.schema.conversions`) is done to Arrow columns here.
"""

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

from tailrace.constants import ColumnType
from tailrace.schema.conversions import Conversion, How, Sure, bounds, kept_members
from tailrace.spark.state.failure import RejectedError
from tailrace.values.surrogates import escaped, has_surrogates
from tailrace.values.temporal import given_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.spark.record.present import Bits
    from tailrace.spark.state.current.lineage import Source

    Numbers = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Step:
    """What one ALTER TABLE made of a column's values; ``conversion`` is None if that is not known.

    With ``nulls`` a NULL became a value. ``reason`` says, of a value that is not known, why.
    """

    conversion: Conversion | None
    nulls: bool
    reason: str

    @property
    def keeps(self) -> bool:
        """Whether all values stay as they are."""
        return self.conversion is not None and self.conversion.keeps and not self.nulls

    @property
    def is_sure(self) -> int:
        """How sure it is that all values are known: the least for none."""
        return -1 if self.conversion is None else self.conversion.sure - self.nulls


@dataclass(frozen=True)
class Values:
    """A column's values; the texts of those that no type holds; and which are not known."""

    values: pa.ChunkedArray
    texts: pa.ChunkedArray | None
    unknown: Bits


def _is_number(arrow: pa.DataType) -> bool:
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
    if _is_number(old) and _is_number(arrow):
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


def converted(before: Values, step: Step, *, there: Bits | None = None) -> Values:
    """The values after a step. Those of rows that are not ``there`` may be anything."""
    column, texts = before.values, before.texts
    valid = _bits(column.is_valid())
    odd = np.zeros(len(column), np.bool_) if texts is None else _bits(texts.is_valid())
    missing = ~(valid | odd)
    if there is not None:
        missing &= there
    unknown = before.unknown | (missing if step.nulls else False)
    conversion = step.conversion
    if conversion is None:
        return Values(column, texts, unknown | valid | odd)
    if conversion.keeps:
        return Values(column, texts, unknown)
    column, bad = _HOW[conversion.how](column, conversion)
    if texts is not None and odd.any():
        texts, strange = _texts(texts, conversion)
        bad = bad | strange
    return Values(column, texts, unknown | bad)


def _bits(mask: pa.ChunkedArray) -> Bits:
    return np.asarray(mask.to_numpy(), np.bool_)


def _true(mask: pa.ChunkedArray) -> Bits:
    """Where a condition holds, and is not NULL."""
    return _bits(pc.fill_null(mask, False))


def _without(column: pa.ChunkedArray, bad: Bits) -> pa.ChunkedArray:
    """The column with NULL where a value is bad."""
    return pc.if_else(pa.array(~bad), column, None) if bad.any() else column


def _none(column: pa.ChunkedArray) -> Bits:
    return np.zeros(len(column), np.bool_)


# --- numbers -------------------------------------------------------------------------------------

_WIDEST: Final = 38
_EXACT: Final = decimal.Context(prec=100)


def _number(column: pa.ChunkedArray, entry: Conversion) -> tuple[pa.ChunkedArray, Bits]:
    """The same numbers; those out of bounds, or with more digits, are not known."""
    wanted = arrow_of(entry)
    if pa.types.is_floating(wanted):
        return column.cast(wanted), _none(column)
    if entry.sure is Sure.ALWAYS:
        return _cast(column, wanted), _none(column)
    least, most, scale = bounds(entry.new)
    exact = column
    if pa.types.is_integer(column.type):
        exact = column.cast(pa.decimal128(19, 0))
    old = exact.type.scale
    wide = exact.cast(pa.decimal128(_WIDEST, old))
    step = decimal.Decimal(1).scaleb(-old)
    limit = decimal.Decimal(10**_WIDEST - 1).scaleb(-old, _EXACT)
    low, high = (
        min(max(decimal.Decimal(each).scaleb(-scale, _EXACT), -limit), limit).quantize(
            step, rounding, _EXACT
        )
        for each, rounding in ((least, decimal.ROUND_CEILING), (most, decimal.ROUND_FLOOR))
    )
    kind = wide.type
    bad = _true(pc.less(wide, pa.scalar(low, kind))) | _true(
        pc.greater(wide, pa.scalar(high, kind))
    )
    if old > scale:
        cut = wide.cast(
            options=pc.CastOptions(pa.decimal128(_WIDEST, scale), allow_decimal_truncate=True)
        )
        back = cut.cast(options=pc.CastOptions(kind, allow_decimal_truncate=True))
        bad |= _true(pc.not_equal(back, wide))
    return _cast(_without(column, bad), wanted), bad


def _cast(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_integer(column.type) and pa.types.is_decimal(wanted):
        column = column.cast(pa.decimal128(19, 0))
    if pa.types.is_decimal(column.type) and pa.types.is_decimal(wanted):
        column = column.cast(pa.decimal128(_WIDEST, column.type.scale))
    return column.cast(wanted)


def _real(column: pa.ChunkedArray, entry: Conversion) -> tuple[pa.ChunkedArray, Bits]:
    """Floating-point numbers, rounded to some decimals as the servers do it."""
    wanted = arrow_of(entry)
    wide = column.cast(pa.float64(), safe=False)
    bad = _none(column)
    same_float = pa.types.is_float32(column.type) and pa.types.is_float32(wanted)
    if entry.digits is not None and not same_float:
        width, decimals = entry.digits
        wide = _each_chunk(wide, lambda values: _decimals(values, decimals))
        bad |= _true(pc.greater_equal(pc.abs(wide), 10.0 ** (width - decimals)))
    made = wide.cast(wanted, safe=False)
    if entry.digits is None:
        exact = pc.equal(made.cast(column.type, safe=False), column)
        bad |= _true(pc.invert(exact))
        if pa.types.is_integer(column.type) and column.type.bit_width > _WHOLE:
            bad |= _true(pc.greater(pc.abs(wide), 2.0**53))
    if entry.new.unsigned:
        bad |= _true(pc.less(wide, 0.0))
    return made, bad


_WHOLE: Final = 32


def _decimals(values: Numbers, digits: int) -> Numbers:
    """Numbers with so many decimals, as the servers round them: of what is after the point."""
    power = 10.0**digits
    floors = np.floor(values)
    made: Numbers = floors + np.rint((values - floors) * power) / power
    return made


def _digits(column: pa.ChunkedArray, entry: Conversion) -> tuple[pa.ChunkedArray, Bits]:
    """Numbers as text, all digits after the point."""
    kind = "f" if pa.types.is_decimal(column.type) else "d"
    made = _each_value(column, lambda value: format(value, kind))
    bad = _none(column)
    if entry.width is not None and entry.sure is not Sure.ALWAYS:
        bad = _true(pc.greater(pc.utf8_length(made), entry.width))
    return made, bad


# --- texts, bytes, members -----------------------------------------------------------------------


def _text(column: pa.ChunkedArray, entry: Conversion) -> tuple[pa.ChunkedArray, Bits]:
    """Texts that fit; a CHAR loses the spaces at its end."""
    bad = _none(column)
    if entry.ascii_only:
        column, bad = _ascii(column)
    if entry.new.type is ColumnType.STRING and entry.old.type is not ColumnType.STRING:
        column = pc.utf8_rtrim(column, " ")
    if entry.width is not None:
        bad |= _true(pc.greater(pc.utf8_length(column), entry.width))
    return column, bad


def _ascii(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Bits]:
    """A column of text of what is ASCII in it, and which values are not."""
    if pa.types.is_string(column.type):
        bad = _true(pc.invert(pc.string_is_ascii(column)))
        return column, bad
    plain = [value is None or value.isascii() for value in column.to_pylist()]
    bad = ~np.array(plain, np.bool_)
    return _without(column, bad).cast(pa.string()), bad


def _bytes(column: pa.ChunkedArray, entry: Conversion) -> tuple[pa.ChunkedArray, Bits]:
    """Bytes that fit; a BINARY gets zeros at its end."""
    bad = _none(column)
    if pa.types.is_string(column.type):
        column, bad = _ascii(column)
        column = column.cast(pa.binary())
    width = entry.width or 0
    bad |= _true(pc.greater(pc.binary_length(column), width))
    if entry.new.type is ColumnType.STRING:
        column = _each_value(column, lambda value: value.ljust(width, b"\0"))
    return column, bad


def _members(column: pa.ChunkedArray, entry: Conversion) -> tuple[pa.ChunkedArray, Bits]:
    """Members that the new type has, too; those of a SET in its order."""
    kept = kept_members(entry)
    order = {name: place for place, name in enumerate(entry.new.members or ())}

    def made(value: str) -> str | None:
        if entry.new.type is ColumnType.ENUM:
            return kept.get(value)
        parts = value.split(",") if value else []
        if not all(each in kept for each in parts):
            return None
        return ",".join(sorted(parts, key=lambda each: order[each]))

    found = _each_value(column, made)
    return found, _bits(column.is_valid()) & ~_bits(found.is_valid())


def _each_value(column: pa.ChunkedArray, make: Callable[[Any], Any]) -> pa.ChunkedArray:
    """What is made of each value, worked out once for equal ones; NULL stays NULL."""
    known: dict[Any, Any] = {None: None}
    values = column.to_pylist()
    for value in values:
        if value not in known:
            known[value] = make(value)
    made = [known[value] for value in values]
    kind = pa.binary() if any(isinstance(each, bytes) for each in made) else pa.string()
    return pa.chunked_array([pa.array(made, kind)])


# --- moments -------------------------------------------------------------------------------------

_END: Final = 253_402_300_800_000_000
_END_OF_STAMPS: Final = (1 << 31) * 1_000_000
_LONGEST_TIME: Final = 3_020_399_000_000


def _fraction(column: pa.ChunkedArray, entry: Conversion) -> tuple[pa.ChunkedArray, Bits]:
    """Moments and times with so many digits; of a TIME it is the amount that is rounded, or cut."""
    wanted = arrow_of(entry)
    now, before = entry.digits or (0, 0)
    column = column.cast(wanted)
    if now >= before:
        return column, _none(column)
    step = 10 ** (6 - now)

    def made(micros: Numbers) -> Numbers:
        signs = np.where(pa.types.is_duration(wanted) & (micros < 0), -1, 1)
        amounts = micros * signs + (step // 2 if entry.modes.rounds else 0)
        found: Numbers = amounts // step * step * signs
        return found

    numbers = _each_chunk(column.cast(pa.int64()), made)
    if pa.types.is_duration(wanted):
        bad = _true(pc.greater(pc.abs(numbers), _LONGEST_TIME))
    else:
        limit = _END_OF_STAMPS if wanted.tz else _END
        bad = _true(pc.greater_equal(numbers, limit))
    return _without(numbers, bad).cast(wanted), bad


def _texts(texts: pa.ChunkedArray, entry: Conversion) -> tuple[pa.ChunkedArray, Bits]:
    """Texts of what no type holds: zero dates, which get other digits, and nothing else."""
    now, _ = entry.digits or (0, 0)
    made: list[str | None] = []
    for text in texts.to_pylist():
        whole, _, fraction = (text or "").partition(".")
        is_zero = entry.how is How.FRACTION and entry.modes.zeros and not whole.strip("0-: ")
        if text is None or not is_zero or fraction.strip("0"):
            made.append(None)
            continue
        if ":" not in whole:
            whole += " 00:00:00"
        made.append(f"{whole}.{'0' * now}" if now else whole)
    found = pa.chunked_array([pa.array(made, pa.string())])
    return found, _bits(texts.is_valid()) & ~_bits(found.is_valid())


def _each_chunk(column: pa.ChunkedArray, make: Callable[[Numbers], Numbers]) -> pa.ChunkedArray:
    """What is made of the numbers of a column; NULL stays NULL."""
    chunks = []
    for chunk in column.chunks:
        there = chunk.is_valid().to_numpy(zero_copy_only=False)
        made = make(chunk.fill_null(0).to_numpy(zero_copy_only=False))
        chunks.append(pa.array(made, column.type, mask=~there))
    return pa.chunked_array(chunks, column.type)


def arrow_of(entry: Conversion) -> pa.DataType:
    """The Arrow type of the new column."""
    from tailrace.columns.types import plan_of  # noqa: PLC0415 - of few tables only

    return plan_of(entry.new).type


_HOW: Final = {
    How.NUMBER: _number,
    How.REAL: _real,
    How.DIGITS: _digits,
    How.TEXT: _text,
    How.BYTES: _bytes,
    How.MEMBER: _members,
    How.FRACTION: _fraction,
}


# --- defaults ------------------------------------------------------------------------------------


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
