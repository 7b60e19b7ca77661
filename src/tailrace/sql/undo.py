"""The statements that undo a log's changes: `undo`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.errors import UndoError
from tailrace.log.changes import Change, Ended, Logged
from tailrace.schema.classify import changes_nothing, classify
from tailrace.schema.session import is_half
from tailrace.sql.forward import left_out, row_statements, start_of
from tailrace.sql.logged import concerns
from tailrace.sql.rows import TableSql, once_per_table
from tailrace.sql.statement import RowStatements, Statement
from tailrace.sql.triggers import Guard
from tailrace.storage.spill import SpilledObjects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tailrace.columns.text.stretches import Stretch
    from tailrace.log.changes import Changes
    from tailrace.sql.rows import RowSql
    from tailrace.sql.stretches import StretchSql
    from tailrace.table_filter import TableFilter
    from tailrace.values.row import Row

_HELD: Final = 1 << 20
"""Bytes of statements that are held in memory before they are written to the temporary file."""
_OBJECT: Final = 64
"""Bytes of a statement besides its text, roughly."""


def undo(
    changes: Changes, *, wants: TableFilter | None = None, folder: Path | None = None
) -> Iterator[Statement]:
    """The statements that undo the changes, the last change first.

    The whole log is read before the first statement is given. Statements are kept in a temporary
    file (in ``folder``), not in memory. The first statements fail if one of the tables has triggers
    (`Guard`). Rows are processed as in `statements`. A statement of the log cannot be
    undone: it raises UndoError, or, with ``changes.statements == "skip"``, is left out with a note.
    ``wants`` is as for `statements`: definitions of other tables do not matter.

    The statements do not restore the values of MariaDB's sequences; a server's ROLLBACK does not,
    either. Nor do they reverse changes that are in no log: those that a foreign key's action made
    to other tables, on servers that leave them to the storage engine (MySQL before 9.6, MariaDB).

    Raises SchemaError if a row image lacks previous values.
    """
    for each in undo_stretches(
        changes, changes.with_statements(), None, wants=wants, folder=folder
    ):
        if isinstance(each, Statement):
            yield each


def undo_stretches(
    changes: Changes,
    items: Iterable[Change | Logged | Ended | Stretch],
    kernels: StretchSql | None,
    *,
    wants: TableFilter | None,
    folder: Path | None = None,
) -> Iterator[Statement | RowStatements]:
    """The same, for items as `Changes.with_others` gives them.

    ``kernels`` make the statements of the stretches.
    """
    tables, guard = once_per_table(TableSql), Guard()
    done = 0  # statements of the following rows that are on the stack already
    with SpilledObjects[Statement | RowStatements](_HELD, folder=folder) as pile:
        for item in items:
            if isinstance(item, Change):
                guard.meet(item)
                for statement in row_statements(item, tables, _reverse, undo=True):
                    if done:
                        done -= 1
                    else:
                        pile.append(statement, statement.size + _OBJECT)
            elif isinstance(item, Logged):
                if (note := _logged(item, changes, wants)) is not None:
                    pile.append(note, note.size + _OBJECT)
            elif not isinstance(item, Ended) and kernels is not None:
                for new, made in kernels.statements(item, guard.tables):
                    for each in made:
                        pile.append(each, each.size + _OBJECT)
                    for table in new:
                        guard.add(table, changes.reader.format.flavour)
                done = kernels.given if item.rejected else 0
            del item  # before the next event is read: it may be large
        yield from guard.all()
        yield from reversed(pile)


def _reverse(table: TableSql, row: Row) -> RowSql | None:
    before, after = row.before, row.after
    if table.is_sequence:
        return None
    if before is None:
        return None if after is None else table.delete(after, whole=True)
    return table.insert(before, whole=True) if after is None else table.revert(before, after)


def _logged(item: Logged, changes: Changes, wants: TableFilter | None) -> Statement | None:
    event = item.event
    if is_half(event) or changes_nothing(event.sql):
        return None
    if wants is not None and not classify(event.sql).changes_rows and not concerns(event, wants):
        return None
    if changes.statements == "skip":
        changes.skipped_statements += 1
        return left_out(item, "as it cannot be undone")
    raise event.error(
        f"the statement «{start_of(event)}» cannot be undone; choose a part of the log "
        "without it (start, until, exclude), or skip it (--statements skip, statements='skip')",
        UndoError,
    )
