"""The body and the options of CREATE TABLE."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.constants import Flavour
from tailrace.schema.columns import (
    WrittenColumn,
    WrittenType,
    charset_name,
    parse_column,
    parse_type,
)
from tailrace.schema.foreign_keys import moved, named, parse_foreign_key
from tailrace.schema.hidden import (
    ROW_END,
    SYSTEM_PERIOD,
    KeyPart,
    UniqueKey,
    by_name,
    may_be_hashed,
    prefixes_of,
)
from tailrace.schema.tokens import Kind
from tailrace.values.schema import TableDefinition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.schema.foreign_keys import ForeignKey
    from tailrace.schema.session import StatementSession
    from tailrace.schema.tokens import TokenCursor
    from tailrace.values.schema import ColumnDefinition


MOST_COLUMNS: Final = 4096
"""Maximum columns of a table, in both servers."""
_WITH_FOREIGN_KEYS: Final = frozenset({"", "INNODB", "NDB", "NDBCLUSTER"})
"""Engines that do not ignore foreign keys; "" stands for the server's default, InnoDB."""


@dataclass(frozen=True, slots=True)
class Charset:
    """CHARACTER SET and COLLATE of a table or a database, by name; None if not given."""

    charset: str | None = None
    collation: str | None = None


@dataclass(frozen=True, slots=True)
class TableBody:
    """The contents of CREATE TABLE's parentheses, and what follows them."""

    columns: tuple[WrittenColumn, ...] = ()
    primary_key: tuple[str, ...] = ()
    key_prefixes: tuple[int, ...] = ()
    uniques: tuple[UniqueKey, ...] = ()
    """In the order of the statement, including those of columns."""
    charset: Charset = Charset()
    versioned: bool = False
    period: tuple[str, ...] = ()
    """The columns of MariaDB's PERIOD FOR: they are not nullable."""
    system_period: tuple[str, str] | None = None
    """The columns of PERIOD FOR SYSTEM_TIME, if it is declared."""
    sequence: bool = False
    filled: bool = False
    """A query follows: it may add columns of its own."""
    foreign_keys: tuple[ForeignKey, ...] = ()
    """In the order of the statement, including those of columns."""
    engine: str = ""
    """ENGINE, in capitals, if it is given."""

    def __hash__(self) -> int:
        """Of little: it is computed for each statement, and a table may have many columns."""
        return hash(len(self.columns))

    def define(
        self, database: str, table: str, outer: int | None, session: StatementSession
    ) -> TableState:
        """The table in a database with the default collation ``outer`` (None: unknown)."""
        collation = session.choose(self.charset.charset, self.charset.collation, outer)
        key = self.primary_key or tuple(column.name for column in self.columns if column.primary)
        columns = tuple(column.define(collation, session) for column in self.columns)
        hidden = count_hashes(self.uniques, (), columns, session)
        columns = not_null(columns, (*key, *self.period))
        definition = TableDefinition(database, table, columns, key, self.key_prefixes)
        keys: tuple[ForeignKey, ...] = ()
        if self.engine in _WITH_FOREIGN_KEYS:
            keys = named(database, table, (), self.foreign_keys)
        state = TableState(definition, collation, hidden=hidden, foreign_keys=keys)
        return state.version(self.system_period) if self.versioned else state


def not_null(
    columns: Iterable[ColumnDefinition], key: tuple[str, ...]
) -> tuple[ColumnDefinition, ...]:
    """The columns; those of the primary key become not nullable."""
    folded = {name.casefold() for name in key}
    return tuple(
        replace(column, nullable=False) if column.name.casefold() in folded else column
        for column in columns
    )


def count_hashes(
    uniques: Iterable[UniqueKey],
    written: Iterable[WrittenColumn],
    columns: tuple[ColumnDefinition, ...],
    session: StatementSession,
) -> int:
    """How many unique keys, including inline ones, may have a hidden column in MariaDB."""
    if session.flavour is not Flavour.MARIADB:
        return 0
    inline = [UniqueKey((KeyPart(column.name),)) for column in written if column.unique]
    known = by_name(columns)
    return sum(may_be_hashed(key, known) for key in (*uniques, *inline))


