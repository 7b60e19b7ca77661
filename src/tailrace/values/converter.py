"""Converts a value to a requested Python type. WL#3283, "Row set and value interface".

A conversion that would lose something is rejected, unless the `Converter` allows it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, cast

from tailrace.constants import ColumnType
from tailrace.errors import ConversionError, ConversionLoss, UnknownColumn, UsageError
from tailrace.printable import short_repr
from tailrace.values.charsets import encode
from tailrace.values.floats import float32_text
from tailrace.values.image import Absent, RowOfFields
from tailrace.values.registry import octets_of
from tailrace.values.schema import STRING_TYPES, Logical
from tailrace.values.value import Value, interpreted

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_T = ColumnType

_DATES: Final = frozenset({_T.DATE, _T.NEWDATE})
_STAMPS: Final = frozenset({_T.TIMESTAMP, _T.TIMESTAMP2})
_MOMENTS: Final = _STAMPS | {_T.DATETIME, _T.DATETIME2}
_TIMES: Final = frozenset({_T.TIME, _T.TIME2})
_NAMED: Final = frozenset({_T.ENUM, _T.SET})
_LONGEST: Final = 400
"""Maximum digits of a number in text, more than any numeric column holds."""


class Converter:
    """Converts `Value`s: ``Converter().to(int, value)``.

    It uses the value's column: its sign, character set, names. NULL becomes None for every type. A
    value that cannot be converted to the type raises `ConversionError`; one that can be converted
    only with a loss raises `ConversionLoss`, unless the converter is ``lossy``:

    - ``int`` of a number with a fraction (lossy: cut off), ``bool`` of numbers other than 0 and 1;
    - ``float`` of a number with more digits than it holds (lossy: the nearest);
    - ``date`` of a datetime that is not midnight (lossy: its day);
    - ``list`` and ``dict`` of a JSON document with numbers that a float does not hold, or with
      a duplicate name (lossy: the nearest, the last);
    - ``str`` of bytes that are not text: always a loss (lossy: as UTF-8, with replacement marks).

    With ``json_text``, ``list`` and ``dict`` are made of the JSON in any string column, too:
    MariaDB's JSON columns are text, and if only the log's table map is known, nothing tells them
    apart (nor from bytes, which are then read as UTF-8).

    TIMESTAMP becomes a `datetime` in UTC, DATETIME one without a zone. Zero dates and others that
    are not in the calendar cannot become `date` or `datetime`; ``str`` has them.
    """

    def __init__(self, *, lossy: bool = False, json_text: bool = False) -> None:
        self.lossy = lossy
        self.json_text = json_text

    def to(self, kind: type[T], value: Value) -> T | None:
        """The value as a ``kind``, or None for NULL.

        ``str``, ``int``, ``float``, ``Decimal``, ``bool``, ``bytes``, ``date``, ``datetime``,
        ``timedelta``, ``list``, ``dict``; ``object`` is the type that fits the column. Raises
        `ConversionError` if there is no conversion, `EventDecodeError` if the storage is not valid
        for its type, `UsageError` for arguments of other types.
        """
        if not (isinstance(value, Value) and isinstance(kind, type)):
            raise UsageError(
                f"Converter.to takes a type and a Value, not {short_repr(kind)} and"
                f" {short_repr(value)}"
            )
        if value.storage is None:
            return None
        convert = _KINDS.get(kind)
        if convert is None:
            known = ", ".join(each.__name__ for each in _KINDS)
            raise ConversionError(f"there is no conversion to {kind.__name__}, only to {known}")
        return cast("T", convert(_Conversion(self, value, kind)))

    def row(self, row: RowOfFields, kinds: Mapping[str, type] | None = None) -> dict[str, Any]:
        """A `Row`'s or image's columns by name, each as the type in ``kinds``, else ``object``.

        Columns that are not in the image are left out. `UnknownColumn` for a name in
        ``kinds`` that the table does not have.
        """
        if not isinstance(row, RowOfFields):
            raise UsageError(f"Converter.row takes a row or an image, not {short_repr(row)}")
        if kinds is not None and not isinstance(kinds, Mapping):
            raise UsageError(
                f"Converter.row takes types by column name, and not {short_repr(kinds)}"
            )
        schema = row.image.schema
        wanted: dict[str, type] = {}
        for name, kind in (kinds or {}).items():
            index = schema.index_of(name)
            if index is None:
                raise UnknownColumn(f"{schema.full_name} has no column {name!r}")
            wanted[schema.columns[index].name] = kind
        return {
            name: self.to(wanted.get(name, object), value)
            for name, value in row.items()
            if not isinstance(value, Absent)
        }


class _Conversion:
    """The conversion of one value to one type, with its errors."""

    def __init__(self, converter: Converter, value: Value, kind: type) -> None:
        self.lossy = converter.lossy
        self.json_text = converter.json_text
        self.value = value
        self.kind = kind
        self.type = value.type
        self.column = value.described()
        self.logical = self.column.logical
        self.storage = value.storage or b""
        self.known = interpreted(value)
        """The value as an `Image` gives it."""

    def reject(self, reason: str = "") -> NoReturn:
        raise ConversionError(f"{self._what()} is no {self.kind.__name__}{reason and ': '}{reason}")

    def lose(self, reason: str) -> None:
        """Raise, unless the converter may lose something."""
        if not self.lossy:
            raise ConversionLoss(
                f"{self._what()} as {self.kind.__name__} loses {reason}; "
                "Converter(lossy=True) allows that"
            )

    def _what(self) -> str:
        shown = repr(self.known)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        return f"{self.column.name or 'a value'} ({self.type.name}) {shown}"

    @property
    def number(self) -> int | Decimal | None:
        """Its value as a number, with all digits; also from numeric text. None if it is not a
        number.

        A FLOAT or DOUBLE is the shortest decimal that identifies this float.
        """
        known = self.known
        if self.type in _NAMED:
            return int.from_bytes(self.storage, "little")
        if isinstance(known, (int, Decimal)):
            return known
        if isinstance(known, float):
            return Decimal(float32_text(known) if self.type is _T.FLOAT else repr(known))
        if isinstance(known, str) and self.logical in {Logical.TEXT, Logical.JSON}:
            try:
                number = Decimal(known.strip())
            except InvalidOperation:
                return None
            return number if number.is_finite() and abs(number.adjusted()) <= _LONGEST else None
        return None


def _to_object(of: _Conversion) -> object:
    return of.known


def _to_str(of: _Conversion) -> str:
    known = of.known
    if of.type is _T.YEAR:
        return f"{known:04}"
    if of.type is _T.FLOAT:
        return float32_text(known)
    if isinstance(known, str):
        return str(known)
    if isinstance(known, Decimal):
        return f"{known:f}"
    if isinstance(known, (int, float)):
        return repr(known)
    if isinstance(known, tuple):  # a VECTOR
        return f"[{','.join(map(float32_text, known))}]"
    of.lose("bytes that are no text")
    return bytes(known).decode("utf-8", "replace")


def _to_int(of: _Conversion) -> int:
    number = of.number
    if number is None:
        of.reject()
    if number != int(number):
        of.lose("its fraction")
    return int(number)


def _to_float(of: _Conversion) -> float:
    if isinstance(of.known, float):
        return of.known
    number = None if of.type in _NAMED else of.number
    if number is None:
        of.reject()
    try:
        result = float(number)
    except OverflowError:
        of.reject("too large")
    if result in {float("inf"), float("-inf")}:
        of.reject("too large")
    if not _holds(result, number):
        of.lose("digits")
    return result


def _holds(result: float, number: int | Decimal) -> bool:
    """Whether a float equals a number, or this number is the shortest decimal for it."""
    return result == number or Decimal(repr(result)) == number


def _to_decimal(of: _Conversion) -> Decimal:
    number = None if of.type in _NAMED else of.number
    if number is None:
        of.reject()
    return Decimal(number)


def _to_bool(of: _Conversion) -> bool:
    number = None if of.type in _NAMED else of.number
    if number is None:
        of.reject()
    if number not in {0, 1}:
        of.lose("which number it is")
    return bool(number)


def _to_bytes(of: _Conversion) -> bytes:
    """Bytes of binary columns; text in its column's character set; addresses in network order."""
    known: object = of.known
    if isinstance(known, bytes):
        return known
    octets = octets_of(of.column)
    if octets is not None:
        return octets(of.storage)
    if of.type in _NAMED and isinstance(known, str):
        return encode(of.column.charset, known)
    return of.reject("its storage is not the value itself: value.storage gives it")


