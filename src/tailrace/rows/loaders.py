"""Chooses the loader that decodes a column, and the width of its values, once per column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tailrace.constants import ColumnType
from tailrace.errors import UnsupportedType
from tailrace.rows.compressed import compressed_loader
from tailrace.rows.decimals import decimal_loader, decimal_size
from tailrace.rows.floats import load_double, load_float
from tailrace.rows.geometry import load_geometry
from tailrace.rows.integers import INTEGER_SIZE, integer_loader, load_year
from tailrace.rows.json import JsonText, load_json
from tailrace.rows.network import load_inet4, load_inet6, load_uuid
from tailrace.rows.old_temporal import (
    old_datetime_loader,
    old_datetime_size,
    old_time_loader,
    old_time_size,
    old_timestamp_loader,
    old_timestamp_size,
)
from tailrace.rows.schema import BLOB_TYPES, STRING_TYPES, Column, Logical
from tailrace.rows.strings import (
    binary_loader,
    enum_loader,
    load_bit,
    load_bytes,
    set_loader,
    text_loader,
)
from tailrace.rows.temporal import (
    datetime2_loader,
    fraction_size,
    load_date,
    time2_loader,
    timestamp2_loader,
)
from tailrace.rows.vector import load_vector

_T = ColumnType
Loader = Callable[[bytes], Any]
"""The bytes of one value, without a length prefix, to a Python object."""


class Width(NamedTuple):
    """The width of a value: ``size`` bytes, or a length of ``prefix`` bytes followed by the
    value.
    """

    size: int
    prefix: int


_FIXED: Final[dict[ColumnType, tuple[int, Loader]]] = {
    _T.YEAR: (1, load_year),
    _T.FLOAT: (4, load_float),
    _T.DOUBLE: (8, load_double),
    _T.DATE: (3, load_date),
    _T.NEWDATE: (3, load_date),
}
_FRACTIONAL: Final[dict[ColumnType, tuple[Callable[[int], int], Callable[[int], Loader]]]] = {
    _T.TIME2: (lambda digits: 3 + fraction_size(digits), time2_loader),
    _T.DATETIME2: (lambda digits: 5 + fraction_size(digits), datetime2_loader),
    _T.TIMESTAMP2: (lambda digits: 4 + fraction_size(digits), timestamp2_loader),
    _T.TIME: (old_time_size, old_time_loader),
    _T.DATETIME: (old_datetime_size, old_datetime_loader),
    _T.TIMESTAMP: (old_timestamp_size, old_timestamp_loader),
}
_BY_LOGICAL: Final[dict[Logical, Loader]] = {
    Logical.UUID: load_uuid,
    Logical.INET4: load_inet4,
    Logical.INET6: load_inet6,
    Logical.VECTOR: load_vector,
    Logical.GEOMETRY: load_geometry,
}
_PREFIXED: Final[dict[ColumnType, Loader]] = {
    _T.JSON: load_json,
    _T.GEOMETRY: load_geometry,
    _T.VECTOR: load_vector,
}


def width_of(column: Column) -> Width:
    """The width of a column's values in a row image.

    Raises `UnsupportedType` for types that no row image has, and for metadata that is invalid for
    its type.
    """
    type_, metadata = column.type, column.metadata
    if type_ in INTEGER_SIZE:
        return Width(INTEGER_SIZE[type_], 0)
    if type_ in _FIXED:
        return Width(_FIXED[type_][0], 0)
    if type_ in _FRACTIONAL:
        return Width(_FRACTIONAL[type_][0](metadata), 0)
    if type_ is _T.NEWDECIMAL:
        return Width(decimal_size(*divmod(metadata, 256)), 0)
    if type_ is _T.BIT and 0 < metadata <= 64:
        return Width((metadata + 7) // 8, 0)
    if (type_ is _T.ENUM and 1 <= metadata <= 2) or (type_ is _T.SET and 1 <= metadata <= 8):
        return Width(metadata, 0)
    if type_ is _T.NULL:
        return Width(0, 0)
    if (type_ in BLOB_TYPES or type_ in _PREFIXED) and 1 <= metadata <= 4:
        return Width(0, metadata)
    if type_ in STRING_TYPES and type_ not in BLOB_TYPES:
        return Width(0, 1 if metadata < 256 else 2)
    raise _unsupported(column)


def loader_of(column: Column) -> Loader:
    """The function that converts a value's bytes to a Python object (`UnsupportedType` if none
    can).

    It may rely on the number of bytes matching `width_of`. It raises only Tailrace's errors.
    """
    type_, metadata = column.type, column.metadata
    if type_ in INTEGER_SIZE:
        return integer_loader(unsigned=column.unsigned)
    if type_ in _FIXED:
        return _FIXED[type_][1]
    if type_ in _FRACTIONAL:
        return _FRACTIONAL[type_][1](metadata)
    if type_ is _T.NEWDECIMAL:
        return decimal_loader(*divmod(metadata, 256))
    if type_ is _T.BIT:
        return load_bit
    if type_ is _T.ENUM:
        return enum_loader(column.members)
    if type_ is _T.SET:
        return set_loader(column.members)
    if type_ is _T.NULL:
        return _no_value
    if type_ in _PREFIXED:
        return _PREFIXED[type_]
    if type_ in STRING_TYPES:
        return _string_loader(column)
    raise _unsupported(column)


def _string_loader(column: Column) -> Loader:
    type_, logical = column.type, column.logical
    if logical in _BY_LOGICAL:
        loader = _BY_LOGICAL[logical]
    elif logical is Logical.BINARY:
        loader = binary_loader(column.metadata) if type_ is _T.STRING else load_bytes
    elif logical is Logical.JSON:
        text = text_loader(column.charset)
        loader = lambda data: JsonText(text(data))  # noqa: E731  # a loader like its siblings
    else:
        loader = text_loader(column.charset)
    if type_ in COMPRESSED_TYPES:
        return compressed_loader(loader, longest_uncompressed(column))
    return loader


COMPRESSED_TYPES: Final = frozenset({_T.BLOB_COMPRESSED, _T.VARCHAR_COMPRESSED})


def longest_uncompressed(column: Column) -> int:
    """Maximum bytes of a value in a MariaDB compressed column."""
    if column.type is _T.BLOB_COMPRESSED:
        return (1 << 8 * column.metadata) - 1
    return column.metadata


def _no_value(_data: bytes) -> None:
    return None


def _unsupported(column: Column) -> UnsupportedType:
    return UnsupportedType(
        f"column {column.name} is of type {column.type.name} with metadata {column.metadata}, "
        "which no row image has; leave its table out to continue"
    )
