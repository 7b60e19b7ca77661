"""Statements of the log: what they define, and how to execute them with their session settings."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

from tailrace.errors import SchemaError
from tailrace.generators.event import context_of
from tailrace.generators.log_context import QueryContext
from tailrace.generators.statement import StatementQuery
from tailrace.schema.classify import StatementKind, classify, of_database
from tailrace.schema.clauses import RenameTable, exchanged_tables, merged_tables
from tailrace.schema.ddl import (
    AlterTable,
    CreateLike,
    CreateTable,
    DropDatabase,
    DropTable,
    Name,
    PutDatabase,
    RenameTo,
    Temporary,
    Truncate,
    Unclear,
    effects,
)
from tailrace.schema.session import is_generated, session_of_event
from tailrace.schema.tokens import (
    Kind,
    NotUnderstoodError,
    TokenCursor,
    is_several,
    quoted_name,
    tokenize,
)
from tailrace.sql.settings import OWN
from tailrace.sql.statement import Statement
from tailrace.sql.text import hexadecimal, quoted
from tailrace.table_name import TableName, all_of
from tailrace.transaction.statements import without_start_transaction
from tailrace.values.charsets import as_logged, charset_of, encode, is_exact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tailrace.events import QueryEvent
    from tailrace.generators.statement import UserVariable
    from tailrace.log.changes import Logged
    from tailrace.log.reader import TransactionHead
    from tailrace.schema.ddl import Effect
    from tailrace.schema.tokens import SqlToken
    from tailrace.sql.settings import Settings
    from tailrace.table_filter import TableFilter


def effects_in(event: QueryEvent) -> tuple[Effect, ...]:
    """The effects that a statement's text has, in the session in which it ran.

    `Catalogue.effects_of` returns those that it had on the tables that existed.
    """
    session, sql = session_of_event(event, event.form.flavour)
    return () if session is None else effects(sql, event.database, session)


def pair(table: Name) -> TableName:
    """A table's name; the database is empty if it is unknown."""
    return TableName(*table.key)


def renaming(effect: Effect) -> tuple[TableName, TableName] | None:
    """The old and the new name, if an effect renames a table."""
    if isinstance(effect, RenameTo):
        return pair(effect.old), pair(effect.new)
    if isinstance(effect, AlterTable):
        for clause in effect.clauses:
            if isinstance(clause, RenameTable):
                old = pair(effect.name)
                return old, TableName(clause.database or old.database, clause.table)
    return None


def concerns(event: QueryEvent, wants: Callable[[str, str], bool]) -> bool:
    """Whether a statement defines a requested table, or its database as a whole.

    A statement that is not understood is treated as one for all tables of its database.
    """
    return any(wants(*table) for effect in effects_in(event) for table in _tables(effect, event))


def selected(event: QueryEvent, wants: TableFilter) -> QueryEvent | None:
    """The definition, reduced to the requested tables; None if it concerns others only.

    A DROP or RENAME of several tables is cut down to the requested ones. Raises SchemaError if
    another definition also changes tables that are not requested, or reads one: the target may have
    tables of its own by these names.
    """
    found = effects_in(event)
    kept = [_keeps(effect, event, wants) for effect in found]
    if all(each is False for each in kept):
        return None
    if all(each or isinstance(effect, Temporary) for each, effect in zip(kept, found, strict=True)):
        return event
    if (
        None not in kept
        and not event.error_code
        and {type(effect) for effect in found} in ({DropTable}, {RenameTo})
        and (cut := _cut_down(event, kept)) is not None
    ):
        return cut
    others = {
        str(TableName(database or "?", table)) if table else all_of(database or "?")
        for effect in found
        for database, table in _tables(effect, event)
        if not table or not wants(database, table)
    }
    raise event.error(
        f"«{event.sql:.200}» also concerns tables that are not selected"
        f" ({', '.join(sorted(others))}): apply it by hand, then resume after it (--start)",
        SchemaError,
    )


def _keeps(effect: Effect, event: QueryEvent, wants: TableFilter) -> bool | None:
    """Whether an effect is one of requested tables only; None if it is of others, too."""
    match effect:
        case PutDatabase():
            return wants(effect.database, "")
        case DropDatabase():
            return wants.of_database(effect.database)
        case Unclear(name=None):
            return None
        case _:
            found = {wants(*table) for table in _tables(effect, event)}
            return found.pop() if len(found) == 1 else None


