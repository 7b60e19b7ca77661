"""A log's changes as a script of SQL: `redo` repeats them, `undo` undoes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from tailrace.arguments import checked
from tailrace.columns.text.readers import SQL, parts, readers, with_kernels
from tailrace.errors import UsageError
from tailrace.log.changes import Changes
from tailrace.log.results import Results
from tailrace.log.sources import Reading
from tailrace.position import Position
from tailrace.printable import short_repr
from tailrace.sql.forward import statements as repeating
from tailrace.sql.forward import with_stretches
from tailrace.sql.script import commands, script_lines
from tailrace.sql.statement import Statement, multi_row
from tailrace.sql.undo import undo as undoing
from tailrace.sql.undo import undo_stretches
from tailrace.storage.local import DRAFT_SUFFIX
from tailrace.storage.streams.base import told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tailrace.gtid import GtidState
    from tailrace.log.reader import Reader
    from tailrace.log.sources import Source
    from tailrace.schema.letter_case import LowerCase
    from tailrace.selection import Bound
    from tailrace.sql.statement import RowStatements
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.layer import Layers
    from tailrace.table_filter import TableFilter

T = TypeVar("T")
How = Literal["sql", "undo"]
_ORDER: Final = {
    "sql": "statements that repeat its changes",
    "undo": "statements that undo its changes",
}


class Script(Results[str]):
    """The lines of a script, without line ends, made while they are iterated over.

    A line may be long: a statement with all of a row's values. Bytes that are not UTF-8 in
    statements of the log are surrogates (``surrogateescape``); `save` writes them as they were. A
    program that executes the statements itself takes `commands` instead of lines.
    """

    def __init__(
        self,
        changes: Changes,
        lines: Iterator[str | Iterator[str] | memoryview],
        statements: Iterator[Statement],
    ) -> None:
        super().__init__(_texts(lines), changes.reader.log.close)
        self._changes = changes
        self._statements = statements
        self._is_started = False

    def __next__(self) -> str:
        self._is_started = True
        return super().__next__()

    def commands(self) -> Iterator[bytes]:
        """The same as single commands, to execute one by one with any driver: no comments, no
        terminators. They are bytes, as a statement of the log may be in any character set.

        Raises UsageError if lines were already taken.
        """
        self._check_whole()
        self._is_started = True
        self._items = iter(())
        return commands(self._statements)

    @property
    def position(self) -> Position:
        """Where to resume after what was read of the log."""
        return self._changes.reader.log.position

    @property
    def gtids(self) -> GtidState | None:
        """The GTIDs after which to resume, those at ``position``; None if they are not known."""
        return self._changes.reader.log.gtids

    @property
    def skipped_statements(self) -> int:
        """Logged statements that were left out so far, with ``statements="skip"``."""
        return self._changes.skipped_statements

    def save(self, path: str | Path) -> None:
        """Write the script to a file, for ``mysql --binary-mode < FILE``.

        A file that exists is replaced when the script is complete: an error leaves it as it is.
        Raises UsageError if lines were already taken, StorageError if the file cannot be written,
        and what iterating raises.
        """
        self._check_whole()
        target = Path(path)
        is_device = target.exists() and not target.is_file()
        draft = target if is_device else target.with_name(target.name + DRAFT_SUFFIX)
        with told(path):
            try:
                with draft.open("w", encoding="utf-8", errors="surrogateescape", newline="") as out:
                    out.writelines(f"{line}\n" for line in self)
                if not is_device:
                    draft.replace(target)
            finally:
                if not is_device:
                    draft.unlink(missing_ok=True)

    def _check_whole(self) -> None:
        if self._is_started:
            raise UsageError("lines of this script were taken: call undo or redo again")


def _texts(lines: Iterator[str | Iterator[str] | memoryview]) -> Iterator[str]:
    for line in lines:
        if isinstance(line, memoryview):  # many lines, with their ends
            text = bytes(line).decode("utf-8", "surrogateescape")
            # not splitlines: names may have its other characters
            yield from text.removesuffix("\n").split("\n")
        else:
            yield line if isinstance(line, str) else "".join(line)


def sql_lines(
    changes: Changes,
    how: How,
    *,
    wants: TableFilter | None,
    rows: int = 1,
    through: Callable[
        [Iterable[Statement | RowStatements]], Iterable[Statement | RowStatements]
    ] = lambda found: found,
) -> Iterator[str | Iterator[str] | memoryview]:
    """The lines of a script as `tailrace.sql.script.script_lines` gives them.

    An INSERT has up to ``rows`` rows. Statements pass ``through`` a function first.
    """
    reader = changes.reader
    kernels = None
    if with_kernels(reader):
        from tailrace.sql.stretches import StretchSql  # noqa: PLC0415 - it needs numpy

        kernels = StretchSql(reader, undo=how == "undo", rows=rows)
    make = with_stretches if how == "sql" else undo_stretches
    found: Iterable[Statement | RowStatements] = make(
        changes, changes.with_others(parts(reader)), kernels, wants=wants
    )
    if rows > 1:
        found = multi_row(found, rows)
    return script_lines(through(found), _heading(reader, how))


def _heading(reader: Reader, how: How) -> Iterator[str]:
    """Made once the first statement is available: then the format of a server's log is known."""
    from importlib.metadata import version  # noqa: PLC0415 - slow

    names = reader.name
    if reader.series is not None:
        files, start = reader.series.files, reader.selection.start
        first = start.file if isinstance(start, Position) else files[0].name
        files = files[next((n for n, each in enumerate(files) if each.name == first), 0) :]
        names = files[0].name if len(files) == 1 else f"{files[0].name} to {files[-1].name}"
    client = f"{reader.format.flavour} --binary-mode"
    yield f"tailrace {version('tailrace')}: {names}, {_ORDER[how]}"
    yield f"{reader.format.flavour} {reader.format.server_version}; feed it to: {client}"
    yield "rows that triggers changed are included: drop a table's triggers before its rows run"


