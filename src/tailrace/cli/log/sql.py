"""``tailrace log --as sql`` and ``--as undo``: statements for the servers' own clients."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TextIO

from tailrace.cli.output import say
from tailrace.cli.sources import say_what_was_left
from tailrace.log.changes import Changes
from tailrace.sql.scripts import sql_lines
from tailrace.sql.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from tailrace.log.reader import Reader
    from tailrace.sql.statement import RowStatements
    from tailrace.table_filter import TableFilter


def sql_output(stream: TextIO) -> TextIO:
    """The output for SQL: bytes of the log that are not UTF-8 are written unchanged."""
    raw: Any = stream
    if hasattr(raw, "reconfigure"):
        raw.reconfigure(encoding="utf-8", errors="surrogateescape", newline="")
    return stream


def show_sql(
    reader: Reader,
    how: Literal["sql", "undo"],
    write: Callable[[Iterator[str | Iterator[str] | memoryview]], None],
    *,
    wants: TableFilter | None,
    skips: Literal["error", "skip"],
    renamed: Collection[str] = (),
    rows: int = 1,
) -> None:
    """Write a reader's changes as SQL; ``renamed`` are databases that were renamed, and an INSERT
    has up to ``rows`` rows.
    """
    changes = Changes(reader, statements=skips)

    def noted(
        found: Iterable[Statement | RowStatements],
    ) -> Iterable[Statement | RowStatements]:
        return _noted(found, renamed) if renamed else found

    write(sql_lines(changes, how, wants=wants, rows=rows, through=noted))
    say_what_was_left(changes)


def _noted(
    found: Iterable[Statement | RowStatements], renamed: Collection[str]
) -> Iterator[Statement | RowStatements]:
    """The statements; the log's own get a note if their text names a renamed database."""
    count = 0
    for statement in found:
        text = statement.text if isinstance(statement, Statement) and statement.logged else ""
        old = [name for name in renamed if name in text]
        if old and isinstance(statement, Statement):
            count += 1
            note = f"this statement names {', '.join(old)}: --rewrite-db leaves its text as it is"
            yield replace(statement, note=note)
        else:
            yield statement
        del statement  # before the next is made: it may be large
    if count:
        say(
            f"{count} statements name a renamed database in their text,"
            " which is not changed: see the notes"
        )
