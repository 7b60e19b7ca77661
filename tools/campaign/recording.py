"""The log of what a campaign does in a database of its own; both are gone when it ends."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tailrace.events import QueryEvent, RowsEvent
from tailrace.log import Log
from tailrace.schema.catalogue import Catalogue
from tailrace.storage import LogSeries
from tailrace.storage.file import LogFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pymysql.cursors import Cursor

    from tailrace.values.schema import TableSchema
    from tools.servers import Server

Made = tuple["Cursor", "Callable[[], LogSeries]"]
"""A cursor in the database, and a function that ends the log and gives it."""


@contextmanager
def recording(server: Server, database: str) -> Iterator[Made]:
    """A new database and its log. Results come as bytes; nothing is logged of the cleaning up."""
    unlogged = ["SET sql_log_bin = 0", f"DROP DATABASE IF EXISTS {database}", "SET sql_log_bin = 1"]
    for statement in unlogged:
        server.execute(statement)
    first = server.rotate().name

    def series() -> LogSeries:
        last = server.rotate().name
        paths = [path for path in server.binlogs() if first < path.name <= last]
        return LogSeries(database, tuple(LogFile.at(path) for path in paths))

    try:
        connection = server.connect(use_unicode=False, autocommit=True)
        with connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
            cursor.execute(f"USE {database}")
            yield cursor, series
    finally:
        for statement in unlogged:
            server.execute(statement)
        server.execute(f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'")


def rows_events(series: LogSeries) -> Iterator[tuple[TableSchema, RowsEvent]]:
    """The rows events of a log with their tables."""
    known = Catalogue()
    log = Log(series)
    for event in log:
        if isinstance(event, QueryEvent):
            known.apply_event(event, log.format.flavour)
        elif isinstance(event, RowsEvent) and not event.is_dummy:
            yield known.resolve(event.table_map, log.format.flavour), event
