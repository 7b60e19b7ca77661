"""The rows of a query's result, as rows of a log: WL#3283, "Row set and value interface".

A DB-API cursor's ``description`` (PEP 249) has few details of its columns: no sign, no character
set, no names of an ENUM. The rest comes from the table of the columns, if it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from tailrace.constants import ColumnType
from tailrace.errors import LogError, UnsupportedType, UsageError, ValueRejected
from tailrace.values.charsets import BINARY, charset_of, decode
from tailrace.values.image import Image, ImageSource, decoder_of
from tailrace.values.registry import dumper_of
from tailrace.values.row import Row
from tailrace.values.schema import (
    BLOB_TYPES,
    STRING_TYPES,
    Column,
    Logical,
    TableSchema,
    logical_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
_BATCH: Final = 1000


class HasSchema(Protocol):
    """Anything with a table's schema, as `tailrace.schema.table.Table`."""

    @property
    def schema(self) -> TableSchema:
        """The table's schema for decoding its rows."""


class DbCursor(Protocol):
    """The interface that a DB-API cursor must have (PEP 249)."""

    @property
    def description(self) -> Sequence[Described] | None:
        """The result's columns; None if there is no result."""

    def fetchmany(self, size: int = ...) -> Sequence[Any]:
        """The next rows: sequences, or mappings by name; empty at the end."""


class ResultSet:
    """The rows of a query that was executed by a DB-API cursor (the worklog's ``Result_set``).

    They are `Row`s as `RowSet` gives them, with ``kind`` "select". Each value is encoded as its
    column stores it. ``table`` (a `Table`, or a `TableSchema`) adds what the cursor's description
    lacks: sign, character set, names of ENUM and SET, sizes. Columns are found in it by name. With
    it, a value equals the one in the log. Like the cursor, it can be iterated only once.

    TIMESTAMPs are interpreted as UTC: execute ``SET time_zone = '+00:00'`` before the query.
    Servers print only six digits of a FLOAT; ``SELECT f + 0e0 AS f`` gives all of them.

    Raises `UsageError` for a cursor without a result, `UnsupportedType` if only the table can
    determine a column's type, and `ValueRejected` for a value that the column cannot hold.
    """

    def __init__(self, cursor: DbCursor, table: TableSchema | HasSchema | None = None) -> None:
        if cursor.description is None:
            raise UsageError("the cursor has no result: execute a query first")
        self._cursor = cursor
        self._names = [str(entry[0]) for entry in cursor.description]
        self._batch = self._fetch()
        self._has_table = table is not None
        known = table if table is None or isinstance(table, TableSchema) else table.schema
        sample = [
            next((record[place] for record in self._batch if record[place] is not None), None)
            for place in range(len(self._names))
        ]
        self.schema = _schema_of(cursor.description, known, sample)
        """The result's columns, as a separate table."""

    def __iter__(self) -> Iterator[Row]:
        count = len(self.schema.columns)
        plan = decoder_of(self.schema).plan(((1 << count) - 1).to_bytes((count + 7) // 8, "little"))
        dumpers = [_dumper(column) for column in self.schema.columns]
        number = 0
        while self._batch:
            batch, self._batch = self._batch, []
            for record in batch:
                values, spans, data = plan.blank.copy(), {}, bytearray()
                for index, (value, dump) in enumerate(zip(record, dumpers, strict=True)):
                    if value is None:
                        values[index] = None
                        continue
                    start = len(data)
                    try:
                        data += dump(value)
                    except (LogError, ValueRejected) as error:
                        raise self._placed(error, index, number) from None
                    spans[index] = (start, len(data))
                image = Image(plan.table, values, ImageSource(None, bytes(data)), spans)
                yield Row("select", None, image, number)
                number += 1
            self._batch = self._fetch()

    def _fetch(self) -> list[Sequence[Any]]:
        return [
            [record[name] for name in self._names] if isinstance(record, Mapping) else record
            for record in self._cursor.fetchmany(_BATCH)
        ]

    def _placed(self, error: LogError | ValueRejected, index: int, number: int) -> Exception:
        """The error, with the value's position in the result added."""
        told = "" if self._has_table else "; give the table of these columns for their types"
        column = self.schema.columns[index].name
        error.message = f"row {number + 1} of the result, {column}: {error.message}{told}"
        return error


def _dumper(column: Column) -> Callable[[Any], bytes]:
    """A column's dumper, for drivers' values: bytes of a BIT, and `_member`."""
    dump = dumper_of(column)
    if column.type is _T.BIT:
        return lambda value: dump(
            int.from_bytes(value, "big") if isinstance(value, (bytes, bytearray)) else value
        )
    if column.type in {_T.ENUM, _T.SET}:
        return lambda value: dump(_member(value))
    return dump


def _member(value: Any) -> Any:
    """A value of an ENUM or SET: drivers give a Python set, and bytes if its character set is
    ``binary``.
    """
    if isinstance(value, (bytes, bytearray)):
        return decode(charset_of(BINARY), bytes(value))
    return ",".join(value) if isinstance(value, (set, frozenset)) else value


def _schema_of(
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
    logical, collation = logical_of(type_), None
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
