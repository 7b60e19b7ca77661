"""The rows of a server's tables at one position of its log, by SELECT."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tailrace.constants import ColumnType
from tailrace.errors import AccessDenied, ServerError
from tailrace.live.driver import SSCursor, err
from tailrace.live.session import Session
from tailrace.live.tables import (
    connected,
    created_by,
    defined_by,
    not_to_be_seen,
    print_in_full,
    tables_of,
)
from tailrace.schema.table import Table
from tailrace.schema.tokens import quoted_name, quoted_table
from tailrace.values.result_set import ResultSet

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from tailrace.live.connect import ServerConnection
    from tailrace.live.url import Source
    from tailrace.position import Position
    from tailrace.schema.tables import TableState
    from tailrace.table_filter import TableFilter
    from tailrace.table_name import TableName
    from tailrace.values.row import Row
    from tailrace.values.schema import TableSchema

_CHANGED: Final = frozenset({1049, 1054, 1146, 1412})
"""Errors for a database, a column or a table that is not there, and for a definition that is not
the one of the transaction's snapshot.
"""
_WAIT: Final = 5
"""Seconds for which open transactions are waited for that have changed one of the tables."""


def wanted_tables(source: Source, wants: TableFilter) -> list[TableName]:
    """The server's tables that fit, in order. Raises AccessDenied if a pattern fits none that the
    user may see, and others may be hidden from it.
    """
    with connected(source) as connection:
        found = sorted(name for name in tables_of(connection) if wants(*name))
        if not_to_be_seen(connection, wants, found):
            raise AccessDenied(
                f"{source.name}: the user may not see all tables that are asked for: grant SELECT"
            )
    return found


def logs_names(source: Source) -> bool:
    """Whether the server's log has the names of columns (``binlog_row_metadata=FULL``)."""
    with connected(source) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL VARIABLES LIKE 'binlog_row_metadata'")
        return [str(value) for _, value in cursor.fetchall()] == ["FULL"]


class SnapshotTable(NamedTuple):
    """A table of a snapshot: its definition, its rows, and a function that says, once they were
    read, whether its definition is the one of the snapshot still. Else they are of no use: take
    another snapshot.
    """

    name: TableName
    state: TableState
    schema: TableSchema
    rows: Iterator[Row]
    is_unchanged: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Rows of tables as of a position of the log.

    ``tables`` leaves out those that were changed or dropped before their rows could be read.
    ``missing`` are tables that were not there at another position, ``missing_at``.
    """

    position: Position
    missing: frozenset[TableName]
    missing_at: Position
    tables: Iterator[SnapshotTable]


@contextmanager
def snapshot(source: Source, tables: Collection[TableName]) -> Iterator[Snapshot]:
    """The rows of tables, and the position of the log that they are as of.

    The tables are locked against writing for the moment in which their definitions and the position
    are asked for, and the transaction begins that reads them. No lock is held while rows are read:
    what statements then do to a table is noticed. Raises ServerError (AccessDenied without LOCK
    TABLES, or if the lock is not there after some seconds), and what connecting raises.
    """
    with ExitStack() as stack:
        reading = stack.enter_context(connected(source))
        with _session(source) as session, ExitStack() as locked:
            locking = locked.enter_context(connected(source))
            _execute(locking, f"SET SESSION lock_wait_timeout = {_WAIT}")
            while True:
                before = session.end()
                there = sorted(tables_of(reading) & set(tables))
                listed = ", ".join(f"{quoted_table(*name)} READ" for name in there)
                try:
                    _execute(locking, f"LOCK TABLES {listed}" if there else "DO 0")
                    break
                except err.MySQLError as error:  # one was dropped or renamed since
                    if error.args[0] not in _CHANGED:
                        raise
            created = {name: created_by(session, name) for name in there}
            position, flavour = session.end(), session.flavour
            _execute(reading, "SET SESSION time_zone = '+00:00', sql_mode = ''")
            _execute(reading, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            _execute(reading, "START TRANSACTION WITH CONSISTENT SNAPSHOT")

        def rows() -> Iterator[SnapshotTable]:
            for name in there:
                table = Table.parse(
                    created[name],
                    flavour=flavour,
                    database=name[0],
                    server_version=reading.server_version,
                )
                columns = ", ".join(
                    f"{quoted_name(each.name)} + 0e0 AS {quoted_name(each.name)}"
                    if each.type is ColumnType.FLOAT
                    else quoted_name(each.name)
                    for each in table.schema.columns
                )
                try:
                    with reading.cursor(SSCursor) as cursor:
                        cursor.execute(f"SELECT {columns} FROM {quoted_table(*name)}")  # noqa: S608 - quoted
                        result: Any = cursor
                        read = _Reading(ResultSet(result, table), source, name, created[name])
                        state = defined_by(created[name], name, flavour)
                        yield SnapshotTable(
                            name, state, table.schema, read.rows(), read.is_unchanged
                        )
                except err.MySQLError as error:  # also when the cursor is closed
                    if error.args[0] not in _CHANGED:
                        raise

        yield Snapshot(position, frozenset(tables) - set(there), before, rows())


@dataclass
class _Reading:
    """The rows of a table, up to where the server says that its definition has ``changed``."""

    result: ResultSet
    source: Source
    table: TableName
    created: str
    changed: bool = False

    def rows(self) -> Iterator[Row]:
        try:
            yield from self.result
        except err.MySQLError as error:
            if error.args[0] not in _CHANGED:
                raise
            self.changed = True

    def is_unchanged(self) -> bool:
        return not self.changed and _is_same(self.source, self.table, self.created)


@contextmanager
def _session(source: Source) -> Iterator[Session]:
    with closing(Session.open(source)) as session:
        print_in_full(session)
        yield session


def _is_same(source: Source, table: TableName, created: str) -> bool:
    try:
        with _session(source) as session:
            return created_by(session, table) == created
    except ServerError as error:
        if error.code not in _CHANGED:
            raise
        return False


def _execute(connection: ServerConnection, sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)
