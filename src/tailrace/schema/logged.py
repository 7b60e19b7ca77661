"""Does a definition that a server gave fit the rows of a log, as far as the log says it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import SchemaError
from tailrace.rows.declare import declare
from tailrace.rows.schema import TableSchema
from tailrace.schema.hidden import with_hashes

if TYPE_CHECKING:
    from tailrace.constants import Flavour
    from tailrace.events.column_metadata import ColumnSpec
    from tailrace.events.table_map import TableMapEvent
    from tailrace.schema.tables import TableState


def resolved(state: TableState, table_map: TableMapEvent, flavour: Flavour) -> TableSchema:
    """A table as its rows are decoded, by the definition that its server has.

    The definition may be newer than the rows. So all that the log says of a column has to be in it:
    type and sizes, whether it may be NULL, and where the log has them sign and character set.
    A column without a declared type is taken as it is. Raises `SchemaError` where it does not fit.
    """
    definition = with_hashes(state.definition, state.hidden, table_map)
    found = TableSchema.resolve(table_map, flavour, definition, "server")
    for spec, column in zip(table_map.columns, state.definition.columns, strict=False):
        if column.declared and not _same(spec, declare(column, flavour)[0]):
            raise SchemaError(
                f"{table_map.database}.{table_map.table}.{column.name} is {column.declared} on the "
                "server, and the log has another type, size, sign or character set"
            )
    return found


def _same(spec: ColumnSpec, made: ColumnSpec) -> bool:
    """What the log does not say is no difference; nor is a form that older tables are stored in."""
    pairs = [(spec.unsigned, made.unsigned), (spec.collation, made.collation)]
    return (
        spec.nullable == made.nullable
        and (spec.type is not made.type or spec.metadata == made.metadata)
        and all(one == other for one, other in pairs if None not in {one, other})
    )
