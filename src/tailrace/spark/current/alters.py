"""What an ALTER TABLE did to a table's existing rows: which columns stayed, with which values.

The log has the statement and no row: a column that was renamed keeps its values, one that was added
has its default in all rows. The statement is read again at its place in the log, which is a few
bytes for each of the rare statements that alter a table.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tailrace.constants import Flavour
from tailrace.errors import EventDecodeError
from tailrace.events import DecodeContext
from tailrace.events.query import QueryEvent
from tailrace.events.status_vars import StatusVariable
from tailrace.schema.clauses import (
    COMPUTED,
    DropColumn,
    PutColumn,
    RenameColumn,
    exchanged_tables,
    moves_rows,
)
from tailrace.schema.ddl import AlterTable, effects
from tailrace.schema.session import StatementSession, session_of_event
from tailrace.schema.tokens import Kind, TokenCursor, tokenize
from tailrace.spark.current.conform import Fit, Source
from tailrace.storage import EventReader
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.columns import Split, TableChange
    from tailrace.schema.columns import WrittenColumn


@dataclass(frozen=True)
class Alteration:
    """The columns of a table's rows after a statement, by those before.

    ``renamed`` maps old names to new ones, ``added`` new columns to what they have in the rows that
    were there. All clauses see the table as it was before the statement, as the servers do it.
    """

    renamed: Mapping[str, str]
    added: Mapping[str, Source]
    dropped: frozenset[str]
    moves_rows: bool = False
    """Rows come or go with the statement: with a partition, or a tablespace."""
    fits: Mapping[str, Fit] = field(default_factory=dict)
    """What is to be done to values of columns that were redeclared, by their new names."""

    @property
    def matters(self) -> bool:
        """Whether rows written before are any different."""
        return bool(self.renamed or self.added or self.dropped or self.fits)


def alterations(split: Split, change: TableChange) -> dict[str, Alteration]:
    """What the statement of an ``alter`` change of a split did, by table.

    It is one table, unless a partition was exchanged for another table. Raises LogError where the
    statement cannot be read any more.
    """
    offset = change.offset
    event, context = _statement(split, offset)
    session, sql = session_of_event(event, context.flavour)
    renamed: dict[str, str] = {}
    added: dict[str, Source] = {}
    dropped: set[str] = set()
    fits: dict[str, Fit] = {}
    if session is None:
        return {}
    tokens = tokenize(sql, session.flavour, session.sql_mode)
    for effect in effects(sql, event.database, session):
        if not isinstance(effect, AlterTable):
            continue
        if str(TableName(*effect.name.key)) != change.table:
            continue
        for clause in effect.clauses:
            match clause:
                case PutColumn(column, None):
                    start, end = clause.tokens
                    written = TokenCursor([*tokens[start:end], tokens[-1]])
                    added[column.name] = _written_default(written, column, event.timestamp)
                case PutColumn(column, old):
                    if old != column.name:
                        renamed[str(old)] = column.name
                    if (fit := _fit(column, event, session)) is not None:
                        fits[column.name] = fit
                case RenameColumn(old, new):
                    renamed[old] = new
                case DropColumn(name):
                    dropped.add(name)
                case _:
                    pass
    database = TableName.parse(change.table).database
    others = [
        str(TableName(*each))
        for each in exchanged_tables(tokens, database, lowers_names=session.lowers_names)
    ]
    moves = bool(others) or moves_rows(tokens)
    done = {change.table: Alteration(renamed, added, frozenset(dropped), moves, fits)}
    return done | {name: Alteration({}, {}, frozenset(), moves_rows=True) for name in others}


def _statement(split: Split, offset: int) -> tuple[QueryEvent, DecodeContext]:
    context = DecodeContext(lowers_names=bool(split.catalogue.lowers_names))
    for at, raw in EventReader(split.log, start=offset):
        event = context.decode(raw, file=split.file, offset=at)
        if at == offset and isinstance(event, QueryEvent):
            return event, context
        if at >= offset:
            break
    raise EventDecodeError("the statement that stood here is gone", file=split.file, offset=offset)


_FRACTIONS: Final = frozenset({"datetime", "timestamp", "time"})
_REAL: Final = frozenset({"float", "double"})
_SIZED: Final = frozenset({"char", "varchar", "binary", "varbinary", "bit"})
_TRUNCATES: Final = 1 << 32
"""MySQL's mode TIME_TRUNCATE_FRACTIONAL."""
_ROUNDS: Final = 1 << 34
"""MariaDB's mode TIME_ROUND_FRACTIONAL."""
_STRICT: Final = 1 << 21 | 1 << 22
"""STRICT_TRANS_TABLES and STRICT_ALL_TABLES: text that does not fit is an error to the server."""


def _fit(column: WrittenColumn, event: QueryEvent, session: StatementSession) -> Fit | None:
    """What a redeclared column may make of its values, where its type does not say."""
    base, arguments = column.type.base, column.type.arguments
    modes = event.status_value(StatusVariable.SQL_MODE) or 0
    declared = f"{base}({','.join(map(str, arguments))})" if arguments else base
    if base in _FRACTIONS:
        digits = arguments[0] if arguments else 0
        mysql = session.flavour is Flavour.MYSQL
        rounds = not modes & _TRUNCATES if mysql else bool(modes & _ROUNDS)
        return Fit(declared, digits, None, rounds) if digits < _MOST_DIGITS else None
    if base in _REAL and len(arguments) == _WITH_DECIMALS:
        return Fit(declared, arguments[1], arguments[0])
    if base in _SIZED and not modes & _STRICT:
        return Fit(declared, width=arguments[0] if arguments else 1)
    return None


