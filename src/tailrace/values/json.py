"""Converts MySQL's binary JSON (JSONB) to text, character for character as MySQL prints it.

Facts sheet section 3.2. Every offset is checked before it is used. The total of bytes read for a
document is limited, so a malformed one whose values share bytes cannot exhaust the memory.
"""

from __future__ import annotations

import base64
from contextlib import suppress
from json.encoder import encode_basestring
from math import isfinite
from struct import Struct
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

from tailrace.constants import ColumnType, JsonType
from tailrace.errors import EventDecodeError
from tailrace.values.decimals import number_text
from tailrace.values.floats import load_double
from tailrace.values.temporal import datetime_text, time_text

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DEPTH: Final = 100
"""Maximum nesting of containers: MySQL's own limit."""

_ARRAYS: Final = {JsonType.ARRAY, JsonType.LARGE_ARRAY}
_LARGE: Final = {JsonType.LARGE_OBJECT, JsonType.LARGE_ARRAY}
_LITERALS: Final = ("null", "true", "false")
_INTEGERS: Final[dict[int, tuple[int, bool]]] = {  # type: size, signed
    JsonType.INT16: (2, True),
    JsonType.UINT16: (2, False),
    JsonType.INT32: (4, True),
    JsonType.UINT32: (4, False),
    JsonType.INT64: (8, True),
    JsonType.UINT64: (8, False),
}
T = TypeVar("T")


class JsonText(str):
    """A JSON document as text: a str that is marked as JSON."""

    __slots__ = ()


class JsonBuilder(Protocol[T]):
    """Builds a result from a document's parts, innermost first."""

    def leaf(self, text: str) -> T:
        """A scalar, as JSON text."""

    def opaque(self, field: int, data: bytes) -> T:
        """A value of a type that JSON lacks: its column type and its bytes (`opaque_text`)."""

    def array(self, values: list[T]) -> T:
        """An array."""

    def object(self, members: list[tuple[str, T]]) -> T:
        """An object, with its keys in stored order."""


class _TextBuilder:
    """Text with MySQL's spacing."""

    def leaf(self, text: str) -> str:
        return text

    def opaque(self, field: int, data: bytes) -> str:
        return opaque_text(field, data)

    def array(self, values: list[str]) -> str:
        return f"[{', '.join(values)}]"

    def object(self, members: list[tuple[str, str]]) -> str:
        return "{" + ", ".join([f"{quoted(key)}: {value}" for key, value in members]) + "}"


TEXT: Final[JsonBuilder[str]] = _TextBuilder()


def load_json(data: bytes) -> JsonText:
    """A JSON column's value. Zero bytes mean JSON null.

    Raises `EventDecodeError` for bytes that are not JSONB.
    """
    return JsonText(read_jsonb(data, TEXT))


def read_jsonb(data: bytes, builder: JsonBuilder[T]) -> T:
    """Read a document with a given builder."""
    if not data:
        return builder.leaf("null")
    return _Reader(data, builder).value(data[0], 1, len(data), 1)


quoted: Final[Callable[[str], str]] = encode_basestring
"""A JSON string as MySQL and Python write it: only characters that must be escaped are."""


def double_text(value: float) -> str:
    """A double as MySQL writes it into JSON: the shortest digits that identify it.

    It has an exponent below 1e-15, and from 1e15 on if there is no digit after the point. Raises
    `EventDecodeError` for infinities and NaN, which JSON lacks.
    """
    if not isfinite(value):
        raise EventDecodeError(f"JSON: {value} is no number in JSON")
    text = repr(value)
    if "e" not in text and (abs(value) < 1e15 or not text.endswith(".0")):
        return text
    sign = "-" if text[0] == "-" else ""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)  # the decimal point, counted from the first digit
    digits = (whole + fraction).rstrip("0")  # repr gives no leading zero in this case
    if -14 <= point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1}"