@checked
def redo(
    source: Source,
    *,
    start: Bound | None = None,
    until: Bound | None = None,
    tables: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    schema: str | Path | None = None,
    keyring: Keyring | str | Path | None = None,
    layers: Layers | None = None,
    lower_case_table_names: LowerCase = None,
    verify_checksums: bool = True,
    statements: Literal["error", "skip"] = "error",
    rows_per_insert: int = 1,
) -> Script:
    """The SQL that repeats a log's committed changes, as the lines of a script.

    The script is for the servers' own clients, ``mysql --binary-mode`` or ``mariadb
    --binary-mode``, and for a copy of the tables as they were at ``start``. Rows come as INSERT,
    UPDATE and DELETE, with their keys; the log's own statements, such as DDL, as they were logged.
    ``tables`` and ``exclude`` choose the tables, ``rows_per_insert`` puts several rows into one
    INSERT. With ``statements="skip"``, logged statements that change chosen tables are left out; by
    default they are a StatementChange. The other arguments are those of `tailrace.rows`; the source
    is one log.

    ``lower_case_table_names`` is that of the server that wrote the log. A server is asked, and a
    log shows it in most cases; what it leaves open is an error.

    Raises UsageError for wrong arguments; iterating raises SchemaError if the log lacks a column's
    name, and what reading a log raises.

    >>> import tailrace
    >>> with tailrace.redo("examples/shop/mysql", tables="shop.reviews") as script:
    ...     inserts = [line for line in script if line.startswith("INSERT")]
    >>> len(inserts)
    230
    """
    return _script(
        Reading.of(
            source,
            start=start,
            until=until,
            tables=tables,
            exclude=exclude,
            schema=schema,
            lower_case_table_names=lower_case_table_names,
            keyring=keyring,
            layers=layers,
        ),
        "sql",
        verify_checksums=verify_checksums,
        statements=statements,
        rows=rows_per_insert,
    )


@checked
def undo(
    source: Source,
    *,
    start: Bound | None = None,
    until: Bound | None = None,
    tables: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    schema: str | Path | None = None,
    keyring: Keyring | str | Path | None = None,
    layers: Layers | None = None,
    lower_case_table_names: LowerCase = None,
    verify_checksums: bool = True,
    statements: Literal["error", "skip"] = "error",
    rows_per_insert: int = 1,
) -> Script:
    """The SQL that undoes a log's committed changes, the last one first, as the lines of a script.

    An insert becomes a DELETE, a delete an INSERT, an update sets the former values. The log is
    read to its end, or to ``until``, before the first line is given. The arguments and errors are
    those of `redo`, and so those of `rows`. A logged statement (DDL, or a change without rows)
    cannot be undone: it is an UndoError, or is left out with ``statements="skip"``.

    ``lower_case_table_names`` is that of the server that wrote the log. A server is asked, and a
    log shows it in most cases; what it leaves open is an error.

    >>> import tailrace
    >>> script = tailrace.undo("examples/shop/mysql", start="binlog.000004:47131")
    >>> [line for line in script if line.startswith("UPDATE")][0]
    'UPDATE `shop`.`order_items` SET `line` = 1 WHERE `order_id` = 13 AND `line` = 101;'
    >>> tailrace.undo("examples/shop/mysql", start="binlog.000004:44072").save("undo.sql")

    A program executes them one by one with any driver, as ``cursor.execute(command)``:

    >>> script = tailrace.undo("examples/shop/mysql", start="binlog.000004:47131")
    >>> sum(command.startswith(b"UPDATE") for command in script.commands())
    28
    """
    return _script(
        Reading.of(
            source,
            start=start,
            until=until,
            tables=tables,
            exclude=exclude,
            schema=schema,
            lower_case_table_names=lower_case_table_names,
            keyring=keyring,
            layers=layers,
        ),
        "undo",
        verify_checksums=verify_checksums,
        statements=statements,
        rows=rows_per_insert,
    )


def _script(
    reading: Reading,
    how: How,
    *,
    verify_checksums: bool,
    statements: Literal["error", "skip"],
    rows: int,
) -> Script:
    if not isinstance(rows, int) or rows < 1:
        raise UsageError(f"rows_per_insert is a number from 1 on, and not {short_repr(rows)}")
    if len(reading.logs) > 1:
        listed = ", ".join(log.name for log in reading.logs)
        raise UsageError(f"a script is of one log, and there are several ({listed}): give one")
    (reader,) = readers(reading, SQL, verify_checksums=verify_checksums)
    changes = Changes(reader, statements=statements)
    wants = None if reading.wants.takes_all else reading.wants

    def ended(items: Iterable[T]) -> Iterator[T]:
        yield from items
        reading.warn_of_missing([reader.catalogue])

    found = _statements(changes, how, wants, rows)
    return Script(changes, ended(sql_lines(changes, how, wants=wants, rows=rows)), ended(found))


def _statements(
    changes: Changes, how: How, wants: TableFilter | None, rows: int
) -> Iterator[Statement]:
    """The statements one by one, made without kernels; nothing is read before the first."""
    make = repeating if how == "sql" else undoing
    found: Iterable[Statement | RowStatements] = make(changes, wants=wants)
    if rows > 1:
        found = multi_row(found, rows)
    for each in found:
        if isinstance(each, Statement):
            yield each