def _tables(effect: Effect, event: QueryEvent) -> list[TableName]:
    """All tables that an effect names."""
    match effect:
        case PutDatabase() | DropDatabase():
            return [TableName(effect.database, "")]
        case RenameTo():
            return [pair(effect.old), pair(effect.new)]
        case CreateLike():
            return [pair(effect.name), pair(effect.source)]
        case AlterTable():
            moved = renaming(effect)
            renamed = () if moved is None else moved[1:]
            others = (*effect.exchanged, *_others(merged_tables, event))
            return [pair(effect.name), *renamed, *others]
        case Unclear(name=Name() as name):
            others = (*_others(exchanged_tables, event), *_others(merged_tables, event))
            return [pair(name), *others]
        case CreateTable():
            return [pair(effect.name), *_others(merged_tables, event)]
        case DropTable() | Temporary() | Truncate():
            return [pair(effect.name)]
        case _:
            return [TableName(event.database, "")]


def _others(find: Callable[..., list[TableName]], event: QueryEvent) -> list[TableName]:
    """Further tables that a clause names."""
    return find(_tokens(event), event.database, lowers_names=event.form.lowers_names)


def _tokens(event: QueryEvent) -> list[SqlToken]:
    session, sql = session_of_event(event, event.form.flavour)
    try:
        return [] if session is None else tokenize(sql, session.flavour, session.sql_mode)
    except NotUnderstoodError:
        return []


def _cut_down(event: QueryEvent, kept: Sequence[bool | None]) -> QueryEvent | None:
    """A DROP or RENAME of several tables with some of them; None if the text is not in its
    character set.
    """
    _, text = session_of_event(event, event.form.flavour)
    cursor = TokenCursor(_tokens(event))
    while cursor.next().key not in {"TABLE", "TABLES", "SEQUENCE"}:
        pass
    cursor.accept("IF", "EXISTS")
    head = text[: cursor.token.start]
    parts = []
    for keeps in kept:
        start = cursor.token.start
        while cursor.token.key not in {",", ";"} and cursor.token.kind is not Kind.END:
            cursor.next()
        if keeps:
            parts.append(text[start : cursor.token.start].strip())
        cursor.accept(",")
    charset = charset_of(event.client_collation or 45)
    if not is_exact(charset, text, event.sql_bytes):
        return None
    # a line of its own for each part: it may end with a comment that the end of its line ends
    return event.replace(sql=as_logged(charset, head + "\n, ".join(parts)))


_NOT_SINGLE: Final = frozenset({"big5", "cp932", "gb18030", "gbk", "sjis"})
"""Character sets whose characters may contain a byte that is a quote or a backslash in ASCII."""


def statement_of(item: Logged) -> Statement:
    """The statement of a log, as `statement_of_query` gives it.

    Raises SchemaError if its event has several: a client would execute all, a replica none.
    """
    event = item.event
    if b";" in event.sql_bytes and (problem := _not_one(event)):
        raise event.error(
            f"{problem}: «{event.sql:.200}»: leave its transaction out (start, until)", SchemaError
        )
    return statement_of_query(StatementQuery(QueryContext(item, 0)), item.group)


def _not_one(event: QueryEvent) -> str:
    """Why an event's text is not one statement for certain; empty if it is."""
    session, sql = session_of_event(event, event.form.flavour)
    if session is None:
        return "the first half of an ALTER that contains a semicolon is not understood"
    try:
        if is_several(sql, session.flavour, session.sql_mode):
            return "one event has several statements, which a replica rejects"
    except NotUnderstoodError as error:
        return f"a statement that contains a semicolon is not understood ({error.message})"
    return ""


def statement_of_query(
    query: StatementQuery,
    group: TransactionHead | None = None,
    *,
    collation: Callable[[str], str] = str,
) -> Statement:
    """The statement, as its server executed it; ``collation`` gives a user variable's by its name.

    ``CREATE TABLE ... START TRANSACTION``, which only a replica may execute, loses its last words:
    the rows follow in a separate transaction. Raises UnsupportedType for a user variable of an
    unknown type, SchemaError for a definition of which the character set is not known.
    """
    raw, text = query.query_bytes, query.query_string
    shorter = without_start_transaction(raw)
    raw = raw if shorter is None else shorter
    kind = classify(text)
    uses = query.uses_current_database is not False and not of_database(text)
    charset, settings = query.character_set_client, _settings(query)
    if _is_generated(query):
        charset, settings = None, tuple({**dict(settings), **dict(OWN)}.items())
    return Statement(
        raw.decode("utf-8", "surrogateescape"),
        settings,
        group,
        query.current_database if uses else None,
        tuple(_one_shots(query, collation)),
        alone=not kind.changes_rows or kind is StatementKind.CREATE_SELECT,
        logged=True,
        charset=client_charset(charset, raw),
    )


