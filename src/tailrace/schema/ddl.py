"""A logged statement as its effects on a catalogue."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tailrace.constants import Flavour
from tailrace.errors import SchemaError
from tailrace.schema.alter import apply_clauses, renamed_columns
from tailrace.schema.clauses import (
    Clause,
    MovesRows,
    PrimaryKey,
    RenameTable,
    exchanged_tables,
    parse_clauses,
)
from tailrace.schema.letter_case import lowered
from tailrace.schema.tables import (
    Charset,
    TableBody,
    merge,
    moved_table,
    parse_charset,
    parse_elements,
    parse_options,
    parse_sequence,
)
from tailrace.schema.tokens import LONGEST_KEPT, NotUnderstoodError, TokenCursor, tokenize
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.position import Position
    from tailrace.schema.catalogue import Catalogue, Key
    from tailrace.schema.session import StatementSession

_define: Final = lru_cache(maxsize=256)(TableBody.define)


@dataclass(frozen=True, slots=True)
class Name:
    """A table's name; the database is None if it is unknown."""

    database: str | None
    table: str

    @property
    def key(self) -> Key:
        """Its key in a catalogue."""
        return self.database or "", self.table


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A table is created; with ``unless_exists`` it may have existed."""

    name: Name
    table: TableBody
    unless_exists: bool = False

    def apply(self, catalogue: Catalogue, session: StatementSession) -> None:
        """Let the catalogue have this effect; so do all of them."""
        key = self.name.key
        if self.unless_exists and catalogue.logged(key) is not None:
            return
        catalogue.created(key, unless_exists=self.unless_exists)
        outer = catalogue.collation_of(key[0], session.default_collation)
        try:
            catalogue.put(key, _define(self.table, *key, outer, session))
        except SchemaError as error:
            catalogue.forget(*key, f"{error}: {catalogue.statement}")


@dataclass(frozen=True, slots=True)
class CreateLike:
    name: Name
    source: Name
    unless_exists: bool = False

    def apply(self, catalogue: Catalogue, _session: StatementSession) -> None:
        key, source = self.name.key, self.source.key
        if self.unless_exists and catalogue.logged(key) is not None:
            return
        catalogue.created(key, unless_exists=self.unless_exists)
        state = catalogue.logged(source)
        if state is None:
            reason = f"it was made LIKE {TableName(*source)}, which is not known either"
            catalogue.forget(*key, reason)
        else:
            catalogue.put(key, replace(moved_table(state, *key), foreign_keys=()))


@dataclass(frozen=True, slots=True)
class AlterTable:
    """``exchanged`` are the tables of `tailrace.schema.clauses.exchanged_tables`."""

    name: Name
    clauses: tuple[Clause, ...]
    exchanged: tuple[TableName, ...] = ()

    def apply(self, catalogue: Catalogue, session: StatementSession) -> None:
        key = self.name.key
        state = catalogue.logged(key)
        if state is None:
            renamed = next((each for each in self.clauses if isinstance(each, RenameTable)), None)
        else:
            outer = catalogue.collation_of(key[0], session.default_collation)
            try:
                state, renamed = apply_clauses(state, self.clauses, session, outer)
            except SchemaError as error:
                reason = f"an ALTER TABLE was not understood: {error}: {catalogue.statement}"
                catalogue.forget(*key, reason)
                return
            catalogue.put(key, state)
            if names := renamed_columns(self.clauses):
                catalogue.change_references(key, lambda each: each.renamed({}, names))
        if renamed is not None:
            catalogue.rename(key, (renamed.database or key[0], renamed.table))


@dataclass(frozen=True, slots=True)
class RenameTo:
    old: Name
    new: Name
    if_exists: bool = False

    def apply(self, catalogue: Catalogue, _session: StatementSession) -> None:
        catalogue.rename(self.old.key, self.new.key)


@dataclass(frozen=True, slots=True)
class DropTable:
    name: Name

    def apply(self, catalogue: Catalogue, _session: StatementSession) -> None:
        catalogue.drop(self.name.key)


@dataclass(frozen=True, slots=True)
class Truncate:
    """All rows are removed, without a row event."""

    name: Name

    def apply(self, catalogue: Catalogue, _session: StatementSession) -> None:
        catalogue.created(self.name.key)


@dataclass(frozen=True, slots=True)
class Temporary:
    """A temporary table is created or dropped: none of its rows is in a log.

    ``client`` is the session that has it (`tailrace.schema.session.client_of`).
    """

    name: Name
    made: bool
    client: str = ""

    def apply(self, catalogue: Catalogue, _session: StatementSession) -> None:
        catalogue.put_temporary(self.name.key, self.client, made=self.made)


@dataclass(frozen=True, slots=True)
class PutDatabase:
    """CREATE or ALTER DATABASE; with ``unless_exists`` it may have existed."""

    database: str
    charset: Charset
    made: bool
    unless_exists: bool = False

    def apply(self, catalogue: Catalogue, session: StatementSession) -> None:
        outer = session.default_collation
        if self.made:
            catalogue.created((self.database, ""), unless_exists=self.unless_exists)
        else:
            outer = catalogue.collation_of(self.database, outer)
        try:
            collation = session.choose(self.charset.charset, self.charset.collation, outer)
        except SchemaError:
            collation = None
        catalogue.put_database(self.database, collation)


@dataclass(frozen=True, slots=True)
class DropDatabase:
    database: str

    def apply(self, catalogue: Catalogue, _session: StatementSession) -> None:
        catalogue.drop_database(self.database)


@dataclass(frozen=True, slots=True)
class Unclear:
    """The statement changes this table (None: some table) in a way that is not understood.

    If it is ``made``, the statement creates it: only its columns are unknown, as it has no rows.
    With ``unless_exists`` it may have existed.
    """

    name: Name | None
    reason: str
    made: bool = False
    unless_exists: bool = False

    def apply(self, catalogue: Catalogue, _session: StatementSession) -> None:
        reason = f"{self.reason}: {catalogue.statement}"
        if self.name is None:
            catalogue.forget_all(f"a statement was not understood: {reason}")
            return
        key = self.name.key
        if self.unless_exists and catalogue.logged(key) is not None:
            return
        if self.made:
            catalogue.created(key, unless_exists=self.unless_exists)
        catalogue.forget(*key, reason)


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


_MOST_SHOWN: Final = 200


def shown_statement(sql: str, at: Position | None) -> str:
    """A statement as reasons quote it: on one line, shortened, with its position if known."""
    text = " ".join(sql[: 2 * _MOST_SHOWN].split())
    text = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
    return f"«{text}»" if at is None else f"«{text}» at {at}"


def effects(sql: str, database: str | None, session: StatementSession) -> tuple[Effect, ...]:
    """The effects of a statement on tables and databases; none for any other statement.

    Never raises for invalid SQL: what is not understood is returned as `Unclear`.
    """
    work = _kept_effects if len(sql) <= LONGEST_KEPT else _effects
    return work(sql, database, session)


def _effects(sql: str, database: str | None, session: StatementSession) -> tuple[Effect, ...]:
    parser = _Parser(database, session)
    try:
        tokens = tokenize(sql, session.flavour, session.sql_mode)
        return tuple(parser.statement(TokenCursor(tokens, lowers_names=session.lowers_names)))
    except NotUnderstoodError as error:
        return (Unclear(parser.name, str(error), parser.made, parser.unless_exists),)


@lru_cache(maxsize=256)
def _kept_effects(sql: str, database: str | None, session: StatementSession) -> tuple[Effect, ...]:
    """Programs repeat their statements, and effects are never changed in place."""
    return _effects(sql, database, session)


def performed(
    found: Sequence[Effect], catalogue: Catalogue, session: StatementSession, client: str
) -> Iterator[Effect]:
    """What a statement really did, of the effects that its text has.

    ``catalogue`` has the tables before it. A name may be that of a temporary table of the session,
    or, with IF EXISTS, of no table. Each part of a statement finds the tables that the parts before
    it left.
    """
    parts = len(found) > 1 and isinstance(found[-1], RenameTo)
    known = catalogue.copy() if parts else catalogue
    for effect in found:
        for each in _performed(effect, known, session, client):
            if parts:
                each.apply(known, session)
            yield each


def _performed(
    effect: Effect, catalogue: Catalogue, session: StatementSession, client: str
) -> tuple[Effect, ...]:
    """What one effect really did.

    Servers log every DROP of a temporary table as DROP TEMPORARY. They flag a statement that used a
    temporary table, but some also flag those that follow it in a procedure, and MariaDB flags no
    RENAME TABLE. So the flag alone proves nothing. MySQL's RENAME TABLE never finds temporary
    tables.
    """
    mariadb = session.flavour is Flavour.MARIADB
    match effect:
        case Temporary():
            return (replace(effect, client=client),)
        case CreateLike() if session.thread_specific:
            if catalogue.is_temporary(effect.source.key, client):
                reason = "it was made LIKE a temporary table, whose columns are not known"
                return (Unclear(effect.name, reason, True, effect.unless_exists),)
        case Truncate() if session.thread_specific:
            if catalogue.is_temporary(effect.name.key, client):
                return ()
        case AlterTable(name, clauses) if session.thread_specific:
            if catalogue.is_temporary(name.key, client):
                news = [each for each in clauses if isinstance(each, RenameTable)]
                moved = (Name(each.database or name.database, each.table) for each in news)
                return tuple(one for new in moved for one in _moved(name, new, client))
        case RenameTo(old, new) if mariadb and catalogue.is_temporary(old.key, client):
            return _moved(old, new, client)
        case RenameTo(old, new, if_exists=True):
            return _renamed(effect, catalogue.exists(old.key), catalogue.exists(new.key))
        case _:
            pass
    return (effect,)


def _moved(old: Name, new: Name, client: str) -> tuple[Effect, ...]:
    """A temporary table is renamed."""
    return Temporary(old, False, client), Temporary(new, True, client)


def _renamed(effect: RenameTo, old: bool | None, new: bool | None) -> tuple[Effect, ...]:
    """RENAME TABLE IF EXISTS, by whether there are tables of both names.

    It does nothing without the old one. It fails where both exist, and is not logged then.
    """
    if old is False or (new and not old):
        return ()
    if old and not new:
        return (effect,)
    reason = f"the log does not tell whether {TableName(*effect.old.key)} existed"
    return Unclear(effect.old, reason), Unclear(effect.new, reason)


class _Parser:
    """Parses one statement; ``name`` is the table that it concerns, once that is known.

    ``made`` and ``unless_exists`` are those of `Unclear`, should the rest not be understood.
    """

    def __init__(self, database: str | None, session: StatementSession) -> None:
        self.database = lowered(database) if database and session.lowers_names else database or None
        self.session = session
        self.name: Name | None = None
        self.made = self.unless_exists = False

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
        replaces = cursor.accept("OR", "REPLACE")
        temporary = cursor.accept("TEMPORARY")
        if cursor.accept_any("DATABASE", "SCHEMA"):
            unless_exists = cursor.accept("IF", "NOT", "EXISTS")
            name = cursor.database()
            if replaces:
                yield DropDatabase(name)
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
        self.name, self.made, self.unless_exists = table, True, unless_exists
        if replaces:
            yield DropTable(table)
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
            reason = "it was created from a query, whose columns are not in the log"
            return Unclear(name, reason, unless_exists=unless_exists)
        if not table.columns:
            reason = "it was created without a column list"
            return Unclear(name, reason, unless_exists=unless_exists)
        return CreateTable(name, table, unless_exists)

    def _alter(self, cursor: TokenCursor) -> Iterator[Effect]:
        ignores = False
        while word := cursor.accept_any("ONLINE", "OFFLINE", "IGNORE"):
            ignores = ignores or word == "IGNORE"
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
        if ignores and clauses:
            clauses = (*clauses, MovesRows("IGNORE"))
        named = map(self._with_database, clauses)
        kept = tuple(each for each in named if not self._is_no_rename(each))
        exchanged = exchanged_tables(
            cursor.tokens, self.database or "", lowers_names=self.session.lowers_names
        )
        yield AlterTable(self.name, kept, tuple(exchanged))

    def _with_database(self, clause: Clause) -> Clause:
        """A new name without a database is in the default one, whatever the table's old
        database.
        """
        if isinstance(clause, RenameTable) and clause.database is None:
            return replace(clause, database=self.database)
        return clause

    def _is_no_rename(self, clause: Clause) -> bool:
        """Whether a clause renames the table to the name that it has, which changes nothing."""
        return isinstance(clause, RenameTable) and self.name == Name(clause.database, clause.table)

    def _alter_database(self, cursor: TokenCursor) -> Iterator[Effect]:
        named = parse_charset(TokenCursor(cursor.tokens[cursor.at :])) is None
        database = self.database
        if named and cursor.token.key not in {"READ", "ENCRYPTION", "DEFAULT", "COMMENT"}:
            database = cursor.database()
        if database is not None:
            yield PutDatabase(database, _charset(cursor), made=False)

    def _drop(self, cursor: TokenCursor) -> Iterator[Effect]:
        if cursor.accept_any("DATABASE", "SCHEMA"):
            cursor.accept("IF", "EXISTS")
            yield DropDatabase(cursor.database())
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
        if_exists = cursor.accept("IF", "EXISTS")
        while True:
            old = self._name(cursor)
            if cursor.accept("WAIT"):
                cursor.next()
            cursor.accept("NOWAIT")
            cursor.expect("TO")
            yield RenameTo(old, self._name(cursor), if_exists)
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
