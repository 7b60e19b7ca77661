"""Statements of the log: what they define, and how to execute them with their session settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import EventFlag
from tailrace.errors import UnsupportedType
from tailrace.events import IntVarEvent, RandEvent, UserVarEvent
from tailrace.events.status_vars import StatusVariable
from tailrace.events.variables import IntVarKind, UserVarType
from tailrace.schema.classify import StatementKind, classify, of_database
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
from tailrace.schema.session import session_of_event
from tailrace.schema.tokens import quoted_name
from tailrace.sql.statement import Statement
from tailrace.sql.text import hexadecimal, quoted
from tailrace.transaction.statements import without_start_transaction
from tailrace.values.charsets import charset_of, collation_name
from tailrace.values.decimals import number_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tailrace.events import Event, QueryEvent
    from tailrace.log.changes import Logged
    from tailrace.schema.ddl import Effect
    from tailrace.sql.settings import Settings


Table = tuple[str, str]
"""Database and name."""


def effects_of(event: QueryEvent) -> tuple[Effect, ...]:
    """The effects of a statement on tables and databases, in the session in which it ran."""
    session, sql = session_of_event(event, event.form.flavour)
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


_V: Final = StatusVariable
_AUTO_IS_NULL, _NO_FOREIGN_KEYS, _RELAXED = 0x4000, 0x4000000, 0x8000000
_NOT_SINGLE: Final = frozenset({"big5", "cp932", "gb18030", "gbk", "sjis"})
"""Character sets whose characters may contain a byte that is a quote or a backslash in ASCII."""


def statement_of(item: Logged) -> Statement:
    """The statement, as its server executed it.

    ``CREATE TABLE ... START TRANSACTION``, which only a replica may execute, loses its last words:
    the rows follow in a separate transaction. Raises UnsupportedType for a user variable of an
    unknown type.
    """
    event = item.event
    shorter = without_start_transaction(event.sql_bytes)
    raw = event.sql_bytes if shorter is None else shorter
    kind = classify(event.sql)
    uses = event.database and not event.header.flags & EventFlag.SUPPRESS_USE
    uses = uses and not of_database(event.sql)
    charset = _client_charset(event)
    return Statement(
        raw.decode("utf-8", "surrogateescape"),
        _settings(event),
        item.group,
        event.database if uses else None,
        tuple(_one_shots(item.before)),
        alone=not kind.changes_rows or kind is StatementKind.CREATE_SELECT,
        logged=True,
        charset=charset if charset in _NOT_SINGLE and not raw.isascii() else None,
    )


def _client_charset(event: QueryEvent) -> str | None:
    collation = event.client_collation
    return None if collation is None else charset_of(collation)


def _settings(event: QueryEvent) -> Settings:
    """The session variables that are set by the event's status variables."""
    status = event.status_value
    flags = status(_V.FLAGS2) or 0
    settings = {
        "sql_mode": str(status(_V.SQL_MODE) or 0),
        "foreign_key_checks": "01"[not flags & _NO_FOREIGN_KEYS],
        "unique_checks": "01"[not flags & _RELAXED],
        "sql_auto_is_null": "01"[bool(flags & _AUTO_IS_NULL)],
        "timestamp": _moment(event.timestamp_us),
        "lc_time_names": str(status(_V.LC_TIME_NAMES) or 0),
    }
    step, first = status(_V.AUTO_INCREMENT) or (1, 1)
    settings |= {"auto_increment_increment": str(step), "auto_increment_offset": str(first)}
    if (charset := status(_V.CHARSET)) is not None:
        client, connection, server = charset
        flavour = event.form.flavour
        settings["character_set_client"] = charset_of(client)
        settings["collation_connection"] = collation_name(connection, flavour)
        settings["collation_server"] = collation_name(server, flavour)
    if zone := status(_V.TIME_ZONE):
        settings["time_zone"] = quoted(zone)
    for code, variable in _FLAGS.items():
        if (value := status(code)) is not None:
            settings[variable] = str(value)
    if pairs := status(_V.CHARACTER_SET_COLLATIONS):
        known = (
            (charset_of(charset), collation_name(to, event.form.flavour)) for charset, to in pairs
        )
        settings["character_set_collations"] = quoted(
            ",".join(f"{charset}={collation}" for charset, collation in known)
        )
    if event.header.flags & EventFlag.THREAD_SPECIFIC:
        settings["pseudo_thread_id"] = str(event.thread_id)
    return tuple(settings.items())


_FLAGS: Final = {
    _V.EXPLICIT_DEFAULTS_FOR_TIMESTAMP: "explicit_defaults_for_timestamp",
    _V.DEFAULT_COLLATION_FOR_UTF8MB4: "default_collation_for_utf8mb4",
    _V.SQL_REQUIRE_PRIMARY_KEY: "sql_require_primary_key",
    _V.DEFAULT_TABLE_ENCRYPTION: "default_table_encryption",
}


def _moment(microseconds: int) -> str:
    seconds, fraction = divmod(microseconds, 1_000_000)
    return f"{seconds}.{fraction:06}" if fraction else str(seconds)


def _one_shots(events: tuple[Event, ...]) -> Iterator[str]:
    for event in events:
        match event:
            case IntVarEvent():
                last = event.kind is IntVarKind.LAST_INSERT_ID
                yield f"SET @@session.{'last_insert_id' if last else 'insert_id'} = {event.value}"
            case RandEvent():
                yield f"SET @@session.rand_seed1 = {event.seed1}"
                yield f"SET @@session.rand_seed2 = {event.seed2}"
            case UserVarEvent():
                yield f"SET @{quoted_name(event.variable)} = {_user_value(event)}"


def _user_value(event: UserVarEvent) -> str:
    value: Any = event.value
    match event.value_type:
        case None:
            return "NULL"
        case UserVarType.STRING:
            charset = charset_of(event.collation or 0)
            if charset == "binary":
                return f"_binary {hexadecimal(value)}"
            collated = collation_name(event.collation or 0, event.form.flavour)
            return f"_{charset} {hexadecimal(value)} COLLATE {collated}"
        case UserVarType.INT:
            return f"CAST({value} AS UNSIGNED)" if event.unsigned else str(value)
        case UserVarType.REAL:
            text = repr(value)
            return text if "e" in text else f"{text}e0"
        case UserVarType.DECIMAL:
            return number_text(value[2:], value[0], value[1])
    raise UnsupportedType(f"user variable {event.variable} of type {event.value_type}")
