"""The rows of a server's tables at one position of its log, by SELECT."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import ColumnType
from tailrace.live.driver import SSCursor
from tailrace.live.session import Identity, Session
from tailrace.live.tables import connected, created_by, print_in_full, tables_of
from tailrace.schema.table import Table
from tailrace.schema.tokens import quoted_name, quoted_table
from tailrace.values.result_set import ResultSet

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tailrace.live.connect import ServerConnection
    from tailrace.live.url import Source
    from tailrace.position import Position
    from tailrace.table_filter import TableFilter, TableName

_WAIT: Final = 5
"""Seconds for which open transactions are waited for that have changed one of the tables."""


def wanted_tables(source: Source, wants: TableFilter) -> list[TableName]:
    """The server's tables that fit, in order."""
    with connected(source) as connection:
        return sorted(name for name in tables_of(connection) if wants(*name))


@contextmanager
def snapshot(
    source: Source, tables: Collection[TableName]
) -> Iterator[tuple[Position, Iterator[ResultSet]]]:
    """The rows of tables, and the position of the log that they are as of.

    The tables are locked against writing for the moment in which the position is asked for and the
    transaction begins that reads them. Raises ServerError (AccessDenied without LOCK TABLES, or
    if the lock is not there after some seconds), and what connecting raises.
    """
    with ExitStack() as stack:
        reading = stack.enter_context(connected(source))
        version, flavour = reading.server_version, "mysql"
        with ExitStack() as locked:
            if tables:
                locking = locked.enter_context(connected(source))
                listed = ", ".join(f"{quoted_table(*name)} READ" for name in tables)
                _execute(locking, f"SET SESSION lock_wait_timeout = {_WAIT}")
                _execute(locking, f"LOCK TABLES {listed}")
            with closing(Session.open(source, source.hosts[0], Identity())) as session:
                position, flavour = session.end(), session.flavour
            _execute(reading, "SET SESSION time_zone = '+00:00', sql_mode = ''")
            _execute(reading, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            _execute(reading, "START TRANSACTION WITH CONSISTENT SNAPSHOT")

        def rows() -> Iterator[ResultSet]:
            for name in tables:
                created = _created(source, name)
                table = Table.parse(
                    created, flavour=flavour, database=name[0], server_version=version
                )
                columns = ", ".join(
                    f"{quoted_name(each.name)} + 0e0 AS {quoted_name(each.name)}"
                    if each.type is ColumnType.FLOAT
                    else quoted_name(each.name)
                    for each in table.schema.columns
                )
                with reading.cursor(SSCursor) as cursor:
                    cursor.execute(f"SELECT {columns} FROM {quoted_table(*name)}")  # noqa: S608 - quoted
                    result: Any = cursor
                    yield ResultSet(result, table)

        yield position, rows()


def _created(source: Source, table: TableName) -> str:
    """The CREATE TABLE of a table as it is now. A statement may have changed it after the snapshot
    began: the SELECT names the columns of now, and the log tells of the statement afterwards.
    """
    with closing(Session.open(source, source.hosts[0], Identity())) as session:
        print_in_full(session)
        return created_by(session, table)


def _execute(connection: ServerConnection, sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)
