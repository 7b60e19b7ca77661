"""The clauses of ALTER TABLE that change columns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from tailrace.schema.columns import WrittenColumn, parse_column
from tailrace.schema.foreign_keys import ForeignKey
from tailrace.schema.hidden import UniqueKey, prefixes_of
from tailrace.schema.tables import (
    MOST_COLUMNS,
    Charset,
    Key,
    merge,
    parse_charset,
    parse_key,
)
from tailrace.schema.tokens import TokenCursor
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tailrace.schema.session import StatementSession
    from tailrace.schema.tokens import SqlToken

FIRST: Final = ""
"""The place before all columns; any other place is after the column of that name."""


@dataclass(frozen=True, slots=True)
class PutColumn:
    """ADD (``old`` is None), MODIFY and CHANGE; ``place`` is None if none is given.

    ``tokens`` is the range of the column's definition in the statement's tokens.
    """

    column: WrittenColumn
    old: str | None = None
    place: str | None = None
    lenient: bool = False
    """IF EXISTS or IF NOT EXISTS is given."""
    tokens: tuple[int, int] = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class DropColumn:
    name: str
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn:
    old: str
    new: str
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class ShowColumn:
    """ALTER COLUMN name SET VISIBLE or INVISIBLE."""

    name: str
    visible: bool


@dataclass(frozen=True, slots=True)
class PrimaryKey:
    """ADD PRIMARY KEY; or DROP, if there are no columns."""

    columns: tuple[str, ...]
    prefixes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """DROP FOREIGN KEY or DROP CONSTRAINT, which may be a constraint of another kind."""

    name: str


@dataclass(frozen=True, slots=True)
class Convert:
    """CONVERT TO CHARACTER SET: every text column and the table's default."""

    charset: Charset


@dataclass(frozen=True, slots=True)
class Versioning:
    """ADD or DROP SYSTEM VERSIONING; ``period`` are the columns of ADD PERIOD FOR SYSTEM_TIME."""

    on: bool
    period: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class RenameTable:
    database: str | None
    table: str


@dataclass(frozen=True, slots=True)
class MovesRows:
    """A clause with which rows may come, go or change, and the log has no row of it.

    That is each clause that is not known to leave rows alone: with a partition, a tablespace or an
    engine rows come or go, and ``ALTER IGNORE`` drops those that do not fit.
    """

    what: str


Clause = (
    PutColumn
    | DropColumn
    | RenameColumn
    | ShowColumn
    | PrimaryKey
    | UniqueKey
    | ForeignKey
    | DropConstraint
    | Convert
    | Versioning
    | RenameTable
    | Charset
    | MovesRows
)


def moves_rows(clauses: Iterable[Clause]) -> str | None:
    """The clause of an ALTER TABLE with which rows may come, go or change without row events.

    None if it has none. Without versions, a table loses the rows that were before others, or keeps
    them as rows like any other.
    """
    for clause in clauses:
        if isinstance(clause, MovesRows):
            return clause.what
        if isinstance(clause, Versioning) and not clause.on:
            return "DROP SYSTEM VERSIONING"
    return None


def exchanged_tables(
    tokens: Sequence[SqlToken], database: str, *, lowers_names: bool = False
) -> list[TableName]:
    """The table in ``EXCHANGE PARTITION p WITH TABLE`` or ``CONVERT PARTITION p TO TABLE``.

    ``database`` is the session's default: the table is in it unless another is named, whatever the
    database of the table that is altered.
    """
    keys = [token.key for token in tokens]
    if not {("EXCHANGE", "PARTITION"), ("CONVERT", "PARTITION"), ("CONVERT", "TABLE")} & set(
        pairwise(keys)
    ):
        return []
    found = []
    for place in range(1, len(keys)):
        if keys[place] == "TABLE" and keys[place - 1] in {"WITH", "TO", "CONVERT"}:
            cursor = TokenCursor(tokens, lowers_names=lowers_names)
            cursor.at = place + 1
            own, table = cursor.qualified()
            found.append(TableName(own or database, table))
    return found