def _moment(of: _Conversion, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)  # a DATETIME has no zone
    except ValueError:
        of.reject("the calendar has no such day")


def _moment_text(of: _Conversion) -> str:
    if of.type in _DATES | _MOMENTS or (of.logical is Logical.TEXT and isinstance(of.known, str)):
        return str(of.known).strip()
    return of.reject()


def _to_datetime(of: _Conversion) -> datetime:
    moment = _moment(of, _moment_text(of))
    return moment.replace(tzinfo=UTC) if of.type in _STAMPS else moment


def _to_date(of: _Conversion) -> date:
    text = _moment_text(of)
    moment = _moment(of, text)
    if moment.time() != datetime.min.time():
        of.lose("the time of day")
    return moment.date()


def _to_timedelta(of: _Conversion) -> timedelta:
    if of.type not in _TIMES:
        of.reject()
    text: str = of.known
    hours, minutes, seconds = text.lstrip("-").split(":")
    whole, _, fraction = seconds.partition(".")
    result = timedelta(
        hours=int(hours),
        minutes=int(minutes),
        seconds=int(whole),
        microseconds=int(fraction.ljust(6, "0")),
    )
    return -result if text.startswith("-") else result


def _document(of: _Conversion) -> Any:
    known = of.known
    if of.logical is not Logical.JSON and not (of.json_text and of.type in STRING_TYPES):
        of.reject()
    try:
        return json.loads(
            known.decode() if isinstance(known, bytes) else str(known),
            parse_float=lambda text: _json_float(of, text),
            parse_constant=lambda text: of.reject(f"{text} is no JSON"),
            object_pairs_hook=lambda pairs: _json_object(of, pairs),
        )
    except (ValueError, RecursionError) as error:
        of.reject(str(error))