@dataclass(frozen=True, slots=True)
class TableState:
    """A table in a catalogue.

    ``collation`` is the default for new columns. For MariaDB: ``row_end`` is the column that holds
    the end of a row in a versioned table, ``hidden`` is how many hash columns the log may have at
    the end. ``foreign_keys`` are its own, not those that reference it.
    """

    definition: TableDefinition
    collation: int | None = None
    row_end: str | None = None
    hidden: int = 0
    foreign_keys: tuple[ForeignKey, ...] = ()

    def __hash__(self) -> int:
        """Of little, as a `TableBody`'s."""
        definition = self.definition
        return hash((definition.database, definition.table, len(definition.columns)))

    def version(self, bounds: tuple[str | None, str] | None) -> TableState:
        """The same table WITH SYSTEM VERSIONING.

        ``bounds`` are the columns that hold a row's beginning and end. If none are declared (None),
        two are added at the end, which the log has and SELECT does not show. The primary key, if
        any, is extended by the column that holds a row's end, unless one of the two is in it
        already.
        """
        definition = self.definition
        columns = definition.columns
        if bounds is None:
            columns += SYSTEM_PERIOD
        row_start, row_end = bounds or (None, ROW_END)
        key, prefixes = definition.primary_key, definition.key_prefixes
        if key and not {name.casefold() for name in key} & {
            name.casefold() for name in (row_start, row_end) if name
        }:
            key = (*key, row_end)
            prefixes = prefixes and (*prefixes, 0)
        definition = replace(definition, columns=columns, primary_key=key, key_prefixes=prefixes)
        return replace(self, definition=definition, row_end=row_end)

    def unversion(self) -> TableState:
        """The same table without the columns that `version` added."""
        definition = self.definition
        columns = definition.columns
        if columns[-2:] == SYSTEM_PERIOD:
            columns = columns[:-2]
        key = tuple(name for name in definition.primary_key if name != self.row_end)
        prefixes = definition.key_prefixes[: len(key)]
        definition = replace(definition, columns=columns, primary_key=key, key_prefixes=prefixes)
        return replace(self, definition=definition, row_end=None)


def moved_table(state: TableState, database: str, table: str) -> TableState:
    """A table under another name."""
    definition = replace(state.definition, database=database, table=table)
    keys = moved(state.foreign_keys, state.definition.table, table)
    return replace(state, definition=definition, foreign_keys=keys)


def parse_elements(cursor: TokenCursor, session: StatementSession) -> TableBody:
    """The contents of CREATE TABLE's parentheses, including the parentheses."""
    columns: list[WrittenColumn] = []
    primary = UniqueKey(())
    uniques: list[UniqueKey] = []
    foreign: list[ForeignKey] = []
    periods: dict[str, tuple[str, str]] = {}
    system: tuple[str, str] | None = None
    cursor.expect("(")
    while True:
        found = parse_key(cursor, session)
        if found is not None:
            primary = found.primary or primary
            uniques += found.unique
            foreign += found.foreign
        elif cursor.accept("PERIOD", "FOR"):
            name = cursor.name()
            bounds = tuple(part.column for part in _key_parts(cursor).parts)
            if len(bounds) != 2:
                raise cursor.error("a period without its two columns")
            periods[name.casefold()] = bounds
            system = bounds if name.upper() == "SYSTEM_TIME" else system
        else:
            columns.append(parse_column(cursor, session))
            if len(columns) > MOST_COLUMNS:
                raise cursor.error(f"more columns than a table may have ({MOST_COLUMNS})")
            if columns[-1].references is not None:
                foreign.append(columns[-1].references)
            if columns[-1].unique:
                uniques.append(UniqueKey((KeyPart(columns[-1].name),)))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    versioned = any(column.versioned for column in columns)
    key = primary.on_columns(periods).parts
    return TableBody(
        tuple(columns),
        tuple(part.column for part in key),
        prefixes_of(key),
        tuple(unique.on_columns(periods) for unique in uniques),
        versioned=versioned,
        period=tuple(name for bounds in periods.values() for name in bounds),
        system_period=system,
        foreign_keys=tuple(foreign),
    )


class Key(NamedTuple):
    """An index or constraint, as far as it matters: a primary, unique or foreign key, or none."""

    primary: UniqueKey | None = None
    unique: tuple[UniqueKey, ...] = ()
    foreign: tuple[ForeignKey, ...] = ()


def parse_key(cursor: TokenCursor, session: StatementSession) -> Key | None:
    """An index, key or constraint; None, without moving the cursor, if something else follows."""
    start = cursor.at
    constraint = ""
    if cursor.accept("CONSTRAINT") and cursor.token.key not in _CONSTRAINTS:
        constraint = cursor.name()
    match cursor.token.key:
        case "PRIMARY":
            cursor.expect("PRIMARY", "KEY")
            return Key(primary=_key_parts(cursor))
        case "UNIQUE":
            cursor.next()
            cursor.accept_any("INDEX", "KEY")
            return Key(unique=(_key_parts(cursor),))
        case "INDEX" | "KEY" | "FULLTEXT" | "SPATIAL":
            cursor.next()
            cursor.accept_any("INDEX", "KEY")
            _key_parts(cursor)
        case "VECTOR" if cursor.ahead().key in {"INDEX", "KEY", "("}:
            cursor.next()
            cursor.accept_any("INDEX", "KEY")
            _key_parts(cursor)
        case "FOREIGN":
            cursor.expect("FOREIGN", "KEY")
            return Key(foreign=(parse_foreign_key(cursor, constraint, session.flavour),))
        case "CHECK":
            cursor.next()
            cursor.skip_parentheses()
            cursor.accept("NOT")
            cursor.accept("ENFORCED")
        case _ if cursor.at == start:
            return None
        case _:
            cursor.fail("a constraint is expected")
    return Key()


_CONSTRAINTS = ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK")