def merged_tables(
    tokens: Sequence[SqlToken], database: str, *, lowers_names: bool = False
) -> list[TableName]:
    """The tables of which a MERGE table consists: ``UNION = (a, d.b)``. What is written to it is
    written to them.
    """
    found = []
    for place, token in enumerate(tokens):
        cursor = TokenCursor(tokens, lowers_names=lowers_names)
        cursor.at = place + 1
        if token.key != "UNION" or not (cursor.accept("=") or cursor.token.key == "("):
            continue
        cursor.expect("(")
        while cursor.token.key not in {")", "(", "SELECT", "WITH", "VALUES", "TABLE"}:
            own, table = cursor.qualified()
            found.append(TableName(own or database, table))
            cursor.accept(",")
    return found


COMPUTED: Final = frozenset({"AS", "GENERATED", "AUTO_INCREMENT", "SERIAL"})
"""Words of a column whose values the server computes, row by row."""


def names_after(clauses: Iterable[Clause]) -> Callable[[str], str | None] | None:
    """A function that gives a column's name after an ALTER TABLE, None if it is dropped.

    There is none if all columns keep their names.
    """
    names: dict[str, str | None] = {}
    for clause in clauses:
        match clause:
            case DropColumn():
                names[clause.name.casefold()] = None
            case RenameColumn():
                names[clause.old.casefold()] = clause.new
            case PutColumn(old=str() as old) if old != clause.column.name:
                names[old.casefold()] = clause.column.name
    return (lambda name: names.get(name.casefold(), name)) if names else None


def parse_clauses(cursor: TokenCursor, session: StatementSession) -> tuple[Clause, ...]:
    """The clauses after ``ALTER TABLE name`` that change columns or names.

    Raises `NotUnderstoodError` where a clause might do so and is not understood.
    """
    clauses: list[Clause] = []
    puts = 0
    while not cursor.done:
        if cursor.accept(","):
            continue
        found = _clause(cursor, session)
        puts += sum(isinstance(clause, PutColumn) for clause in found)
        if puts > MOST_COLUMNS:
            raise cursor.error(f"more columns than a table may have ({MOST_COLUMNS})")
        clauses += found
    return tuple(clauses)


def _clause(cursor: TokenCursor, session: StatementSession) -> list[Clause]:
    charset = parse_charset(cursor)
    if charset is not None:
        return [charset]
    match cursor.token.key:
        case "ADD":
            cursor.next()
            return _add(cursor, session)
        case "DROP":
            cursor.next()
            return _drop(cursor)
        case "MODIFY" | "CHANGE":
            return [_change(cursor, session, cursor.next().key)]
        case "RENAME":
            cursor.next()
            return _rename(cursor)
        case "CONVERT":
            cursor.next()
            if cursor.accept("TO"):
                return [_convert(cursor)]
            return [_moves(cursor, "CONVERT")]  # MariaDB's CONVERT PARTITION and CONVERT TABLE
        case "WITH" if cursor.accept("WITH", "SYSTEM", "VERSIONING"):
            return [Versioning(on=True)]
        case "PARTITION" if cursor.ahead().key == "BY":
            while not cursor.done:
                cursor.next()
        case "ORDER":
            _pass_order(cursor)
        case "ALTER":
            cursor.next()
            return _alter_column(cursor)
        case _:
            return _option(cursor)
    return []


