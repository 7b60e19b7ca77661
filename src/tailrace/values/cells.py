"""Converts rows from a user to the bytes of each column: the cells that images consist of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from tailrace.errors import LogError, SchemaError, UnknownColumn, ValueRejected
from tailrace.printable import short_repr
from tailrace.values.image import ABSENT, Image
from tailrace.values.registry import dumper_of, width_of
from tailrace.values.value import Value, interpreted

if TYPE_CHECKING:
    from tailrace.values.family import Dumper
    from tailrace.values.row import Row
    from tailrace.values.schema import Column, TableSchema

Cells: TypeAlias = list[Any]
"""For each column of the table its bytes, including the length prefix; None for NULL; `ABSENT` if
the row does not give the column."""
GivenRow: TypeAlias = "Mapping[str, Any] | Sequence[Any] | Image | Row"
"""A row: values by column name, values in the table's order, or a row from a log's row set. Values
are Python objects, or a row set's `Value`s."""


class CellWriter:
    """Makes cells for the rows of one table; the columns' encodings are determined once.

    Raises `UnsupportedType` for a table with a column type that no row image has.
    """

    __slots__ = ("_alike", "_dumpers", "_index", "_nullable", "_prefixes", "name", "schema")

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.name = f"{schema.database}.{schema.table}"
        try:
            self._prefixes = [width_of(column).prefix for column in schema.columns]
            self._dumpers: list[Dumper] = [dumper_of(column) for column in schema.columns]
        except SchemaError as error:
            raise type(error)(f"{self.name}: {error}") from None
        self._nullable = [column.nullable for column in schema.columns]
        self._index = {column.name: column.index for column in schema.columns}
        self._alike: tuple[TableSchema, bool] = schema, True

    def cells(self, row: Any) -> Cells:
        """The cells of a mapping, a sequence or an image.

        These are rejected: a name that the table does not have (`UnknownColumn`), a sequence of
        another length, NULL in a column that is NOT NULL, and values that their columns cannot hold
        (`ValueRejected`, naming the column). The bytes of an image of the same table are used as
        they are.
        """
        kind = type(row)
        if kind is tuple or kind is list:  # a check of an abstract class takes as long as a value
            return self._of_sequence(row)
        if isinstance(row, Image):
            return self._of_image(row)
        if isinstance(row, Mapping):
            return self._of_mapping(row)
        if isinstance(row, Sequence) and not isinstance(row, (str, bytes, bytearray, memoryview)):
            return self._of_sequence(row)
        raise ValueRejected(
            f"{self.name}: {short_repr(row)} is no row: give values by name, or in the table's"
            " order"
        )

    def _of_sequence(self, row: Sequence[Any]) -> Cells:
        dumpers, prefixes = self._dumpers, self._prefixes
        if len(row) != len(dumpers):
            raise ValueRejected(
                f"{self.name}: a row of {len(row)} values, the table has {len(dumpers)} columns"
            )
        cells: Cells = []
        append = cells.append
        index = 0
        try:
            for index, value in enumerate(row):
                if value is None:
                    self._check_null(index)
                    append(None)
                    continue
                if value is ABSENT:
                    append(ABSENT)
                    continue
                if value.__class__ is Value:
                    append(self._of_value(value, index))
                    continue
                data = dumpers[index](value)
                prefix = prefixes[index]
                append(len(data).to_bytes(prefix, "little") + data if prefix else data)
        except (LogError, ValueRejected) as error:
            raise self._placed(error, index) from None
        return cells

    def _of_mapping(self, row: Mapping[str, Any]) -> Cells:
        known = self._index
        values: list[Any] = [ABSENT] * len(self._dumpers)
        for name, value in row.items():
            index = known.get(name)
            if index is None:
                index = self._looked_up(name)
            if values[index] is not ABSENT:
                raise ValueRejected(
                    f"{self.name}.{self.schema.columns[index].name}: given twice, in two spellings"
                )
            values[index] = value
        return self._of_sequence(values)

    def _looked_up(self, name: Any) -> int:
        index = self.schema.index_of(name) if isinstance(name, str) else None
        if index is None:
            raise UnknownColumn(f"{self.name} has no column {short_repr(name)}")
        return index

    def _of_image(self, image: Image) -> Cells:
        if not self._is_alike(image.schema):
            return self._of_mapping(image)
        stored = image.stored()
        if stored is None:
            return self._of_sequence(image.as_tuple())
        cells: Cells = []
        for index, (data, prefix) in enumerate(zip(stored, self._prefixes, strict=True)):
            if data is None:
                self._check_null(index)
            if prefix and data is not None and data is not ABSENT:
                cells.append(len(data).to_bytes(prefix, "little") + data)
            else:
                cells.append(data)
        return cells

    def _of_value(self, value: Value, index: int) -> bytes | None:
        """A `Value`'s storage if the columns are alike, else its converted value."""
        if value.storage is None:
            self._check_null(index)
            return None
        mine, theirs = self.schema.columns[index], value.described()
        data = value.storage
        if _known_as(mine) != _known_as(replace(theirs, name=mine.name)):
            data = self._dumpers[index](interpreted(value))
        prefix = self._prefixes[index]
        return len(data).to_bytes(prefix, "little") + data if prefix else data

    def _is_alike(self, schema: TableSchema) -> bool:
        """Whether the other table's image bytes are valid here; the last result is cached."""
        if self._alike[0] is not schema:
            self._alike = schema, alike(schema, self.schema)
        return self._alike[1]

    def _check_null(self, index: int) -> None:
        if not self._nullable[index]:
            name = self.schema.columns[index].name
            raise ValueRejected(f"{self.name}.{name}: NULL, which the column does not allow")

    def _placed(self, error: LogError | ValueRejected, index: int) -> Exception:
        place = f"{self.name}.{self.schema.columns[index].name}: "
        if not error.message.startswith(place):
            error.message = place + error.message
        return error


def alike(one: TableSchema, other: TableSchema) -> bool:
    """Whether two tables store the same values as the same bytes, column by column.

    A table whose log has no column names is compared by its columns' types alone.
    """
    if len(one.columns) != len(other.columns):
        return False
    bare = "none" in {one.names_from, other.names_from}
    look = _stored_as if bare else _known_as
    return all(
        look(mine) == look(theirs) for mine, theirs in zip(one.columns, other.columns, strict=True)
    )


def _stored_as(column: Column) -> tuple[Any, ...]:
    return column.type, column.metadata


def _known_as(column: Column) -> tuple[Any, ...]:
    charset = None if column.collation is None else column.charset
    return (
        column.name.casefold(),
        column.type,
        column.metadata,
        column.unsigned,
        charset,
        column.members,
        column.logical,
    )
