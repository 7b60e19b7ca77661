"""What an ALTER TABLE did to a table's existing rows: which columns stayed, with which values.

The log has the statement and no row: a column that was renamed keeps its values, one that was added
has its default in all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tailrace.errors import SchemaError
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
from tailrace.schema.tokens import tokenize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tailrace.events.query import QueryEvent
    from tailrace.schema.clauses import Clause
    from tailrace.schema.session import StatementSession
    from tailrace.schema.tokens import SqlToken
    from tailrace.values.schema import ColumnDefinition, TableDefinition


@dataclass(frozen=True, slots=True)
class Added:
    """What an added column has in existing rows: ``text``, as SELECT prints it (None: NULL).

    ``unknown`` says why the log does not tell.
    """

    text: str | None = None
    unknown: str | None = None


@dataclass(frozen=True, slots=True)
class Alteration:
    """The columns of a table's rows after a statement, by those before.

    ``renamed`` maps old names to new ones, ``added`` new columns to what existing rows have in
    them. All clauses see the table as it was before the statement, as the servers do it.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    added: Mapping[str, Added] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
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


def exchanged(statement: str) -> Alteration:
    """What a statement did to a table that it exchanged a partition for."""
    return Alteration(moves_rows=_moved("its rows", statement), statement=statement)


def _moved(what: str, statement: str) -> str:
    return f"{what} may have come, gone or changed with {statement}, and the log has no row of it"


def altered(
    clauses: Sequence[Clause],
    before: TableDefinition | None,
    after: TableDefinition | None,
    event: QueryEvent,
    session: StatementSession,
    sql: str,
    statement: str,
) -> Alteration:
    """What the clauses of an ALTER TABLE did to its table.

    ``before`` and ``after`` are its definitions, where statements in the log or its server have
    defined it; ``sql`` is the statement of the event, which reasons quote as ``statement``.
    """
    renamed: dict[str, str] = {}
    added: dict[str, Added] = {}
    dropped: set[str] = set()
    tokens: Sequence[SqlToken] = ()
    defined = {each.name.casefold(): each for each in (after.columns if after is not None else ())}
    started = Session(
        event.timestamp_us,
        event.status_value(StatusVariable.TIME_ZONE),
        event.explicit_timestamps,
    )
    modes = Modes.of(event.status_value(StatusVariable.SQL_MODE) or 0, session.flavour)
    for clause in clauses:
        match clause:
            case PutColumn(column, None):
                new = defined.get(column.name.casefold()) or column.define(None, session)
                tokens = tokens or tokenize(sql, session.flavour, session.sql_mode)
                own = tokens[slice(*clause.tokens)]
                added[column.name] = _added(own, new, started, statement)
            case PutColumn(column, old) if old != column.name:
                renamed[str(old)] = column.name
            case RenameColumn(old, new):
                renamed[old] = new
            case DropColumn(name):
                dropped.add(name)
            case _:
                pass
    reason = moves_rows(clauses)
    return Alteration(
        renamed,
        added,
        frozenset(dropped),
        _all_redeclared(clauses, before, after, renamed, session, modes),
        after is None and any(isinstance(each, Convert) for each in clauses),
        None if reason is None else _moved(f"its rows ({reason})", statement),
        statement,
    )


def _all_redeclared(
    clauses: Iterable[Clause],
    before: TableDefinition | None,
    after: TableDefinition | None,
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

    known = before is not None and after is not None
    if before is not None and after is not None:
        olds = {column.name.casefold(): column for column in before.columns}
        back = {new.casefold(): old.casefold() for old, new in renamed.items()}
        for column in after.columns:
            name = column.name.casefold()
            old = olds.get(back.get(name, name))
            if old is not None and replace(old, name=column.name, visible=column.visible) != column:
                put(column, old)
    generated = {
        column.name.casefold()
        for definition in (before, after)
        for column in (definition.columns if definition is not None else ())
        if column.generated
    }
    if found:
        found |= dict.fromkeys(generated, unknown)
    for clause in clauses:
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


def _added(
    own: Sequence[SqlToken], new: ColumnDefinition, session: Session, statement: str
) -> Added:
    """What a column that is defined by its ``own`` tokens has in existing rows."""
    if not COMPUTED.isdisjoint(token.key for token in own):
        return Added(unknown=f"it is computed by the server, by {statement}")
    try:
        return Added(_text(added_value(new, own, session)))
    except SchemaError as error:
        return Added(unknown=f"its default {error.message}, by {statement}")


def _text(value: Any) -> str | None:
    """A default's value as SELECT prints it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("ascii")
    return format(value, "f") if isinstance(value, Decimal) else repr(value)
