"""Converts Arrow arrays of any fitting type to the one type that a column decodes to.

What pyarrow casts without loss is accepted: other widths, large strings and views, dictionaries,
other units of time, text that spells a number or a moment. A conversion that would lose something,
or would have to guess, is rejected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable


class Rejected(Exception):
    """A value cannot be written, or with ``row`` None no value of its type; `encode` says where."""

    def __init__(self, why: str, row: int | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.row = row


_LONGEST: Final = 60
_NUMBER, _TEXT, _BYTES, _MOMENT, _SPAN, _LIST = range(6)
_FAMILIES: Final[tuple[tuple[int, Callable[[pa.DataType], bool]], ...]] = (
    (_NUMBER, pa.types.is_integer),
    (_NUMBER, pa.types.is_floating),
    (_NUMBER, pa.types.is_decimal),
    (_NUMBER, pa.types.is_boolean),
    (_TEXT, pa.types.is_string),
    (_TEXT, pa.types.is_large_string),
    (_TEXT, pa.types.is_string_view),
    (_BYTES, pa.types.is_binary),
    (_BYTES, pa.types.is_large_binary),
    (_BYTES, pa.types.is_binary_view),
    (_BYTES, pa.types.is_fixed_size_binary),
    (_MOMENT, pa.types.is_date),
    (_MOMENT, pa.types.is_timestamp),
    (_SPAN, pa.types.is_duration),
    (_SPAN, pa.types.is_time),
    (_LIST, pa.types.is_list),
    (_LIST, pa.types.is_large_list),
    (_LIST, pa.types.is_list_view),
    (_LIST, pa.types.is_large_list_view),
    (_LIST, pa.types.is_fixed_size_list),
)
_TAKEN: Final = {
    _NUMBER: {_NUMBER, _TEXT},
    _TEXT: {_TEXT, _BYTES, _NUMBER},
    _BYTES: {_BYTES, _TEXT},
    _MOMENT: {_MOMENT, _TEXT},
    _SPAN: {_SPAN},
    _LIST: {_LIST},
}
"""For a column of this family, the families of values that are accepted."""


def settle(array: pa.Array, wanted: pa.DataType, *, spelled: bool = False) -> pa.Array:
    """The same values as ``wanted``; for strings and binary possibly as the large type.

    ``spelled`` says that ``wanted`` is text that spells numbers.

    Raises `Rejected` with the row of a value that ``wanted`` cannot hold, and without a row for a
    type of which it can hold no value.
    """
    array = _plain(array)
    if array.type == wanted:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), wanted)
    if pa.types.is_null(wanted) and array.null_count == len(array):
        return pa.nulls(len(array))
    _check_families(array.type, wanted, spelled=spelled)
    try:
        return _cast(array, wanted)
    except pa.ArrowException as error:
        row = _first_bad(array, wanted)
        if row is None:
            raise Rejected(f"{array.type} cannot be cast to {wanted}: {error}") from None
        raise Rejected(
            f"{value_text(array[row])} of {array.type} does not fit into {wanted}", row
        ) from None


def value_text(value: pa.Scalar) -> str:
    """A value as an error message shows it, cut short."""
    try:
        text = repr(value.as_py())
    except (ValueError, OverflowError):  # dates and times that Python does not have
        text = repr(getattr(value, "value", value.type))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _plain(array: pa.Array) -> pa.Array:
    """The array without encodings that only say how values are stored."""
    while True:
        kind = array.type
        if pa.types.is_dictionary(kind):
            array = array.dictionary_decode()
        elif pa.types.is_run_end_encoded(kind):
            array = pc.run_end_decode(array)
        elif isinstance(kind, pa.BaseExtensionType):
            array = array.storage
        else:
            return array


def _family(kind: pa.DataType) -> int | None:
    return next((family for family, belongs in _FAMILIES if belongs(kind)), None)


def _check_families(given: pa.DataType, wanted: pa.DataType, *, spelled: bool) -> None:
    from_family, to_family = _family(given), _family(wanted)
    zone = pa.types.is_timestamp(given) and given.tz is not None
    if to_family is None or from_family not in _TAKEN[to_family]:
        raise Rejected(f"{given} cannot be converted to {wanted}: cast it yourself")
    if to_family == _TEXT and from_family == _NUMBER and not (spelled and _is_exact(given)):
        raise Rejected(f"{given} cannot be converted to text: cast it yourself")
    if zone and not (pa.types.is_timestamp(wanted) and wanted.tz is not None):
        raise Rejected(
            f"{given} has a time zone, which the column cannot hold: give the local time "
            "without a zone"
        )


def _is_exact(given: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(given) or pa.types.is_integer(given))


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Cast; raises pa.ArrowException if something would be lost."""
    given = array.type
    if pa.types.is_string(wanted) or pa.types.is_binary(wanted):
        return _cast_text(array, wanted)
    if pa.types.is_time(given):
        array = array.cast(pa.time64("ns")).cast(pa.int64()).cast(pa.duration("ns"))
        return array.cast(wanted)
    if pa.types.is_decimal(wanted) and (pa.types.is_integer(given) or pa.types.is_boolean(given)):
        array = array.cast(pa.int64() if pa.types.is_boolean(given) else given)
        return array.cast(pa.decimal128(20)).cast(wanted)
    result = array.cast(wanted)
    if _may_lose(given, wanted) and not _kept(array, result):
        raise pa.ArrowInvalid("digits would be lost")
    return result


def _cast_text(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Text and bytes keep the width of their offsets, so that nothing is copied."""
    given = array.type
    wide = any(
        is_wide(given)
        for is_wide in (
            pa.types.is_large_string,
            pa.types.is_large_binary,
            pa.types.is_string_view,
            pa.types.is_binary_view,
        )
    )
    if pa.types.is_string(wanted):
        return array.cast(pa.large_string() if wide else wanted)
    return array.cast(pa.large_binary() if wide else wanted)


def _may_lose(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Cases that pyarrow's own check does not cover: digits of fractions, the time of day."""
    if pa.types.is_date32(wanted):
        return bool(pa.types.is_timestamp(given))
    if pa.types.is_floating(wanted):
        return bool(pa.types.is_floating(given) and wanted.bit_width < given.bit_width)
    return bool(pa.types.is_decimal(wanted) and pa.types.is_floating(given))


def _kept(array: pa.Array, result: pa.Array) -> bool:
    if pa.types.is_floating(result.type):  # rounded, as the servers do, but not to infinity
        return bool(
            pc.all(pc.or_(pc.is_finite(result), pc.invert(pc.is_finite(array)))).as_py()
            is not False
        )
    return bool(result.cast(array.type).equals(array))


def _first_bad(array: pa.Array, wanted: pa.DataType) -> int | None:
    """The first row that cannot be cast; None if the error is not one row's."""
    start, stop = 0, len(array)
    while stop - start > 1:
        middle = (start + stop) // 2
        try:
            _cast(array.slice(start, middle - start), wanted)
        except pa.ArrowException:
            stop = middle
        else:
            start = middle
    try:
        _cast(array.slice(start, stop - start), wanted)
    except pa.ArrowException:
        return start
    return None
