"""The statements that repeat a log's changes: `statements`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace.errors import LogError
from tailrace.log.changes import Change, Ended, Logged
from tailrace.schema.classify import StatementKind, classify
from tailrace.schema.session import is_half
from tailrace.sql.logged import selected, statement_of
from tailrace.sql.rows import TableSql, once_per_table
from tailrace.sql.settings import of_rows
from tailrace.sql.statement import Statement
from tailrace.sql.triggers import Guard, Triggers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tailrace.columns.text.stretches import Stretch
    from tailrace.events import QueryEvent
    from tailrace.log.changes import Changes
    from tailrace.sql.rows import RowSql
    from tailrace.sql.statement import RowStatements
    from tailrace.sql.stretches import StretchSql
    from tailrace.table_filter import TableFilter
    from tailrace.values.row import Row
    from tailrace.values.schema import TableSchema

END: Final = Statement("", (), None, alone=True)
"""Nothing to execute: a transaction ends here, so it is committed before the next one starts."""


def statements(changes: Changes, *, wants: TableFilter | None = None) -> Iterator[Statement]:
    """The statements that produce the same data on a copy of the schema, in the log's order.

    Each changed row is one statement. Statements of the log are included in their order, as they
    were executed. ``wants`` is given if only some tables are requested, the same as for the reader.
    Then statements that define other tables are left out, with a note, and statements that change
    rows are rejected (StatementChange; with ``changes.statements == "skip"`` they are left out, and
    counted).

    Triggers that the log creates are created at the end, so that they do not fire for rows whose
    effects are in the log already. If the copy has triggers, the statements stop before the first
    row of their table (`tailrace.sql.triggers`).

    Raises SchemaError if the log lacks something: a table's column names, or the key of a row.
    Errors of reading are raised as they are.
    """
    for each in with_stretches(changes, changes.with_statements(), None, wants=wants):
        if isinstance(each, Statement):
            yield each


def with_stretches(
    changes: Changes,
    items: Iterable[Change | Logged | Ended | Stretch],
    kernels: StretchSql | None,
    *,
    wants: TableFilter | None,
) -> Iterator[Statement | RowStatements]:
    """The same, for items as `Changes.with_others` gives them.

    ``kernels`` make the statements of the stretches.
    """
    tables, triggers, guard = once_per_table(TableSql), Triggers(), Guard()
    done = 0  # statements of the following rows that were already given
    for item in items:
        if isinstance(item, Change):
            yield from triggers.before_rows(item.schema.full_name)
            yield from guard.before_rows(item)
            for statement in row_statements(item, tables, repeat):
                if done:
                    done -= 1
                else:
                    yield statement
        elif isinstance(item, Ended):
            yield END
        elif not isinstance(item, Logged):
            if kernels is None:
                raise TypeError("a stretch needs kernels that make its statements")
            if triggers.in_place:
                item.rejected = True
                continue
            for new, made in kernels.statements(item, guard.tables):
                yield from made
                for table in new:
                    guard.add(table, changes.reader.format.flavour)
            done = kernels.given if item.rejected else 0
            if not item.rejected:
                yield END
        elif not is_half(item.event):
            statement = _logged(item, changes, wants)
            if statement.text and not statement.alone:
                yield from triggers.before_statement()
            yield from triggers.take(statement, item.event)
            if statement.alone:
                guard.forget()
        del item  # before the next event is read: it may be large
    yield from triggers.before_statement()


def row_statements(
    change: Change,
    table_of: Callable[[TableSchema], TableSql],
    write: Callable[[TableSql, Row], RowSql | None],
    *,
    undo: bool = False,
) -> Iterator[Statement]:
    """What ``write`` makes of the rows of a change, without those that are only history."""
    event = change.event
    try:
        table = table_of(change.schema)
        for row in change.rows():
            current = row if table.period is None else table.period.current(row)
            sql = None if current is None else write(table, current)
            if sql is None or current is None:
                continue
            settings = of_rows(
                event.form.flavour,
                event.flags,
                lenient=sql.lenient,
                restores=undo and current.after is None,
            )
            joins = (event.offset or 0, event.inner_index or 0, sql.row) if sql.row else None
            yield Statement(sql.text, settings, change.group, joins=joins)
    except LogError as error:
        raise error.at(event.file, event.offset, event.name) from None


def repeat(table: TableSql, row: Row) -> RowSql | None:
    """The statement that changes a row as it was changed; None if only generated columns differ."""
    before, after = row.before, row.after
    if before is None:
        return None if after is None else table.insert(after)
    return table.delete(before) if after is None else table.update(before, after)


def _logged(item: Logged, changes: Changes, wants: TableFilter | None) -> Statement:
    if wants is None:
        return statement_of(item)
    kind = classify(item.event.sql)
    if kind in {StatementKind.DML, StatementKind.UNKNOWN}:
        changes.rows_not_logged(item.event)
    elif (event := selected(item.event, wants)) is not None:
        return statement_of(replace(item, event=event))
    return left_out(item, "not of the requested tables")


def left_out(item: Logged, why: str) -> Statement:
    """A statement with nothing to execute, and a note of what was left out."""
    return Statement("", (), item.group, note=f"left out, {why}: {start_of(item.event)}")


def start_of(event: QueryEvent) -> str:
    """A statement on one line; only its beginning if it is long."""
    text = " ".join(event.sql.split())
    return text if len(text) <= 80 else f"{text[:79]}…"