class _Layout(NamedTuple):
    """The sizes of a container's parts: small ones have 2-byte offsets, large ones 4-byte ones."""

    head: Struct  # count, size
    key: Struct  # offset, length
    value: Struct  # type, offset or the value itself
    inlined: frozenset[int]


_SMALL_INLINED: Final = frozenset({JsonType.LITERAL, JsonType.INT16, JsonType.UINT16})
_LARGE_INLINED: Final = _SMALL_INLINED | {JsonType.INT32, JsonType.UINT32}
_SMALL_LAYOUT: Final = _Layout(Struct("<HH"), Struct("<HH"), Struct("<BH"), _SMALL_INLINED)
_LARGE_LAYOUT: Final = _Layout(Struct("<II"), Struct("<IH"), Struct("<BI"), _LARGE_INLINED)


class _Reader(Generic[T]):
    """Reads one document."""

    __slots__ = ("_budget", "_builder", "_data")

    def __init__(self, data: bytes, builder: JsonBuilder[T]) -> None:
        self._data = data
        self._builder = builder
        self._budget = len(data)

    def value(self, kind: int, start: int, end: int, depth: int) -> T:
        """The value of type ``kind`` whose bytes begin at ``start`` and end before ``end``."""
        if kind <= 3:
            return self._container(kind, start, end, depth)
        if kind == JsonType.OPAQUE:
            return self._builder.opaque(*self._opaque(start, end))
        return self._builder.leaf(self._scalar(kind, start, end))

    def _spend(self, start: int, size: int, end: int) -> None:
        """Check that ``size`` bytes exist, and that not too many bytes are read in total."""
        if start + size > end:
            raise EventDecodeError(f"JSON: {size} bytes at {start} end beyond {end}")
        self._budget -= size
        if self._budget < 0:
            raise EventDecodeError("JSON: values overlap")

    def _container(self, kind: int, base: int, limit: int, depth: int) -> T:
        """An array or object; its offsets count from its own first byte, ``base``."""
        if depth > MAX_DEPTH:
            raise EventDecodeError(f"JSON: nested deeper than {MAX_DEPTH}")
        head, key, value, inlined = _LARGE_LAYOUT if kind in _LARGE else _SMALL_LAYOUT
        is_array = kind in _ARRAYS
        data = self._data
        if base + head.size > limit:
            raise EventDecodeError(f"JSON: a container at {base} ends beyond {limit}")
        count, size = head.unpack_from(data, base)
        keys_size = 0 if is_array else count * key.size
        header = head.size + keys_size + count * value.size
        if size > limit - base or header > size:
            raise EventDecodeError(f"JSON: a container at {base} of {size} bytes, {count} values")
        self._spend(base, header, limit)
        end = base + size
        values_at = base + head.size + keys_size
        values = []
        for kind_, field in value.iter_unpack(data[values_at : base + header]):
            if kind_ in inlined:
                values.append(self._builder.leaf(_inlined(kind_, field)))
            elif header <= field <= size:
                values.append(self.value(kind_, base + field, end, depth + 1))
            else:
                raise EventDecodeError(f"JSON: a value at {field}, outside of its container")
        if is_array:
            return self._builder.array(values)
        keys = []
        for offset, length in key.iter_unpack(data[base + head.size : values_at]):
            if offset < header:
                raise EventDecodeError(f"JSON: a key at {offset}, before its container's values")
            keys.append(self._key(base + offset, length, end))
        return self._builder.object(list(zip(keys, values, strict=True)))

    def _key(self, start: int, length: int, end: int) -> str:
        self._spend(start, length, end)
        return self._text(start, length)

    def _scalar(self, kind: int, start: int, end: int) -> str:
        if kind == JsonType.LITERAL or kind in _INTEGERS:
            size = 1 if kind == JsonType.LITERAL else _INTEGERS[kind][0]
            self._spend(start, size, end)
            return _inlined(kind, int.from_bytes(self._data[start : start + size], "little"))
        if kind == JsonType.DOUBLE:
            self._spend(start, 8, end)
            return double_text(load_double(self._data[start : start + 8]))
        if kind == JsonType.STRING:
            start, size = self._varlen(start, end)
            return quoted(self._text(start, size))
        raise EventDecodeError(f"JSON: type {kind} does not exist")

    def _opaque(self, start: int, end: int) -> tuple[int, bytes]:
        self._spend(start, 1, end)
        field = self._data[start]
        start, size = self._varlen(start + 1, end)
        return field, self._data[start : start + size]

    def _varlen(self, start: int, end: int) -> tuple[int, int]:
        """A length with 7 bits per byte, and that many bytes after it: their offset and number."""
        size = 0
        for index in range(5):
            self._spend(start + index, 1, end)
            byte = self._data[start + index]
            size |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                if size > 0xFFFFFFFF:
                    break
                self._spend(start + index + 1, size, end)
                return start + index + 1, size
        raise EventDecodeError("JSON: a length of more than 32 bits")

    def _text(self, start: int, size: int) -> str:
        raw = self._data[start : start + size]
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise EventDecodeError(f"JSON: a string that is not utf8mb4 at {start}") from None


