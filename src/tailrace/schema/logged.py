"""Checks whether a server's definition fits the rows of a log, as far as the log describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import SchemaError
from tailrace.schema.hidden import with_hashes
from tailrace.values.registry import declare
from tailrace.values.resolve import resolve_table

if TYPE_CHECKING:
    from tailrace.constants import Flavour
    from tailrace.events.column_metadata import ColumnSpec
    from tailrace.events.table_map import TableMapEvent
    from tailrace.schema.tables import TableState
    from tailrace.values.schema import TableSchema


def resolved(state: TableState, table_map: TableMapEvent, flavour: Flavour) -> TableSchema:
    """A table's schema for decoding its rows, from the server's definition.

    The definition may be newer than the rows. So everything that the log describes of a column has
    to agree with it: type and sizes, whether it may be NULL, and, if logged, sign and character
    set. A column without a declared type is accepted as it is. Raises `SchemaError` if it does not
    fit.
    """
    definition = with_hashes(state.definition, state.hidden, table_map)
    found = resolve_table(table_map, flavour, definition, "server")
    for spec, column in zip(table_map.columns, state.definition.columns, strict=False):
        if column.declared and not _same(spec, declare(column, flavour)[0]):
            raise SchemaError(
                f"{table_map.database}.{table_map.table}.{column.name} is {column.declared} on the "
                "server, but the log has another type, size, sign or character set"
            )
    return found


def _same(spec: ColumnSpec, made: ColumnSpec) -> bool:
    """Attributes missing in the log do not count as different; nor do storage forms of older
    tables.
    """
    pairs = [(spec.unsigned, made.unsigned), (spec.collation, made.collation)]
    return (
        spec.nullable == made.nullable
        and (spec.type is not made.type or spec.metadata == made.metadata)
        and all(one == other for one, other in pairs if None not in {one, other})
    )
