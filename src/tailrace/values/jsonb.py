"""Converts JSON documents to MySQL's binary JSON (JSONB), byte for byte as MySQL writes them.

Facts sheet section 3.2; MySQL ``sql-common/json_binary.cc``. A document's text is written as MySQL
writes that text. Values of SQL types within documents (opaque ones) come only from Python objects:
Decimal, date, datetime, time, timedelta. In text they are a number or a string, and are written as
such.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tailrace.constants import ColumnType, Flavour, JsonType
from tailrace.errors import EventDecodeError, ValueRejected
from tailrace.printable import short_repr
from tailrace.values.decimals import decimal_packer, given_decimal, holds_number, unscaled
from tailrace.values.family import Declaration, Format, TypeFamily, prefixed, text_json
from tailrace.values.json import MAX_DEPTH, JsonText, load_json
from tailrace.values.json_diff import Leaf, Members, changed_tree
from tailrace.values.schema import BLOB_TYPES, Logical
from tailrace.values.strings import blob_type, text_dumper, text_loader
from tailrace.values.surrogates import in_json
from tailrace.values.temporal import packed_datetime, packed_time

if TYPE_CHECKING:
    from tailrace.events.column_metadata import ColumnSpec
    from tailrace.values.family import Declared, Dumper, Loader
    from tailrace.values.schema import Column

_LITERALS: Final = {None: b"\0", True: b"\1", False: b"\2"}
_SMALL_INLINED: Final = frozenset({JsonType.LITERAL, JsonType.INT16})
_LARGE_INLINED: Final = frozenset({JsonType.LITERAL, JsonType.INT16, JsonType.INT32})
_MOST: Final = 0xFFFF
"""Maximum bytes or values of a small container, and maximum bytes of a key."""
_MOST_LARGE: Final = 0xFFFFFFFF
_F64: Final = Struct("<d")
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
    return _whole_document(parse_json(value) if isinstance(value, str) else value)


def changed_json(before: bytes, diffs: bytes) -> bytes:
    """The document after a partial update, from JSONB to JSONB.

    Opaque values are kept; the gaps that MySQL leaves in updated documents are removed. Raises
    `EventDecodeError` for diffs that do not fit.
    """
    try:
        return _whole_document(changed_tree(before, diffs))
    except ValueRejected as error:  # a document that no server would have made
        raise EventDecodeError(error.message) from None


def _whole_document(value: Any) -> bytes:
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
        return JsonType.LITERAL, _LITERALS[value]
    if isinstance(value, int):
        return _whole(int(value))
    if isinstance(value, float):
        if not isfinite(value):
            raise ValueRejected(f"JSON has no number {value}")
        return JsonType.DOUBLE, _F64.pack(value)
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
    data = _laid_out(keys, values, 2, _SMALL_INLINED, _MOST)
    if data is None:
        kind = JsonType.LARGE_ARRAY if keys is None else JsonType.LARGE_OBJECT
        data = _laid_out(keys, values, 4, _LARGE_INLINED, _MOST_LARGE)
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
            parts.append(_inlined(kind, data, width))
        else:
            parts.append(at.to_bytes(width, "little"))
            tail.append(data)
            at += len(data)
    return b"".join(parts + tail)


def _inlined(kind: int, data: bytes, width: int) -> bytes:
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


def _text_loader(column: Column) -> Loader:
    load = text_loader(column)
    return lambda data: JsonText(load(data))


def _text_dumper(column: Column) -> Dumper:
    """MariaDB's JSON is text: a str is kept as it is, objects become JSON."""
    dump = text_dumper(column)
    return lambda value: dump(value if isinstance(value, str) else _text_of(value))


def _text_of(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueRejected(f"{short_repr(value)} cannot be written as JSON: {error}") from None


JSON_SPACE: Final = " \t\n\r"
"""The whitespace that may surround a document."""
_LINE_ENDS: Final = re.compile(r"[\r\n]")


def _no_constant(name: str) -> None:
    raise ValueError(name)


def declared_json(value: str) -> str:
    """A MariaDB document as JSON. It is text from a user and is kept as it is.

    Text that is not valid JSON becomes a string. Line breaks in JSON can only be between values;
    they become spaces, as a record is one line.
    """
    try:
        json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return in_json(text_json(value))
    return in_json(_LINE_ENDS.sub(" ", value))


_MARIADB_COLLATION: Final = 46  # utf8mb4_bin


def _spec(declared: Declared) -> ColumnSpec:
    """MySQL has a type for it; MariaDB's is LONGTEXT."""
    if declared.flavour is Flavour.MYSQL:
        return declared.spec(ColumnType.JSON, 4)
    spec = declared.text(blob_type(declared), 4)
    known = declared.column.collation is not None
    return spec if known else replace(spec, collation=_MARIADB_COLLATION)


FAMILY: Final = TypeFamily(
    widths={ColumnType.JSON: prefixed},
    formats={
        ColumnType.JSON: Format.of(load_json, dump_json),
        Logical.JSON: Format(_text_loader, _text_dumper, lambda _column: declared_json),
    },
    names={
        "json": Declaration("json", BLOB_TYPES | {ColumnType.JSON}, _spec, Logical.JSON),
    },
)
