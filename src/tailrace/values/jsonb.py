"""MySQL's binary JSON (JSONB), read and written as MySQL does, to the character and the byte.

Facts sheet section 3.2; MySQL ``sql-common/json_binary.cc``. Every offset is checked before it is
used. The total of bytes read for a document is limited, so a malformed one whose values share bytes
cannot exhaust the memory. Values of SQL types within documents (opaque ones) are written only from
Python objects: Decimal, date, datetime, time, timedelta. In text they are a number or a string, and
are written as such.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from json.encoder import encode_basestring
from math import isfinite
from struct import Struct
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    NamedTuple,
    NoReturn,
    Protocol,
    TypeAlias,
    TypeVar,
    Union,
)

from tailrace.constants import ColumnType, JsonType
from tailrace.errors import EventDecodeError, ValueRejected
from tailrace.printable import short_repr
from tailrace.values.decimals import (
    decimal_packer,
    given_decimal,
    holds_number,
    number_text,
    unscaled,
)
from tailrace.values.floats import load_double
from tailrace.values.temporal import datetime_text, packed_datetime, packed_time, time_text

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


class Leaf(NamedTuple):
    """A scalar of a document as JSON text; an opaque one also has its column type and bytes."""

    text: str
    opaque: tuple[int, bytes] | None = None


class Members:
    """An object: its members in stored order, found by key in the same time whatever their number.

    MySQL orders keys by size, then by bytes: so they are once a key was added.
    """

    __slots__ = ("_added", "_members", "_places")

    def __init__(self, members: list[tuple[str, Node]]) -> None:
        self._members: list[tuple[str, Node] | None] = [*members]
        self._places: dict[str, list[int]] | None = None
        self._added = False

    @property
    def members(self) -> list[tuple[str, Node]]:
        """The keys and values."""
        members = [member for member in self._members if member is not None]
        if self._added:
            members.sort(key=lambda member: _key_order(member[0]))
        return members

    def _find(self, key: str) -> list[int]:
        """Where the key is, the first place last: damaged documents have a key more than once."""
        if self._places is None:
            self._places = {}
            for place in reversed(range(len(self._members))):
                if (member := self._members[place]) is not None:
                    self._places.setdefault(member[0], []).append(place)
        return self._places.setdefault(key, [])

    def __contains__(self, key: str) -> bool:
        return bool(self._find(key))

    def __getitem__(self, key: str) -> Node:
        member = self._members[self._find(key)[-1]]
        return member[1] if member is not None else []

    def __setitem__(self, key: str, value: Node) -> None:
        places = self._find(key)
        if places:
            self._members[places[-1]] = key, value
        else:
            self._added = True
            places.append(len(self._members))
            self._members.append((key, value))

    def __delitem__(self, key: str) -> None:
        self._members[self._find(key).pop()] = None


Node: TypeAlias = Union[Leaf, "list[Node]", Members]


class _TreeBuilder:
    """Builds a document as a tree that can be changed."""

    def leaf(self, text: str) -> Node:
        return Leaf(text)

    def opaque(self, field: int, data: bytes) -> Node:
        return Leaf(opaque_text(field, data), (field, data))

    def array(self, values: list[Node]) -> Node:
        return values

    def object(self, members: list[tuple[str, Node]]) -> Node:
        return Members(members)


TREE: Final[JsonBuilder[Node]] = _TreeBuilder()


def _key_order(key: str) -> tuple[int, bytes]:
    raw = key.encode()
    return len(raw), raw


_MOST: Final = 0xFFFF
"""Maximum bytes or values of a small container, and maximum bytes of a key."""
_MOST_LARGE: Final = 0xFFFFFFFF
_LITERAL_BYTES: Final = {None: b"\0", True: b"\1", False: b"\2"}
_DOUBLE: Final = Struct("<d")
_I64: Final = Struct("<q")

Value = tuple[int, bytes]
"""A value's type and its bytes."""


