"""MariaDB's CREATE SEQUENCE: a table whose one row is logged like any other table's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.schema.columns import WrittenColumn
from tailrace.schema.tables import TableBody
from tailrace.schema.types import WrittenType, parse_type

if TYPE_CHECKING:
    from tailrace.schema.cursor import TokenCursor
    from tailrace.schema.session import StatementSession

_VALUES = ("next_not_cached_value", "minimum_value", "maximum_value", "start_value")
_REST = (
    WrittenColumn("increment", WrittenType("bigint"), nullable=False),
    WrittenColumn("cache_size", WrittenType("bigint", unsigned=True), nullable=False),
    WrittenColumn("cycle_option", WrittenType("tinyint", (1,), unsigned=True), nullable=False),
    WrittenColumn("cycle_count", WrittenType("bigint"), nullable=False),
)


def parse_sequence(cursor: TokenCursor, session: StatementSession) -> TableBody:
    """The part after the name: only ``AS type`` (11.5 and later) matters to its columns."""
    type_ = WrittenType("bigint")
    while not cursor.done:
        if cursor.accept("AS"):
            type_ = parse_type(cursor, session)
            while cursor.accept_any("UNSIGNED", "ZEROFILL"):
                type_ = WrittenType(type_.base, unsigned=True)
        else:
            cursor.next()
    values = tuple(WrittenColumn(name, type_, nullable=False) for name in _VALUES)
    return TableBody(values + _REST)