def _json_float(of: _Conversion, text: str) -> float:
    number = Decimal(text)
    result = float(text)
    if not _holds(result, number):
        of.lose(f"digits of {text}")
    return result


def _json_object(of: _Conversion, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        of.lose("a name that is in one object twice")
    return result


def _to_list(of: _Conversion) -> list[Any]:
    """A JSON array, the numbers of a VECTOR, or the names of a SET."""
    if isinstance(of.known, tuple):
        return list(of.known)
    if of.type is _T.SET:
        names = of.column.members
        if names is None:
            of.reject("its names are not known")
        bits = int.from_bytes(of.storage, "little")
        return [name for index, name in enumerate(names) if bits >> index & 1]
    document = _document(of)
    return document if isinstance(document, list) else of.reject("its document is no array")


def _to_dict(of: _Conversion) -> dict[str, Any]:
    document = _document(of)
    return document if isinstance(document, dict) else of.reject("its document is no object")


_KINDS: Final[Mapping[type, Callable[[_Conversion], Any]]] = {
    object: _to_object,
    str: _to_str,
    int: _to_int,
    float: _to_float,
    Decimal: _to_decimal,
    bool: _to_bool,
    bytes: _to_bytes,
    date: _to_date,
    datetime: _to_datetime,
    timedelta: _to_timedelta,
    list: _to_list,
    dict: _to_dict,
}