def dump_json(value: Any) -> bytes:
    """A JSON column's value: a str is a document's text, anything else is built from Python
    objects.

    Objects: dict (names are str), list and tuple, str, int, float, bool, None. Decimal, date,
    datetime (without a zone), time and timedelta become what MySQL makes from such SQL values.
    `ValueRejected` for anything else, for text that MySQL does not accept as JSON, and for
    documents beyond its limits: 100 levels, names of 65535 bytes, numbers that no double holds.
    """
    return encode_jsonb(parse_json(value) if isinstance(value, str) else value)


def encode_jsonb(value: Any) -> bytes:
    """A document of Python objects, or of a tree's nodes; `ValueRejected` as `dump_json`."""
    kind, data = _value(value, 1)
    return bytes([kind]) + data


def parse_json(text: str) -> Any:
    """A document's text to Python objects, with numbers as MySQL reads them; `ValueRejected`."""
    try:
        return json.loads(text, parse_int=_integer, parse_constant=_reject)
    except RecursionError:
        raise ValueRejected(f"JSON: nested deeper than {MAX_DEPTH}") from None
    except ValueRejected:
        raise
    except ValueError as error:
        raise ValueRejected(f"{short_repr(text)} is no JSON: {error}") from None


def _integer(text: str) -> int | float:
    """A number without point and exponent: a double if it does not fit in 64 bits."""
    if len(text) > 20:
        return float(text)
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 64 else float(text)


def _reject(name: str) -> NoReturn:
    raise ValueRejected(f"JSON has no {name}")


def _value(value: Any, depth: int) -> Value:
    if isinstance(value, str):
        data = _utf8(value)
        return JsonType.STRING, _varlen(len(data)) + data
    if value is None or isinstance(value, bool):
        return JsonType.LITERAL, _LITERAL_BYTES[value]
    if isinstance(value, int):
        return _whole(int(value))
    if isinstance(value, float):
        if not isfinite(value):
            raise ValueRejected(f"JSON has no number {value}")
        return JsonType.DOUBLE, _DOUBLE.pack(value)
    if isinstance(value, Leaf):
        return _value(parse_json(value.text), depth) if value.opaque is None else _raw(value.opaque)
    if isinstance(value, (Members, Mapping, list, tuple)):
        return _of_container(value, depth)
    return _opaque(value)


def _of_container(
    value: Members | Mapping[Any, Any] | list[Any] | tuple[Any, ...], depth: int
) -> Value:
    if depth > MAX_DEPTH:
        raise ValueRejected(f"JSON: nested deeper than {MAX_DEPTH}")
    if isinstance(value, Members):  # in stored order
        members = value.members
        keys = [_name(key)[1] for key, _ in members]
        return _container(keys, [_value(child, depth + 1) for _, child in members])
    if not isinstance(value, Mapping):
        return _container(None, [_value(child, depth + 1) for child in value])
    names = sorted((*_name(name), name) for name in value)
    values = [_value(value[name], depth + 1) for _, _, name in names]
    return _container([data for _, data, _ in names], values)


def _name(key: Any) -> tuple[int, bytes]:
    """A member's name as a sort key: by its length in bytes, then by its bytes."""
    if not isinstance(key, str):
        raise ValueRejected(f"JSON: the name {short_repr(key)} is not text")
    data = _utf8(key)
    if len(data) > _MOST:
        raise ValueRejected(f"JSON: a name of {len(data)} bytes, {_MOST} are allowed")
    return len(data), data


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueRejected(f"JSON: {short_repr(text)} holds half a surrogate pair") from None


def _varlen(number: int) -> bytes:
    """A length with 7 bits per byte, lowest first."""
    if number > _MOST_LARGE:
        raise ValueRejected(f"JSON: a value of {number} bytes")
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def _whole(number: int) -> Value:
    """As in MySQL's parser, a number above 32 bits without a sign is unsigned."""
    if not -(1 << 63) <= number < 1 << 64:
        raise ValueRejected(f"JSON: {short_repr(number)} does not fit into 64 bits")
    if number > _MOST_LARGE:
        return JsonType.UINT64, number.to_bytes(8, "little")
    for kind, size in ((JsonType.INT16, 2), (JsonType.INT32, 4)):
        limit = 1 << 8 * size - 1
        if -limit <= number < limit:
            return kind, number.to_bytes(size, "little", signed=True)
    return JsonType.INT64, _I64.pack(number)


