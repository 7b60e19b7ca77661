"""A query's columns from DB-API's ``cursor.description`` (PEP 249).

It has few details: no sign, no character set, no names of an ENUM. The rest comes from the table of
the columns, if it is given.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from tailrace.constants import ColumnType
from tailrace.errors import UnsupportedType
from tailrace.rows.collations import BINARY
from tailrace.rows.schema import BLOB_TYPES, STRING_TYPES, Column, Logical, TableSchema

if TYPE_CHECKING:
    from collections.abc import Sequence

_T = ColumnType
Described = tuple[Any, ...]
"""One column of a description: name, type code, display size, internal size, precision, scale,
whether it may be NULL; drivers may add fields."""

_SAME: Final = frozenset(
    {_T.TINY, _T.SHORT, _T.INT24, _T.LONG, _T.LONGLONG, _T.YEAR, _T.DATE, _T.NULL}
)
_SIZED: Final = {_T.FLOAT: 4, _T.DOUBLE: 8, _T.JSON: 4, _T.GEOMETRY: 4, _T.VECTOR: 4}
_FRACTIONAL: Final = {
    **dict.fromkeys((_T.TIME, _T.TIME2), _T.TIME2),
    **dict.fromkeys((_T.DATETIME, _T.DATETIME2), _T.DATETIME2),
    **dict.fromkeys((_T.TIMESTAMP, _T.TIMESTAMP2), _T.TIMESTAMP2),
}
_DECIMAL: Final = frozenset({_T.DECIMAL, _T.NEWDECIMAL})
_LOGICAL: Final = {
    _T.JSON: Logical.JSON,
    _T.GEOMETRY: Logical.GEOMETRY,
    _T.VECTOR: Logical.VECTOR,
}


class HasSchema(Protocol):
    """Anything with a table's schema, as `tailrace.schema.table.Table`."""

    @property
    def schema(self) -> TableSchema:
        """The table's schema for decoding its rows."""


def schema_of(
    description: Sequence[Described], table: TableSchema | None, sample: Sequence[Any]
) -> TableSchema:
    """The columns of a result as a separate table, in the result's order.

    A column that ``table`` has under the same name is taken from it. For others the description is
    used, and ``sample``, a value of each (None if there is none), which shows whether a string is
    text or bytes. Raises `UnsupportedType` for a type that needs the table.
    """
    columns: list[Column] = []
    places: dict[int, int] = {}
    for place, (entry, value) in enumerate(zip(description, sample, strict=True)):
        name = str(entry[0])
        index = None if table is None else table.index_of(name)
        if table is None or index is None:
            columns.append(_described(place, name, entry, value))
        else:
            places.setdefault(index, place)
            columns.append(replace(table.columns[index], index=place))
    if table is None:
        return TableSchema("", "", tuple(columns), names_from="given")
    key = tuple(places[index] for index in table.primary_key if index in places)
    return TableSchema(
        table.database,
        table.table,
        tuple(columns),
        key if len(key) == len(table.primary_key) else (),
        "given",
    )


def _described(place: int, name: str, entry: Described, value: Any) -> Column:
    code, size, precision, scale, nullable = entry[1], *entry[3:7]
    type_, metadata = _type_of(name, code, size, precision, scale)
    logical, collation = _LOGICAL.get(type_, Logical.PLAIN), None
    if type_ in STRING_TYPES:
        text = isinstance(value, str) or (value is None and type_ not in BLOB_TYPES)
        logical, collation = (Logical.TEXT, None) if text else (Logical.BINARY, BINARY)
    return Column(
        index=place,
        name=name,
        type=type_,
        metadata=metadata,
        nullable=nullable is not False,
        unsigned=False,
        collation=collation,
        members=None,
        logical=logical,
    )


def _type_of(
    name: str, code: Any, size: int | None, precision: int | None, scale: int | None
) -> tuple[ColumnType, int]:
    """Type and metadata, as a table map would have them."""
    try:
        type_ = _T(code)
    except ValueError:
        raise _unknown(name, f"type code {code!r}") from None
    if type_ in _SAME:
        return type_, 0
    if type_ in _SIZED:
        return type_, _SIZED[type_]
    if type_ in _FRACTIONAL:
        return _FRACTIONAL[type_], min(scale or 0, 6)
    if type_ in _DECIMAL and precision:
        digits = scale or 0  # the precision is a width: with a sign, and a point where it has one
        whole = max(precision - 1 - bool(digits), digits, 1)
        return _T.NEWDECIMAL, min(whole, 65) << 8 | digits
    if type_ is _T.BIT and size:
        return type_, size
    if type_ in BLOB_TYPES:
        most = size or 1 << 24
        return _T.BLOB, 1 + sum(most >= 1 << bits for bits in (8, 16, 24))
    if type_ is _T.STRING:
        return type_, min(size or 1020, 1023)
    if type_ in {_T.VARCHAR, _T.VAR_STRING}:
        return _T.VARCHAR, min(4 * (size or 16383), 65535)
    raise _unknown(name, type_.name)


def _unknown(name: str, what: str) -> UnsupportedType:
    return UnsupportedType(
        f"the description of column {name!r} ({what}) does not show how its values are stored; "
        "give its table: ResultSet(cursor, table)"
    )