_ENGINES: Final = frozenset({"INNODB", "MYISAM", "ARIA", "MEMORY", "HEAP", "ARCHIVE", "ROCKSDB"})
"""The engines that keep a table's rows."""
_VALUED: Final = frozenset(
    {"ALGORITHM", "AUTOEXTEND_SIZE", "AUTO_INCREMENT", "AVG_ROW_LENGTH", "CHECKSUM", "COMMENT"}
    | {"COMPRESSION", "DELAY_KEY_WRITE", "ENCRYPTED", "ENCRYPTION", "ENCRYPTION_KEY_ID"}
    | {"ENGINE_ATTRIBUTE", "IETF_QUOTES", "KEY_BLOCK_SIZE", "LOCK", "MAX_ROWS", "MIN_ROWS"}
    | {"PACK_KEYS", "PAGE_CHECKSUM", "PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL", "PASSWORD"}
    | {"ROW_FORMAT", "SECONDARY_ENGINE", "SECONDARY_ENGINE_ATTRIBUTE", "STATS_AUTO_RECALC"}
    | {"STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "TABLE_CHECKSUM", "TABLESPACE", "TRANSACTIONAL"}
    | {"WAIT"}
)
"""Options with a value that leave rows alone."""
_PHRASES: Final = (
    *(("ENABLE", "KEYS"), ("DISABLE", "KEYS"), ("WITH", "VALIDATION"), ("WITHOUT", "VALIDATION")),
    *(("REMOVE", "PARTITIONING"), ("UPGRADE", "PARTITIONING"), ("FORCE",), ("NOWAIT",)),
    *(("ONLINE",), ("SECONDARY_LOAD",), ("SECONDARY_UNLOAD",), (";",)),
)
"""Clauses of fixed words that leave rows alone."""
_PARTITIONS: Final = frozenset(
    {"ANALYZE", "CHECK", "COALESCE", "OPTIMIZE", "REBUILD", "REORGANIZE"}
)
"""What can be done to partitions that leaves rows alone."""


def _option(cursor: TokenCursor) -> list[Clause]:
    """A table's option, or what is done to its partitions."""
    if any(cursor.accept(*words) for words in _PHRASES):
        return []
    word = cursor.next().key
    if word in {"DATA", "INDEX"} and cursor.accept("DIRECTORY"):
        word = "COMMENT"
    if word in _PARTITIONS and cursor.accept("PARTITION"):
        _pass_partitions(cursor)
        return []
    if word == "ENGINE":
        cursor.accept("=")
        engine = cursor.next().value.upper()
        if engine in _ENGINES:
            return []
        word = f"ENGINE = {engine}"
    elif word in _VALUED:
        cursor.accept("=")
        cursor.next()
        return []
    return [_moves(cursor, word)]


def _moves(cursor: TokenCursor, word: str) -> MovesRows:
    """Skip a clause that is not known to leave rows alone."""
    if cursor.token.key in {"PARTITION", "TABLESPACE", "TABLE"}:
        word = f"{word} {cursor.token.key}"
    _pass_clause(cursor)
    return MovesRows(word)


def _pass_partitions(cursor: TokenCursor) -> None:
    """Skip the names of partitions, with their commas, and what is done to them."""
    while not cursor.done:
        if cursor.token.key == "(":
            cursor.skip_parentheses()
        elif cursor.token.key == "," and cursor.ahead().key in _RESERVED:
            return
        else:
            cursor.next()


def _pass_clause(cursor: TokenCursor) -> None:
    """Skip a clause that changes no column, up to the next comma."""
    while not cursor.done and cursor.token.key != ",":
        if cursor.token.key == "(":
            cursor.skip_parentheses()
        else:
            cursor.next()


_RESERVED: Final = frozenset(
    {"ADD", "ALTER", "CHANGE", "CHARACTER", "CHECK", "COLLATE", "CONVERT", "DEFAULT", "DROP"}
    | {"FORCE", "LOCK", "RENAME"}
)


def _pass_order(cursor: TokenCursor) -> None:
    """Skip ``ORDER BY a, b DESC`` with its commas, up to a word that cannot be a column."""
    _pass_clause(cursor)
    while cursor.token.key == "," and cursor.ahead().key not in _RESERVED:
        cursor.next()
        _pass_clause(cursor)


def _add(cursor: TokenCursor, session: StatementSession) -> list[Clause]:
    if cursor.accept("SYSTEM", "VERSIONING"):
        return [Versioning(on=True)]
    if cursor.accept("PERIOD", "FOR") or cursor.accept("PERIOD", "IF", "NOT", "EXISTS", "FOR"):
        if cursor.name().upper() != "SYSTEM_TIME":
            cursor.skip_parentheses()
            return []
        cursor.expect("(")
        start = cursor.name()
        cursor.expect(",")
        end = cursor.name()
        cursor.expect(")")
        return [Versioning(on=True, period=(start, end))]
    if cursor.token.key == "PARTITION":
        _pass_clause(cursor)
        return []
    key = parse_key(cursor, session)
    if key is not None:
        return _keys(key)
    cursor.accept("COLUMN")
    lenient = cursor.accept("IF", "NOT", "EXISTS")
    if cursor.token.key != "(":
        return [_put(cursor, session, lenient=lenient, places=True)]
    cursor.next()
    clauses: list[Clause] = []
    while True:
        key = parse_key(cursor, session)
        if key is None:
            clauses.append(_put(cursor, session, lenient=lenient))
        else:
            clauses += _keys(key)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return clauses


def _keys(key: Key) -> list[Clause]:
    """A primary key on a period is ignored: its columns may be defined in another statement."""
    if key.primary is None:
        return [*(unique.on_columns() for unique in key.unique), *key.foreign]
    parts = key.primary.on_columns().parts
    return [PrimaryKey(tuple(part.column for part in parts), prefixes_of(parts))]


def _drop(cursor: TokenCursor) -> list[Clause]:
    if cursor.accept("PRIMARY", "KEY"):
        return [PrimaryKey(())]
    if cursor.accept("SYSTEM", "VERSIONING"):
        return [Versioning(on=False)]
    if cursor.token.key == "PARTITION":
        return [_moves(cursor, "DROP")]
    if any(cursor.sees(*each) for each in (("PERIOD", "FOR"), ("PERIOD", "IF", "EXISTS", "FOR"))):
        _pass_clause(cursor)
        return []
    if cursor.accept("FOREIGN", "KEY"):
        cursor.accept("IF", "EXISTS")
        return [DropConstraint(cursor.name())]
    if word := cursor.accept_any("INDEX", "KEY", "CONSTRAINT"):
        cursor.accept("IF", "EXISTS")
        name = cursor.name()
        if name.upper() == "PRIMARY":
            return [PrimaryKey(())]
        return [DropConstraint(name)] if word == "CONSTRAINT" else []
    if cursor.token.key == "CHECK":
        _pass_clause(cursor)
        return []
    cursor.accept("COLUMN")
    lenient = cursor.accept("IF", "EXISTS")
    name = cursor.column()
    cursor.accept_any("RESTRICT", "CASCADE")
    return [DropColumn(name, lenient)]


def _change(cursor: TokenCursor, session: StatementSession, word: str) -> PutColumn:
    cursor.accept("COLUMN")
    lenient = cursor.accept("IF", "EXISTS")
    old = cursor.column() if word == "CHANGE" else None
    put = _put(cursor, session, lenient=lenient, places=True)
    return replace(put, old=old or put.column.name)


def _put(
    cursor: TokenCursor, session: StatementSession, *, lenient: bool, places: bool = False
) -> PutColumn:
    """A column's definition; with ``places``, FIRST or AFTER may follow."""
    start = cursor.at
    column = parse_column(cursor, session)
    tokens = start, cursor.at
    place = _place(cursor) if places else None
    return PutColumn(column, place=place, lenient=lenient, tokens=tokens)


def _place(cursor: TokenCursor) -> str | None:
    if cursor.accept("FIRST"):
        return FIRST
    return cursor.name() if cursor.accept("AFTER") else None


def _alter_column(cursor: TokenCursor) -> list[Clause]:
    """After ALTER: only a column's visibility matters, not defaults, indexes and constraints."""
    clauses: list[Clause] = []
    if cursor.accept("COLUMN") or cursor.ahead().key == "SET":
        cursor.accept("IF", "EXISTS")
        name = cursor.name()
        if cursor.accept("SET") and cursor.token.key in {"VISIBLE", "INVISIBLE"}:
            clauses.append(ShowColumn(name, cursor.token.key == "VISIBLE"))
    _pass_clause(cursor)
    return clauses


def _rename(cursor: TokenCursor) -> list[Clause]:
    if cursor.accept("COLUMN"):
        lenient = cursor.accept("IF", "EXISTS")
        old = cursor.name()
        cursor.expect("TO")
        return [RenameColumn(old, cursor.name(), lenient)]
    if cursor.accept_any("INDEX", "KEY"):
        _pass_clause(cursor)
        return []
    cursor.accept_any("TO", "AS", "=")
    return [RenameTable(*cursor.qualified())]


def _convert(cursor: TokenCursor) -> Convert:
    charset = parse_charset(cursor)
    if charset is None or charset.charset is None:
        raise cursor.error("CHARACTER SET expected")
    if cursor.token.key == "COLLATE":
        charset = merge(charset, parse_charset(cursor) or charset)
    return Convert(charset)
