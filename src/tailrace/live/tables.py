"""A connection to a server for plain statements: its tables, their definitions and foreign keys."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import Flavour
from tailrace.errors import (
    AccessDenied,
    ConnectionLost,
    SchemaError,
    ServerError,
    TailraceError,
)
from tailrace.live.connect import connect
from tailrace.live.driver import ServerAnswer, translated
from tailrace.live.server_errors import UNKNOWN_VARIABLE
from tailrace.live.session import Session
from tailrace.printable import first_line, printable
from tailrace.schema.foreign_keys import CASCADING, ForeignKey, logs_cascades
from tailrace.schema.tokens import quoted_table
from tailrace.schema.user_schema import parse
from tailrace.table_filter import only_name
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from tailrace.live.connect import ServerConnection
    from tailrace.live.url import Source
    from tailrace.position import Position
    from tailrace.schema.tables import TableState
    from tailrace.table_filter import TableFilter

_SYSTEM: Final = ("mysql", "sys", "information_schema", "performance_schema")
_NEXT: Final = re.compile(r" AUTO_INCREMENT=\d+")
_TRIES: Final = 5
_NO_DATABASE: Final = 1049
_NO_TABLE: Final = 1146
_EVERYWHERE: Final = TableName("mysql", "db")
"""A table of every server. A user that may read it may read all other tables, too."""


@contextmanager
def connected(source: Source) -> Iterator[ServerConnection]:
    """A connection to the first host that answers; errors of statements are Tailrace's own types.

    Raises what `connect` raises.
    """
    failed: Exception | None = None
    for host in source.hosts:
        try:
            connection = connect(source, host)
            break
        except ConnectionLost as error:
            failed = error
    else:
        raise failed or ConnectionLost(f"{source.name}: there is no host")
    try:
        with translated(source.name):
            yield connection
    finally:
        if connection.open:
            connection.close()


def lowers_names(source: Source) -> bool | None:
    """As `lower_case`; None if the server cannot be asked."""
    try:
        with connected(source) as connection:
            return lower_case(connection)
    except TailraceError:
        return None


def lower_case(connection: ServerConnection) -> bool:
    """Whether a server puts names into lower case (``lower_case_table_names``)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.lower_case_table_names")
        answer = ServerAnswer(cursor.fetchall(), 1, server=connection.name, asked="SELECT")
        return answer.text(0) != "0"


def tables_of(connection: ServerConnection) -> set[TableName]:
    """The tables that the user may see, without the server's own, views and sequences."""
    marks = ", ".join(["%s"] * len(_SYSTEM))
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_schema, table_name FROM information_schema.tables "  # noqa: S608 - marks
            f"WHERE table_schema NOT IN ({marks}) "
            "AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')",
            _SYSTEM,
        )
        rows: Any = cursor.fetchall()
    found = ServerAnswer(rows, 2, server=connection.name, asked="information_schema.tables")
    return {TableName(found.text(0, row), found.text(1, row)) for row in range(len(found))}


@dataclass(frozen=True)
class Definitions:
    """A server's answers about tables: their definitions, or why there is none.

    The tables had these definitions when the server's log ended at ``end``. Without ``end`` there
    are no definitions.
    """

    tables: Mapping[TableName, TableState]
    reasons: Mapping[TableName, str]
    end: Position | None = None
    flavour: Flavour = Flavour.MYSQL


def definitions_of(source: Source, tables: Collection[TableName]) -> Definitions:
    """The current definitions of tables on the first host. Raises what connecting raises."""
    found: dict[TableName, TableState] = {}
    with Session.open(source) as session:
        print_in_full(session)
        now, _ = _all_created(session, tables)
        for _ in range(_TRIES):
            created = now
            try:
                end = session.end()
            except ServerError as error:
                return Definitions({}, dict.fromkeys(tables, printable(first_line(error))))
            now, reasons = _all_created(session, tables)
            if now == created:  # no statement changed one of them around that moment
                break
    for table, sql in now.items():
        if created.get(table) != sql:
            reasons[table] = "statements keep changing it"
            continue
        try:
            found[table] = defined_by(sql, table, session.flavour)
        except SchemaError as error:
            reasons[table] = printable(first_line(error))
    return Definitions(found, reasons, end, session.flavour)


def _all_created(
    session: Session, tables: Collection[TableName]
) -> tuple[dict[TableName, str], dict[TableName, str]]:
    """Each table's CREATE TABLE, or why the server does not show it."""
    created: dict[TableName, str] = {}
    reasons: dict[TableName, str] = {}
    for table in tables:
        try:
            created[table] = created_by(session, table)
        except ServerError as error:
            reasons[table] = printable(first_line(error))
    return created, reasons


