"""Chooses the dumper that encodes a column, once per column: the counterpart of the loaders.

A dumper takes what the loader gives and makes the same bytes from it, except for details that the
value does not have. These are: opaque values within JSON documents (their text is written as a
number or a string; so are integers of other widths than MySQL's JSON parser chooses), the error
value of an ENUM that has an empty name, empty names in a SET, and characters for which several
codes are read as one. Rows from a log are therefore passed on as bytes (`tailrace.rows.encode`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from tailrace.constants import ColumnType
from tailrace.errors import ValueRefused
from tailrace.printable import short_repr
from tailrace.rows.collations import BINARY, longest_character
from tailrace.rows.compressed import compressed_dumper
from tailrace.rows.decimals import decimal_dumper
from tailrace.rows.floats import double_dumper, float_dumper
from tailrace.rows.geometry import dump_geometry
from tailrace.rows.integers import INTEGER_SIZE, dump_year, integer_dumper
from tailrace.rows.jsonb import dump_json
from tailrace.rows.loaders import width_of
from tailrace.rows.network import dump_inet4, dump_inet6, dump_uuid
from tailrace.rows.old_temporal import old_datetime_dumper, old_time_dumper, old_timestamp_dumper
from tailrace.rows.schema import BLOB_TYPES, Column, Logical
from tailrace.rows.strings import (
    binary_dumper,
    bit_dumper,
    enum_dumper,
    set_dumper,
    text_dumper,
)
from tailrace.rows.temporal import datetime2_dumper, dump_date, time2_dumper, timestamp2_dumper
from tailrace.rows.user_values import given_bytes
from tailrace.rows.vector import dump_vector

_T = ColumnType
Dumper = Callable[[Any], bytes]
"""A Python object that is not None to the bytes of one value, without a length prefix."""

_FRACTIONAL: Final[dict[ColumnType, Callable[[int], Dumper]]] = {
    _T.TIME2: time2_dumper,
    _T.DATETIME2: datetime2_dumper,
    _T.TIMESTAMP2: timestamp2_dumper,
    _T.TIME: old_time_dumper,
    _T.DATETIME: old_datetime_dumper,
    _T.TIMESTAMP: old_timestamp_dumper,
}
_FIXED: Final[dict[ColumnType, Dumper]] = {
    _T.YEAR: dump_year,
    _T.DATE: dump_date,
    _T.NEWDATE: dump_date,
    _T.JSON: dump_json,
    _T.GEOMETRY: dump_geometry,
    _T.VECTOR: dump_vector,
}
_BY_LOGICAL: Final[dict[Logical, Dumper]] = {
    Logical.UUID: dump_uuid,
    Logical.INET4: dump_inet4,
    Logical.INET6: dump_inet6,
    Logical.VECTOR: dump_vector,
    Logical.GEOMETRY: dump_geometry,
}


def dumper_of(column: Column) -> Dumper:
    """The function that converts a Python object to a value's bytes (`UnsupportedType` if none
    can).

    It raises only `ValueRefused`, for a value that the column cannot hold exactly: nothing is
    rounded, truncated or replaced. The message says what was wrong, but not in which column:
    `tailrace.rows.encode` adds that.
    """
    width = width_of(column)  # raises for types that no row has
    type_, metadata = column.type, column.metadata
    if type_ in INTEGER_SIZE:
        return integer_dumper(INTEGER_SIZE[type_], unsigned=column.unsigned)
    if type_ in _FRACTIONAL:
        return _FRACTIONAL[type_](metadata)
    if type_ is _T.NEWDECIMAL:
        return decimal_dumper(*divmod(metadata, 256), unsigned=column.unsigned)
    if type_ is _T.FLOAT:
        return float_dumper(unsigned=column.unsigned)
    if type_ is _T.DOUBLE:
        return double_dumper(unsigned=column.unsigned)
    if type_ is _T.BIT:
        return bit_dumper(metadata)
    if type_ is _T.ENUM:
        return enum_dumper(column.members, metadata)
    if type_ is _T.SET:
        return set_dumper(column.members, metadata)
    if type_ is _T.NULL:
        return _no_value
    dumper = _FIXED.get(type_) or _string_dumper(column)
    if type_ is _T.VARCHAR_COMPRESSED:
        return compressed_dumper(dumper, metadata - 1, metadata)
    if type_ is _T.BLOB_COMPRESSED:
        room = (1 << 8 * metadata) - 1
        return compressed_dumper(dumper, room, room)
    if not width.prefix:
        return dumper
    return _limited(dumper, (1 << 8 * width.prefix) - 1 if _is_blob(type_) else metadata)


def _is_blob(type_: ColumnType) -> bool:
    """Whether the metadata is the number of length bytes, not the maximum length."""
    return type_ in BLOB_TYPES or type_ in _FIXED


def _string_dumper(column: Column) -> Dumper:
    type_, logical, metadata = column.type, column.logical, column.metadata
    if logical is Logical.VECTOR and not _is_blob(type_):
        return _exact_vector(metadata)
    if logical in _BY_LOGICAL:
        return _BY_LOGICAL[logical]
    if logical is Logical.BINARY:
        return binary_dumper(metadata) if type_ is _T.STRING else given_bytes
    longest = None
    if type_ not in BLOB_TYPES and column.collation not in {None, BINARY}:
        most = metadata - 1 if type_ is _T.VARCHAR_COMPRESSED else metadata
        longest = most // longest_character(column.collation or BINARY)
    text = text_dumper(column.charset, longest=longest, trims=type_ is _T.STRING)
    if logical is Logical.JSON:
        return lambda value: text(_json_text(value))
    return text


def _exact_vector(size: int) -> Dumper:
    """MariaDB's VECTOR, which has exactly the declared number of elements."""

    def dump_exact_vector(value: Any) -> bytes:
        data = dump_vector(value)
        if len(data) != size:
            raise ValueRefused(f"{len(data) // 4} numbers, the VECTOR has {size // 4}")
        return data

    return dump_exact_vector


def _limited(dumper: Dumper, most: int) -> Dumper:
    def dump_limited(value: Any) -> bytes:
        data = dumper(value)
        if len(data) > most:
            raise ValueRefused(f"{len(data)} bytes, the column holds {most}")
        return data

    return dump_limited


def _json_text(value: Any) -> str:
    """MariaDB's JSON is text: a str is kept as it is, objects become JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueRefused(f"{short_repr(value)} cannot be written as JSON: {error}") from None


def _no_value(value: Any) -> bytes:
    raise ValueRefused(f"{short_repr(value)}: the column's type has NULL only")