def _inlined(kind: int, field: int) -> str:
    """A literal or an integer from the field that holds it, in its lowest bytes."""
    if kind == JsonType.LITERAL:
        number = field & 0xFF
        if number >= len(_LITERALS):
            raise EventDecodeError(f"JSON: literal {number} does not exist")
        return _LITERALS[number]
    size, signed = _INTEGERS[kind]
    sign = 1 << (8 * size - 1)
    number = field & (2 * sign - 1)
    return str((number ^ sign) - sign if signed else number)


def _opaque_decimal(data: bytes) -> str:
    if len(data) < 2:
        raise EventDecodeError("JSON: a DECIMAL without precision and scale")
    return number_text(data[2:], data[0], data[1])


def _packed(data: bytes) -> int:
    if len(data) != 8:
        raise EventDecodeError(f"JSON: a time of {len(data)} bytes instead of 8")
    return int.from_bytes(data, "little", signed=True)


def _opaque_time(data: bytes) -> str:
    return f'"{time_text(_packed(data), 6)}"'


def _opaque_datetime(data: bytes) -> str:
    packed = _packed(data)
    if packed < 0:
        raise EventDecodeError("JSON: a DATETIME before year 0")
    return f'"{datetime_text(packed >> 24, packed & 0xFFFFFF, 6)}"'


def _opaque_date(data: bytes) -> str:
    return f'{_opaque_datetime(data)[:11]}"'


_OPAQUE_TEXT: Final[dict[int, Callable[[bytes], str]]] = {
    ColumnType.NEWDECIMAL: _opaque_decimal,
    ColumnType.TIME: _opaque_time,
    ColumnType.DATE: _opaque_date,
    ColumnType.DATETIME: _opaque_datetime,
    ColumnType.TIMESTAMP: _opaque_datetime,
}


def opaque_text(field: int, data: bytes) -> str:
    """A value of a type that JSON lacks: numbers and times as such, others in base64.

    MySQL makes VAR_STRING from text in utf16, utf16le, ucs2 and utf32: it keeps the bytes without
    the set's name, and prints them as if they were utf8mb4. Bytes that are not valid utf8mb4 are
    given in base64 here, as the server gives text that is truncated there, or invalid.
    """
    if field in _OPAQUE_TEXT:
        return _OPAQUE_TEXT[field](data)
    if field == ColumnType.VAR_STRING:
        with suppress(UnicodeDecodeError):
            return quoted(data.decode())
    encoded = base64.b64encode(data).decode("ascii")
    lines = [encoded[at : at + 76] for at in range(0, len(encoded), 76)]
    return f'"base64:type{field}:' + r"\n".join(lines) + '"'
