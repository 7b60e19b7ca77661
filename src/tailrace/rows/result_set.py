"""The rows of a query's result, as rows of a log: WL#3283, "Row set and value interface"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from tailrace.constants import ColumnType
from tailrace.errors import LogError, UsageError
from tailrace.rows.cursor_description import Described, HasSchema, schema_of
from tailrace.rows.dumpers import dumper_of
from tailrace.rows.image import Image, ImageSource, decoder_of
from tailrace.rows.row import Row
from tailrace.rows.schema import TableSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tailrace.rows.schema import Column

_BATCH: Final = 1000


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
    determine a column's type, and `ValueRefused` for a value that the column cannot hold.
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
        self.schema = schema_of(cursor.description, known, sample)
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
                    except LogError as error:
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

    def _placed(self, error: LogError, index: int, number: int) -> LogError:
        """The error, with the value's position in the result added."""
        told = "" if self._has_table else "; give the table of these columns for their types"
        column = self.schema.columns[index].name
        error.message = f"row {number + 1} of the result, {column}: {error.message}{told}"
        return error


def _dumper(column: Column) -> Callable[[Any], bytes]:
    """A column's dumper, for drivers' values: bytes of a BIT, names of a SET as a Python set."""
    dump = dumper_of(column)
    if column.type is ColumnType.BIT:
        return lambda value: dump(
            int.from_bytes(value, "big") if isinstance(value, (bytes, bytearray)) else value
        )
    if column.type is ColumnType.SET:
        return lambda value: dump(",".join(value) if isinstance(value, (set, frozenset)) else value)
    return dump
