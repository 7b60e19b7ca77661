"""A logged statement as its effects on a catalogue."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace.schema.clauses import Clause, PrimaryKey, RenameTable, parse_clauses
from tailrace.schema.cursor import TokenCursor
from tailrace.schema.sequences import parse_sequence
from tailrace.schema.session import StatementSession
from tailrace.schema.tables import (
    Charset,
    TableBody,
    merge,
    parse_charset,
    parse_elements,
    parse_options,
)
from tailrace.schema.tokens import NotUnderstoodError, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.constants import Flavour
    from tailrace.schema.tokens import SqlMode

_LONGEST_KEPT: Final = 1 << 13
"""Characters of the longest statement whose effects are kept."""


@dataclass(frozen=True, slots=True)
class Name:
    """A table's name; the database is None if it is unknown."""

    database: str | None
    table: str


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A table is created; with ``unless_exists`` it may have existed."""

    name: Name
    table: TableBody
    unless_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateLike:
    name: Name
    source: Name
    unless_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterTable:
    name: Name
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class RenameTo:
    old: Name
    new: Name


@dataclass(frozen=True, slots=True)
class DropTable:
    name: Name


@dataclass(frozen=True, slots=True)
class Truncate:
    """All rows are removed, without a row event."""

    name: Name


@dataclass(frozen=True, slots=True)
class Temporary:
    """A temporary table is created or dropped: none of its rows is in a log."""

    name: Name
    made: bool


@dataclass(frozen=True, slots=True)
class PutDatabase:
    """CREATE or ALTER DATABASE; with ``unless_exists`` it may have existed."""

    database: str
    charset: Charset
    made: bool
    unless_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropDatabase:
    database: str


@dataclass(frozen=True, slots=True)
class Unclear:
    """The statement changes this table (None: some table) in a way that is not understood."""

    name: Name | None
    reason: str


Effect = (
    CreateTable
    | CreateLike
    | AlterTable
    | RenameTo
    | DropTable
    | Truncate
    | Temporary
    | PutDatabase
    | DropDatabase
    | Unclear
)


def effects(sql: str, database: str | None, session: StatementSession) -> tuple[Effect, ...]:
    """The effects of a statement on tables and databases; none for any other statement.

    Never raises for invalid SQL: what is not understood is returned as `Unclear`.
    """
    if len(sql) > _LONGEST_KEPT:
        return _effects(sql, database, session)
    return _kept_effects(
        sql,
        database,
        session.flavour,
        session.default_collation,
        session.sql_mode,
        tuple(session.charset_collations.items()),
        session.thread_specific,
    )


@functools.lru_cache(maxsize=256)
def _kept_effects(
    sql: str,
    database: str | None,
    flavour: Flavour,
    default_collation: int | None,
    sql_mode: SqlMode,
    charset_collations: tuple[tuple[str, int], ...],
    thread_specific: bool,
) -> tuple[Effect, ...]:
    """Programs repeat their statements, and effects are never changed in place."""
    session = StatementSession(
        flavour, default_collation, sql_mode, dict(charset_collations), thread_specific
    )
    return _effects(sql, database, session)


def _effects(sql: str, database: str | None, session: StatementSession) -> tuple[Effect, ...]:
    parser = _Parser(database, session)
    try:
        tokens = tokenize(sql, session.flavour, session.sql_mode)
        return tuple(parser.statement(TokenCursor(tokens)))
    except NotUnderstoodError as error:
        return (Unclear(parser.name, str(error)),)


class _Parser:
    """Parses one statement; ``name`` is the table that it concerns, once that is known."""

    def __init__(self, database: str | None, session: StatementSession) -> None:
        self.database = database or None
        self.session = session
        self.name: Name | None = None

    def statement(self, cursor: TokenCursor) -> Iterator[Effect]:
        while cursor.accept_any("(", ";"):
            pass
        while cursor.accept("SET", "STATEMENT"):  # MariaDB: SET STATEMENT variable=value FOR …
            while not cursor.done and not cursor.accept("FOR"):
                cursor.next()
        match cursor.next().key:
            case "CREATE":
                yield from self._create(cursor)
            case "ALTER":
                yield from self._alter(cursor)
            case "DROP":
                yield from self._drop(cursor)
            case "RENAME" if cursor.accept_any("TABLE", "TABLES"):
                yield from self._rename(cursor)
            case "TRUNCATE":
                cursor.accept("TABLE")
                yield Truncate(self._name(cursor))
            case _:
                return

    def _name(self, cursor: TokenCursor) -> Name:
        database, table = cursor.qualified()
        return Name(database or self.database, table)

    def _create(self, cursor: TokenCursor) -> Iterator[Effect]:
        cursor.accept("OR", "REPLACE")
        temporary = cursor.accept("TEMPORARY")
        if cursor.accept_any("DATABASE", "SCHEMA"):
            unless_exists = cursor.accept("IF", "NOT", "EXISTS")
            name = cursor.name()
            yield PutDatabase(name, _charset(cursor), made=True, unless_exists=unless_exists)
            return
        what = cursor.accept_any("TABLE", "SEQUENCE")
        if not what:
            return
        unless_exists = cursor.accept("IF", "NOT", "EXISTS")
        table = self._name(cursor)
        if temporary:
            yield Temporary(table, made=True)
            return
        self.name = table
        if what == "SEQUENCE":
            yield CreateTable(table, parse_sequence(cursor, self.session), unless_exists)
            return
        yield self._create_table(cursor, table, unless_exists)

    def _create_table(self, cursor: TokenCursor, name: Name, unless_exists: bool) -> Effect:
        if cursor.accept("LIKE") or cursor.accept("(", "LIKE"):
            return CreateLike(name, self._name(cursor), unless_exists)
        table = TableBody()
        if cursor.token.key == "(" and not cursor.query_begins():
            table = parse_elements(cursor, self.session)
        table = parse_options(cursor, table)
        if table.filled:
            return Unclear(name, "it was created from a query, whose columns are not in the log")
        if not table.columns:
            return Unclear(name, "it was created without a column list")
        return CreateTable(name, table, unless_exists)

    def _alter(self, cursor: TokenCursor) -> Iterator[Effect]:
        while cursor.accept_any("ONLINE", "OFFLINE", "IGNORE"):
            pass
        if cursor.accept_any("DATABASE", "SCHEMA"):
            yield from self._alter_database(cursor)
            return
        what = cursor.accept_any("TABLE", "SEQUENCE")
        if not what:
            return
        cursor.accept("IF", "EXISTS")
        self.name = self._name(cursor)
        if what == "SEQUENCE":
            if any(token.key == "AS" for token in cursor.tokens):
                yield Unclear(self.name, "the type of a sequence was altered")
            return
        clauses = parse_clauses(cursor, self.session)
        yield AlterTable(self.name, tuple(map(self._with_database, clauses)))

    def _with_database(self, clause: Clause) -> Clause:
        """A new name without a database is in the default one, whatever the table's old
        database.
        """
        if isinstance(clause, RenameTable) and clause.database is None:
            return replace(clause, database=self.database)
        return clause

    def _alter_database(self, cursor: TokenCursor) -> Iterator[Effect]:
        named = parse_charset(TokenCursor(cursor.tokens[cursor.at :])) is None
        database = self.database
        if named and cursor.token.key not in {"READ", "ENCRYPTION", "DEFAULT", "COMMENT"}:
            database = cursor.name()
        if database is not None:
            yield PutDatabase(database, _charset(cursor), made=False)

    def _drop(self, cursor: TokenCursor) -> Iterator[Effect]:
        if cursor.accept_any("DATABASE", "SCHEMA"):
            cursor.accept("IF", "EXISTS")
            yield DropDatabase(cursor.name())
            return
        if cursor.accept("INDEX"):
            yield from self._drop_index(cursor)
            return
        temporary = cursor.accept("TEMPORARY")
        if not cursor.accept_any("TABLE", "TABLES", "SEQUENCE"):
            return
        cursor.accept("IF", "EXISTS")
        while True:
            name = self._name(cursor)
            yield Temporary(name, made=False) if temporary else DropTable(name)
            if not cursor.accept(","):
                break

    def _drop_index(self, cursor: TokenCursor) -> Iterator[Effect]:
        """``DROP INDEX `PRIMARY` ON t`` drops the primary key; any other one changes no column."""
        cursor.accept("IF", "EXISTS")
        index = cursor.name()
        cursor.expect("ON")
        if index.upper() == "PRIMARY":
            yield AlterTable(self._name(cursor), (PrimaryKey(()),))

    def _rename(self, cursor: TokenCursor) -> Iterator[Effect]:
        cursor.accept("IF", "EXISTS")
        while True:
            old = self._name(cursor)
            if cursor.accept("WAIT"):
                cursor.next()
            cursor.accept("NOWAIT")
            cursor.expect("TO")
            yield RenameTo(old, self._name(cursor))
            if not cursor.accept(","):
                break


def _charset(cursor: TokenCursor) -> Charset:
    """The character set in a database's options."""
    charset = Charset()
    while not cursor.done:
        found = parse_charset(cursor)
        if found is None:
            cursor.next()
        else:
            charset = merge(charset, found)
    return charset