def _key_parts(cursor: TokenCursor) -> UniqueKey:
    """``name USING BTREE (a(10), b DESC, (expression)) options…``."""
    cursor.accept("IF", "NOT", "EXISTS")
    hashed = False
    while cursor.token.key != "(":
        if cursor.token.kind is Kind.END or cursor.token.key in {",", ")"}:
            cursor.fail("the columns of a key are expected")
        hashed |= cursor.sees("USING", "HASH")
        cursor.next()
    cursor.next()
    parts: list[KeyPart] = []
    while True:
        if cursor.token.key == "(":
            cursor.skip_parentheses()
            parts.append(KeyPart(""))
        else:
            name, prefix = cursor.name(), None
            if cursor.accept("("):
                prefix = cursor.number()
                cursor.expect(")")
            parts.append(KeyPart(name, prefix, cursor.accept("WITHOUT", "OVERLAPS")))
        cursor.accept_any("ASC", "DESC")
        if not cursor.accept(","):
            break
    cursor.expect(")")
    hashed |= _key_options(cursor)
    return UniqueKey(tuple(parts), hashed)


def _key_options(cursor: TokenCursor) -> bool:
    """USING, KEY_BLOCK_SIZE, COMMENT, WITH PARSER, VISIBLE, …, MariaDB's DISTANCE=cosine.

    Returns whether USING HASH is one of them.
    """
    hashed = False
    while True:
        if cursor.token.key in {",", ")", ";"} or cursor.token.kind is Kind.END:
            return hashed
        if cursor.sees("PARTITION", "BY") or cursor.sees("REMOVE", "PARTITIONING"):
            return hashed
        hashed |= cursor.sees("USING", "HASH")
        if cursor.accept("WITH", "PARSER"):
            cursor.name()
        elif cursor.accept_any("VISIBLE", "INVISIBLE", "IGNORED") or cursor.accept(
            "NOT", "IGNORED"
        ):
            continue
        else:
            cursor.name()
            cursor.accept("=")
            cursor.next()


def parse_options(cursor: TokenCursor, table: TableBody) -> TableBody:
    """The options and partitions after the parentheses, up to the end or a query.

    Only options that change columns or foreign keys are evaluated: character set, collation, system
    versioning, the engine and MariaDB's SEQUENCE.
    """
    while not cursor.done:
        if cursor.query_begins():
            return replace(table, filled=True)
        found = parse_charset(cursor)
        if found is not None:
            table = replace(table, charset=merge(table.charset, found))
        elif cursor.accept("WITH", "SYSTEM", "VERSIONING"):
            table = replace(table, versioned=True)
        elif cursor.token.key == "(":
            cursor.skip_parentheses()
        elif cursor.accept("ENGINE"):
            cursor.accept("=")
            table = replace(table, engine=cursor.next().value.upper())
        elif cursor.accept("SEQUENCE", "="):
            table = replace(table, sequence=cursor.next().value not in {"0", ""})
        else:
            cursor.next()
    return table


def parse_charset(cursor: TokenCursor) -> Charset | None:
    """``[DEFAULT] CHARACTER SET [=] x`` or ``[DEFAULT] COLLATE [=] x``; None if neither follows."""
    steps = 1 if cursor.token.key == "DEFAULT" else 0
    key = cursor.ahead(steps).key
    if key in {"CHARSET", "COLLATE"}:
        cursor.at += steps + 1
    elif key in {"CHARACTER", "CHAR"} and cursor.ahead(steps + 1).key == "SET":
        cursor.at += steps + 2
    else:
        return None
    value = charset_name(cursor)
    return Charset(collation=value) if key == "COLLATE" else Charset(charset=value)


def merge(earlier: Charset, later: Charset) -> Charset:
    """Options may be repeated: the last one of each counts."""
    return Charset(later.charset or earlier.charset, later.collation or earlier.collation)


_SEQUENCE_VALUES = ("next_not_cached_value", "minimum_value", "maximum_value", "start_value")
_SEQUENCE_REST = (
    WrittenColumn("increment", WrittenType("bigint"), nullable=False),
    WrittenColumn("cache_size", WrittenType("bigint", unsigned=True), nullable=False),
    WrittenColumn("cycle_option", WrittenType("tinyint", (1,), unsigned=True), nullable=False),
    WrittenColumn("cycle_count", WrittenType("bigint"), nullable=False),
)


def parse_sequence(cursor: TokenCursor, session: StatementSession) -> TableBody:
    """The part of MariaDB's CREATE SEQUENCE after the name: its one row is logged as a table's is.

    Only ``AS type`` (11.5 and later) matters to its columns.
    """
    type_ = WrittenType("bigint")
    while not cursor.done:
        if cursor.accept("AS"):
            type_ = parse_type(cursor, session)
            while cursor.accept_any("UNSIGNED", "ZEROFILL"):
                type_ = WrittenType(type_.base, unsigned=True)
        else:
            cursor.next()
    values = tuple(WrittenColumn(name, type_, nullable=False) for name in _SEQUENCE_VALUES)
    return TableBody(values + _SEQUENCE_REST)