def _container(keys: list[bytes] | None, values: list[Value]) -> Value:
    """An array (no keys) or an object, small if possible."""
    kind = JsonType.ARRAY if keys is None else JsonType.OBJECT
    data = _laid_out(keys, values, 2, _SMALL_LAYOUT.inlined, _MOST)
    if data is None:
        kind = JsonType.LARGE_ARRAY if keys is None else JsonType.LARGE_OBJECT
        data = _laid_out(keys, values, 4, _LARGE_LAYOUT.inlined, _MOST_LARGE)
        if data is None:
            raise ValueRejected("JSON: a document of more than 4 GiB")
    return kind, data


def _laid_out(
    keys: list[bytes] | None, values: list[Value], width: int, inlined: frozenset[int], most: int
) -> bytes | None:
    """Count, size, key entries, value entries, keys, values; None if it exceeds the maximum.

    Offsets have ``width`` bytes and count from the container's first byte.
    """
    size = 2 * width + len(values) * (1 + width)
    size += sum(len(data) for kind, data in values if kind not in inlined)
    names = b""
    if keys is not None:
        names = b"".join(keys)
        size += len(keys) * (width + 2) + len(names)
    if size > most or len(values) > most:
        return None
    at = 2 * width + len(values) * (1 + width) + len(keys or ()) * (width + 2)
    parts = [len(values).to_bytes(width, "little"), size.to_bytes(width, "little")]
    for key in keys or ():
        parts += at.to_bytes(width, "little"), len(key).to_bytes(2, "little")
        at += len(key)
    tail = [names]
    for kind, data in values:
        parts.append(bytes([kind]))
        if kind in inlined:
            parts.append(_in_place(kind, data, width))
        else:
            parts.append(at.to_bytes(width, "little"))
            tail.append(data)
            at += len(data)
    return b"".join(parts + tail)


def _in_place(kind: int, data: bytes, width: int) -> bytes:
    """A literal or an integer, stored in place of its offset."""
    negative = kind != JsonType.LITERAL and data[-1] & 0x80
    return data.ljust(width, b"\xff" if negative else b"\0")


def _opaque(value: Any) -> Value:
    if isinstance(value, Decimal):
        kind, data = ColumnType.NEWDECIMAL, _decimal(value)
    elif isinstance(value, datetime):
        packed, microsecond = packed_datetime(value, 6)
        kind, data = ColumnType.DATETIME, _I64.pack(packed << 24 | microsecond)
    elif isinstance(value, date):
        kind, data = ColumnType.DATE, _I64.pack(packed_datetime(value, 6)[0] << 24)
    elif isinstance(value, (time, timedelta)):
        kind, data = ColumnType.TIME, _I64.pack(packed_time(value, 6))
    else:
        raise ValueRejected(f"JSON has no {type(value).__name__} like {short_repr(value)}")
    return _raw((kind, data))


def _raw(opaque: tuple[int, bytes]) -> Value:
    kind, data = opaque
    return JsonType.OPAQUE, bytes([kind]) + _varlen(len(data)) + data


def _decimal(value: Decimal) -> bytes:
    """Precision, scale, packed digits; like a literal's, with at least one digit before the
    point.
    """
    number = given_decimal(value)
    _, digits, exponent = number.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(1, len(digits) + int(exponent)) + scale
    if not holds_number(precision, scale):
        raise ValueRejected(
            f"JSON: {short_repr(value)} has more digits than MySQL's numbers, 81 at most"
        )
    packed = decimal_packer(precision, scale)(unscaled(number, precision, scale))
    return bytes([precision, scale]) + packed