def _is_generated(query: StatementQuery) -> bool:
    """Whether a statement is UTF-8, whatever its client's character set. Raises SchemaError if it
    may be, and would mean something else.
    """
    context = context_of(query)
    if not isinstance(context, QueryContext):
        return False
    found = is_generated(context.event)
    if found is None:
        raise context.event.error(
            "the character set of this definition is unknown: its client's"
            f" ({query.character_set_client}), or UTF-8 if the server generated it:"
            f" «{query.query_string:.200}»: execute it yourself and continue after it (start)",
            SchemaError,
        )
    return found


def client_charset(charset: str | None, sql: bytes) -> str | None:
    """The character set that a client has to know to find the end of a statement, if any."""
    return charset if charset in _NOT_SINGLE and not sql.isascii() else None


_SWITCHES: Final = {
    "explicit_defaults_for_timestamp": "explicit_defaults_for_timestamp",
    "sql_require_primary_key": "sql_require_primary_key",
    "default_table_encryption": "default_table_encryption",
    "check_constraint_checks": "check_constraint_checks",
    "sql_if_exists": "if_exists",
    "system_versioning_insert_history": "inserts_history",
}
"""Session variables that are on or off, and the accessors that say so if the statement has them."""


def _settings(query: StatementQuery) -> Settings:
    """The session variables that the statement reads."""
    settings = {
        "sql_mode": str(query.sql_mode or 0),
        "foreign_key_checks": "01"[query.foreign_key_checks is not False],
        "unique_checks": "01"[query.unique_checks is not False],
        "sql_auto_is_null": "01"[bool(query.auto_is_null)],
        "timestamp": "DEFAULT" if query.timestamp is None else _moment(query.timestamp),
        "lc_time_names": str(query.lc_time_names or 0),
        "auto_increment_increment": str(query.auto_increment_increment or 1),
        "auto_increment_offset": str(query.auto_increment_offset or 1),
    }
    for variable in ("character_set_client", "collation_connection", "collation_server"):
        if (name := getattr(query, variable)) is not None:
            settings[variable] = name
    if zone := query.time_zone:
        settings["time_zone"] = quoted(zone)
    if (collation := query.default_collation_for_utf8mb4) is not None:
        settings["default_collation_for_utf8mb4"] = collation
    for variable, accessor in _SWITCHES.items():
        if (switch := getattr(query, accessor)) is not None:
            settings[variable] = str(int(switch))
    if pairs := query.character_set_collations:
        settings["character_set_collations"] = quoted(
            ",".join(f"{charset}={collation}" for charset, collation in pairs)
        )
    if query.uses_temporary_tables and query.connection_id is not None:
        settings["pseudo_thread_id"] = str(query.connection_id)
    return tuple(settings.items())


def _moment(microseconds: int) -> str:
    seconds, fraction = divmod(microseconds, 1_000_000)
    return f"{seconds}.{fraction:06}" if fraction else str(seconds)


def _one_shots(query: StatementQuery, collation: Callable[[str], str]) -> Iterator[str]:
    if (last := query.last_insert_id) is not None:
        yield f"SET @@session.last_insert_id = {last}"
    if (generated := query.insert_id) is not None:
        yield f"SET @@session.insert_id = {generated}"
    if (seeds := query.random_seeds) is not None:
        yield f"SET @@session.rand_seed1 = {seeds[0]}"
        yield f"SET @@session.rand_seed2 = {seeds[1]}"
    for each in query.user_variables or ():
        yield f"SET @{quoted_name(each.name)} = {_user_value(each, collation)}"


def _user_value(variable: UserVariable, collation: Callable[[str], str]) -> str:
    value, name = variable.value, variable.collation
    if value is None:
        return "NULL"
    if isinstance(value, (str, bytes)):
        charset = (name or "utf8mb4").partition("_")[0]
        if charset == "binary":
            data = value if isinstance(value, bytes) else value.encode()
            return f"_binary {hexadecimal(data)}"
        data = value if isinstance(value, bytes) else encode(charset, value)
        literal = f"_{charset} {hexadecimal(data)}"
        return literal if name is None else f"{literal} COLLATE {collation(name)}"
    if isinstance(value, float):
        text = repr(value)
        return text if "e" in text else f"{text}e0"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return f"CAST({value} AS UNSIGNED)" if variable.unsigned else str(value)