def print_in_full(session: Session) -> None:
    """Let SHOW CREATE TABLE print what our parser reads, and all columns that are logged."""
    session.query("SET SESSION sql_mode = '', sql_quote_show_create = 1")
    try:
        session.query("SET SESSION show_gipk_in_create_table_and_information_schema = ON")
    except ServerError as error:  # MariaDB has no such columns, nor has MySQL before 8.0.30
        if error.code != UNKNOWN_VARIABLE:
            raise


def created_by(session: Session, table: TableName) -> str:
    """The CREATE TABLE of a table, without the next value of its AUTO_INCREMENT; after
    `print_in_full`.
    """
    sql = f"SHOW CREATE TABLE {quoted_table(*table)}"
    columns, end, options = session.ask(sql, 2, needs="SELECT").text(1).rpartition("\n)")
    return columns + end + _NEXT.sub("", options)


def defined_by(created: str, table: TableName, flavour: Flavour) -> TableState:
    """The definition in a CREATE TABLE (`created_by`)."""
    (state,) = parse(created, flavour)
    return replace(state, definition=replace(state.definition, database=table.database))


def unlogged_cascades(
    connection: ServerConnection,
) -> dict[TableName, list[ForeignKey]] | None:
    """The foreign keys whose cascaded changes are not logged, by the table that has them.

    Only tables that the user may see are covered. None: the server logs such changes.
    """
    actions = sorted(CASCADING)
    with connection.cursor() as cursor:
        if logs_cascades(connection.server_version):
            cursor.execute("SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'")
            native = ServerAnswer(
                cursor.fetchall(), 2, server=connection.name, asked="SHOW VARIABLES"
            )
            if not len(native) or native.text(1) != "ON":
                return None
        cursor.execute(
            "SELECT constraint_schema, table_name, constraint_name, delete_rule, update_rule "
            "FROM information_schema.referential_constraints "
            "WHERE delete_rule IN %s OR update_rule IN %s",
            (actions, actions),
        )
        rules = _answer(connection, cursor.fetchall(), 5, "referential_constraints")
        if not rules:
            return {}
        cursor.execute(
            "SELECT table_schema, table_name, constraint_name, column_name, "
            "referenced_table_schema, referenced_table_name, referenced_column_name "
            "FROM information_schema.key_column_usage WHERE referenced_table_name IS NOT NULL "
            "ORDER BY table_schema, table_name, constraint_name, ordinal_position"
        )
        parts = _answer(connection, cursor.fetchall(), 7, "key_column_usage")
    columns: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for *key, column, database, table, referenced in parts:
        columns.setdefault(tuple(key), []).append((column, database, table, referenced))
    found: dict[TableName, list[ForeignKey]] = {}
    for database, table, name, on_delete, on_update in rules:
        if known := columns.get((database, table, name)):  # the user may see the whole key
            own, schemas, tables, others = zip(*known, strict=True)
            found.setdefault(TableName(database, table), []).append(
                ForeignKey(own, schemas[0], tables[0], others, on_delete, on_update, name)
            )
    return found


def _answer(connection: ServerConnection, rows: Any, width: int, asked: str) -> list[list[str]]:
    """The rows of an answer, all text."""
    found = ServerAnswer(rows, width, server=connection.name, asked=f"information_schema.{asked}")
    return [[found.text(at, row) for at in range(width)] for row in range(len(found))]


def not_to_be_seen(
    connection: ServerConnection, wants: TableFilter, tables: Collection[TableName]
) -> bool:
    """Whether a pattern that matches none of the tables may match one that the user cannot see."""
    missing = wants.unmatched(tables)
    for pattern in (*missing.names, *missing.wildcards):
        name = only_name(pattern)
        if not is_known(connection, name if name and name.database else _EVERYWHERE):
            return True
    return False


def has_rows(connection: ServerConnection, table: TableName) -> bool:
    """Whether a table has rows. True if the user may not read it, since it may have rows."""
    return _selected(connection, table, 1) is not False


def is_known(connection: ServerConnection, table: TableName) -> bool:
    """Whether the server tells this user if the table exists."""
    return _selected(connection, table, 0) is not None


def _selected(connection: ServerConnection, table: TableName, rows: int) -> bool | None:
    """Whether the query returned rows; None if the user may not read the table."""
    try:
        with translated(connection.name), connection.cursor() as cursor:
            return bool(cursor.execute(f"SELECT 1 FROM {quoted_table(*table)} LIMIT {rows}"))  # noqa: S608 - the name is quoted
    except AccessDenied:
        return None
    except ServerError as error:
        if error.code not in {_NO_DATABASE, _NO_TABLE}:
            raise
    return False
