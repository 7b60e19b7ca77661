"""The tables that a logged statement defines, drops or renames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.schema.clauses import RenameTable
from tailrace.schema.ddl import (
    AlterTable,
    DropDatabase,
    Name,
    PutDatabase,
    RenameTo,
    Unclear,
    effects,
)
from tailrace.schema.session import StatementSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.events import QueryEvent
    from tailrace.schema.ddl import Effect

Table = tuple[str, str]
"""Database and name."""


def effects_of(event: QueryEvent) -> tuple[Effect, ...]:
    """The effects of a statement on tables and databases, in the session in which it ran."""
    session, sql = StatementSession.of_event(event, event.form.flavour)
    return () if session is None else effects(sql, event.database, session)


def pair(table: Name) -> Table:
    """A table's name as a pair; the database is empty if it is unknown."""
    return table.database or "", table.table


def renaming(effect: Effect) -> tuple[Table, Table] | None:
    """The old and the new name, if an effect renames a table."""
    if isinstance(effect, RenameTo):
        return pair(effect.old), pair(effect.new)
    if isinstance(effect, AlterTable):
        for clause in effect.clauses:
            if isinstance(clause, RenameTable):
                old = pair(effect.name)
                return old, (clause.database or old[0], clause.table)
    return None


def concerns(event: QueryEvent, wants: Callable[[str, str], bool]) -> bool:
    """Whether a statement defines a requested table, or its database as a whole.

    A statement that is not understood is treated as one for all tables of its database.
    """
    return any(
        wants(*table) for effect in effects_of(event) for table in _tables(effect, event.database)
    )


def _tables(effect: Effect, database: str) -> list[Table]:
    match effect:
        case PutDatabase() | DropDatabase():
            return [(effect.database, "")]
        case RenameTo():
            return [pair(effect.old), pair(effect.new)]
        case Unclear():
            return [pair(effect.name) if effect.name else (database, "")]
        case _:
            return [pair(effect.name)]
