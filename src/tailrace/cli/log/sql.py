"""``tailrace log --as sql`` and ``--as undo``: statements for the servers' own clients."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal, TextIO

from tailrace.cli.kernels import parts, with_kernels
from tailrace.cli.output import say
from tailrace.cli.sources import say_what_was_left
from tailrace.log.changes import Changes
from tailrace.sql.forward import with_stretches
from tailrace.sql.script import script_lines
from tailrace.sql.statement import Statement, multi_row
from tailrace.sql.undo import undo_stretches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from tailrace.log.reader import Reader
    from tailrace.sql import Wants
    from tailrace.sql.statement import RowStatements

_ORDER = {"sql": "statements that repeat its changes", "undo": "statements that undo its changes"}


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
    wants: Wants | None,
    skips: Literal["error", "skip"],
    renamed: Collection[str] = (),
    rows: int = 1,
) -> None:
    """Write a reader's changes as SQL; ``renamed`` are databases that were renamed, and an INSERT
    has up to ``rows`` rows.
    """
    changes = Changes(reader, statements=skips)
    kernels = None
    if with_kernels(reader):
        from tailrace.sql.stretches import StretchSql  # noqa: PLC0415 - it needs numpy

        kernels = StretchSql(reader, undo=how == "undo", rows=rows)
    make = with_stretches if how == "sql" else undo_stretches
    found = make(changes, changes.with_others(parts(reader)), kernels, wants=wants)
    if rows > 1:
        found = multi_row(found, rows)
    write(script_lines(_noted(found, renamed) if renamed else found, _heading(reader, how)))
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


def _heading(reader: Reader, how: str) -> Iterator[str]:
    """Made once the first statement is available: then the format of a server's log is known."""
    names = reader.name
    if reader.series is not None:
        files = reader.series.files
        names = files[0].name if len(files) == 1 else f"{files[0].name} to {files[-1].name}"
    client = f"{reader.format.flavour} --binary-mode"
    yield f"tailrace {version('tailrace')}: {names}, {_ORDER[how]}"
    yield f"{reader.format.flavour} {reader.format.server_version}; feed it to: {client}"
    yield "it has the rows that triggers changed: it stops before rows of a table that has triggers"