_MOST_DIGITS: Final = 6
_WITH_DECIMALS: Final = 2

_NOW: Final = frozenset({"CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"})


def _written_default(cursor: TokenCursor, column: WrittenColumn, second: int) -> Source:
    """The default in a column's definition; the server's own where none is written."""
    depth = 0
    cursor.next()  # the column's name may be any word
    while cursor.token.kind is not Kind.END:
        token = cursor.next()
        depth += (token.key == "(") - (token.key == ")")
        if depth:
            continue
        if token.key in COMPUTED:
            return Source(None, unknown="its values are computed by the server")
        if token.key == "DEFAULT":
            return _literal(cursor, column, second)
        if token.key in {"COMMENT", "ON"}:
            cursor.next()
    return _implicit(column)


def _literal(cursor: TokenCursor, column: WrittenColumn, second: int) -> Source:
    base = column.type.base
    unknown = Source(None, unknown="its default is an expression")
    sign = cursor.accept_any("+", "-").replace("+", "")
    token = cursor.next()
    if token.key == "NULL":
        return Source(None)
    if token.key in {"TRUE", "FALSE"}:
        return Source(None, str(int(token.key == "TRUE")))
    whole_seconds = column.type.arguments in {(), (0,)}
    if token.key in _NOW and base == "timestamp" and whole_seconds:
        now = dt.datetime.fromtimestamp(second, dt.UTC)
        return Source(None, now.strftime("%Y-%m-%d %H:%M:%S"))
    if base == "year":  # two digits would be a year of this or the last century
        return Source(None, token.value) if re.fullmatch(r"\d{4}", token.value) else unknown
    if _has_more_digits(token.value, column):
        return Source(None, unknown="its default has more digits than its type")
    if token.kind is Kind.NUMBER and base not in {"date", "datetime", "timestamp", "time"}:
        return Source(None, sign + token.value)
    if token.kind is not Kind.STRING or sign:
        return unknown
    text = token.value
    if cursor.token.kind is Kind.STRING:
        return unknown
    if base == "timestamp" and text[:4] != "0000":
        return Source(None, unknown="its default is a time in the session's time zone")
    if base in {"binary", "bit", "json", "set"} and text:
        return unknown
    if base == "enum":
        found = [
            name
            for name in column.type.members or ()
            if isinstance(name, str) and name.lower() == text.lower()
        ]
        return Source(None, found[0]) if found else unknown
    if base in {"date", "datetime", "timestamp"}:
        return Source(None, _shown(text, base, column.type.arguments))
    return Source(None, text.rstrip(" ") if base == "char" else text)


def _has_more_digits(text: str, column: WrittenColumn) -> bool:
    """Whether the server rounds or cuts a default, in a way that the Arrow type does not tell."""
    base, arguments = column.type.base, column.type.arguments
    if base in _FRACTIONS:
        digits = arguments[0] if arguments else 0
    elif base in _REAL and len(arguments) == _WITH_DECIMALS:
        digits = arguments[1]
    else:
        return False
    fraction = text.partition(".")[2].rstrip("0")
    return len(fraction) > digits or (base in _REAL and "e" in text.lower())


_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?)?")


def _shown(text: str, base: str, arguments: tuple[int, ...]) -> str:
    """A moment as SELECT prints it, with as many digits as its type has."""
    digits = arguments[0] if arguments else 0
    found = _MOMENT.fullmatch(text)
    if found is None or len(found[3] or "") > digits:  # which the server rounds
        return text
    if base == "date":
        return found[1]
    fraction = f".{(found[3] or '').ljust(digits, '0')}" if digits else ""
    return f"{found[1]} {found[2] or '00:00:00'}{fraction}"


_ZEROS: Final = {
    "date": "0000-00-00",
    "datetime": "0000-00-00 00:00:00",
    "timestamp": "0000-00-00 00:00:00",
    "time": "00:00:00",
}
_NUMBERS: Final = frozenset(
    {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "year"}
)
_EMPTY: Final = frozenset(
    {"char", "varchar", "varbinary", "set"}
    | {f"{size}{base}" for size in ("tiny", "", "medium", "long") for base in ("text", "blob")}
)


def _implicit(column: WrittenColumn) -> Source:
    """What the server puts into rows where a column has no default: NULL, zero or nothing."""
    base = column.type.base
    if column.nullable and not column.primary:
        return Source(None)
    if base in _NUMBERS:
        return Source(None, "0")
    if base in _ZEROS:
        return Source(None, _shown(_ZEROS[base], base, column.type.arguments))
    if base in _EMPTY:
        return Source(None, "")
    if base == "enum" and column.type.members and isinstance(column.type.members[0], str):
        return Source(None, column.type.members[0])
    return Source(None, unknown="it has no default")
