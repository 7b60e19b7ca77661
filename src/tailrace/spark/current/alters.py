"""What an ALTER TABLE did to a table's existing rows: which columns stayed, with which values.

The log has the statement and no row: a column that was renamed keeps its values, one that was added
has its default in all rows. The statement is read again at its place in the log, which is a few
bytes for each of the rare statements that alter a table.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import EventDecodeError, SchemaError
from tailrace.events import DecodeContext
from tailrace.events.query import QueryEvent
from tailrace.events.status_vars import StatusVariable
from tailrace.schema.clauses import (
    COMPUTED,
    Convert,
    DropColumn,
    PrimaryKey,
    PutColumn,
    RenameColumn,
    moves_rows,
)
from tailrace.schema.conversions import Modes, Redeclared, may_be_narrower, redeclared
from tailrace.schema.defaults import Session, added_value
from tailrace.schema.session import session_of_event
from tailrace.schema.tokens import tokenize
from tailrace.spark.current.conform import Source
from tailrace.storage import EventReader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tailrace.columns import Split, TableChange
    from tailrace.schema.ddl import AlterTable
    from tailrace.schema.session import StatementSession
    from tailrace.schema.tokens import SqlToken
    from tailrace.values.schema import ColumnDefinition


@dataclass(frozen=True)
class Alteration:
    """The columns of a table's rows after a statement, by those before.

    ``renamed`` maps old names to new ones, ``added`` new columns to what they have in the rows that
    were there. All clauses see the table as it was before the statement, as the servers do it.
    """

    renamed: Mapping[str, str]
    added: Mapping[str, Source]
    dropped: frozenset[str]
    redeclared: Mapping[str, Redeclared] = field(default_factory=dict)
    """Columns of another type, by their new names in lower case."""
    converts: bool = False
    """All texts got another character set, and the table's definition is not known."""
    moves_rows: str | None = None
    """Why the rows after the statement are not known, if they are not."""
    statement: str = ""

    @property
    def matters(self) -> bool:
        """Whether rows written before may be any different."""
        return bool(self.renamed or self.added or self.dropped or self.redeclared or self.converts)

    @property
    def reshapes(self) -> bool:
        """Whether rows written before look different: of other columns, or rounded."""
        narrowed = any(may_be_narrower(each) for each in self.redeclared.values())
        return bool(self.renamed or self.added or self.dropped or narrowed)


_SHOWN: Final = 200


def alterations(split: Split, change: TableChange) -> dict[str, Alteration]:
    """What the statement of an ``alter`` change of a split did, by table.

    It is one table, unless a partition was exchanged for another table. Raises LogError where the
    statement cannot be read any more.
    """
    offset = change.offset
    event, context = _statement(split, offset)
    session, sql = session_of_event(event, context.flavour)
    if session is None or change.effect is None:
        return {}
    tokens = tokenize(sql, session.flavour, session.sql_mode)
    told = f"{' '.join(sql.split())[:_SHOWN]} ({split.file}:{offset})"
    done = {change.table: _altered(change.effect, change, event, session, tokens, told)}
    moved = Alteration({}, {}, frozenset(), moves_rows=_moved(told, "its rows"), statement=told)
    return done | dict.fromkeys(change.others, moved)


def _moved(told: str, what: str) -> str:
    return f"{what} may have come, gone or changed with {told}, and the log has no row of it"


def _altered(
    effect: AlterTable,
    change: TableChange,
    event: QueryEvent,
    session: StatementSession,
    tokens: Sequence[SqlToken],
    told: str,
) -> Alteration:
    renamed: dict[str, str] = {}
    added: dict[str, Source] = {}
    dropped: set[str] = set()
    moves = moves_rows(effect.clauses)
    after = change.after.columns if change.after is not None else ()
    defined = {each.name.casefold(): each for each in after}
    started = Session(
        event.timestamp_us,
        event.status_value(StatusVariable.TIME_ZONE),
        event.explicit_timestamps,
    )
    modes = Modes.of(event.status_value(StatusVariable.SQL_MODE) or 0, session.flavour)
    for clause in effect.clauses:
        match clause:
            case PutColumn(column, None):
                new = defined.get(column.name.casefold()) or column.define(None, session)
                added[column.name] = _added(clause, tokens, new, started, told)
            case PutColumn(column, old) if old != column.name:
                renamed[str(old)] = column.name
            case RenameColumn(old, new):
                renamed[old] = new
            case DropColumn(name):
                dropped.add(name)
            case _:
                pass
    return Alteration(
        renamed,
        added,
        frozenset(dropped),
        _all_redeclared(effect, change, renamed, session, modes),
        change.after is None and any(isinstance(each, Convert) for each in effect.clauses),
        None if moves is None else _moved(told, f"its rows ({moves})"),
        told,
    )


def _all_redeclared(
    effect: AlterTable,
    change: TableChange,
    renamed: Mapping[str, str],
    session: StatementSession,
    modes: Modes,
) -> dict[str, Redeclared]:
    """The columns that the statement declares otherwise than before, by name.

    Where the table's definition is not known, these are the columns that it names. The server
    computes generated columns again, by expressions that may have changed.
    """
    found: dict[str, Redeclared] = {}
    unknown = Redeclared(None, modes)

    def put(new: ColumnDefinition, old: ColumnDefinition | None) -> None:
        try:
            made = redeclared(new, session.flavour, modes, old)
        except SchemaError:
            made = unknown
        found[new.name.casefold()] = made

    if change.before is not None and change.after is not None:
        before = {column.name.casefold(): column for column in change.before.columns}
        back = {new.casefold(): old.casefold() for old, new in renamed.items()}
        for column in change.after.columns:
            name = column.name.casefold()
            old = before.get(back.get(name, name))
            if old is not None and replace(old, name=column.name, visible=column.visible) != column:
                put(column, old)
    generated = {
        column.name.casefold()
        for definition in (change.before, change.after)
        for column in (definition.columns if definition is not None else ())
        if column.generated
    }
    if found:
        found |= dict.fromkeys(generated, unknown)
    known = change.before is not None and change.after is not None
    for clause in effect.clauses:
        match clause:
            case PutColumn(written, str()):
                name = written.name.casefold()
                if written.generated or name in generated:
                    found[name] = unknown
                elif not known:
                    put(written.define(None, session), None)
            case PrimaryKey(columns) if not known and not modes.strict:
                for each in columns:  # it may have been NULL, which becomes a value
                    found.setdefault(each.casefold(), replace(unknown, nullable=False))
            case _:
                pass
    return found


def _statement(split: Split, offset: int) -> tuple[QueryEvent, DecodeContext]:
    context = DecodeContext()
    for at, raw in EventReader(split.log, start=offset):
        event = context.decode(raw, file=split.file, offset=at)
        if at == offset and isinstance(event, QueryEvent):
            return event, context
        if at >= offset:
            break
    raise EventDecodeError("the statement that stood here is gone", file=split.file, offset=offset)


def _added(
    clause: PutColumn,
    tokens: Sequence[SqlToken],
    new: ColumnDefinition,
    session: Session,
    told: str,
) -> Source:
    """What an added column has in the rows that there are."""
    own = tokens[slice(*clause.tokens)]
    if not COMPUTED.isdisjoint(token.key for token in own):
        return Source(None, unknown=f"it is computed by the server, by {told}")
    try:
        return Source(None, _text(added_value(new, own, session)))
    except SchemaError as error:
        return Source(None, unknown=f"its default {error.message}, by {told}")


def _text(value: Any) -> str | None:
    """A default's value as SELECT prints it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("ascii")
    return format(value, "f") if isinstance(value, Decimal) else repr(value)
