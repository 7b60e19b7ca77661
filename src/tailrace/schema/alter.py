"""Applies ALTER TABLE to a table of a catalogue."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import starmap, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from tailrace.constants import Flavour
from tailrace.schema.clauses import (
    FIRST,
    Clause,
    Convert,
    DropColumn,
    DropConstraint,
    PrimaryKey,
    PutColumn,
    RenameColumn,
    RenameTable,
    ShowColumn,
    Versioning,
)
from tailrace.schema.columns import as_binary, reinterpreted, widened
from tailrace.schema.foreign_keys import ForeignKey, named
from tailrace.schema.hidden import KeyPart, UniqueKey, prefixes_of
from tailrace.schema.tables import (
    Charset,
    TableState,
    count_hashes,
    merge,
    not_null,
)
from tailrace.schema.tokens import NotUnderstoodError
from tailrace.values.charsets import BINARY
from tailrace.values.schema import ColumnDefinition, Logical

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.schema.columns import WrittenColumn
    from tailrace.schema.session import StatementSession
    from tailrace.values.schema import TableDefinition


class Altered(NamedTuple):
    """A table after ALTER TABLE; ``renamed`` is its new name, if it has one."""

    state: TableState
    renamed: RenameTable | None


@lru_cache(maxsize=256)
def apply_clauses(
    state: TableState, clauses: tuple[Clause, ...], session: StatementSession, database: int | None
) -> Altered:
    """Alter a table as the servers do: in one step, independent of the order of the clauses.

    ``database`` is the default collation of the table's database. Raises `NotUnderstoodError` where
    the clauses do not fit the table's known definition.
    """
    charset = Charset()
    converted: Convert | None = None
    renamed: RenameTable | None = None
    versioned = state.row_end is not None
    period: tuple[str, str] | None = None
    for clause in clauses:
        if isinstance(clause, Charset):
            charset = merge(charset, clause)
        elif isinstance(clause, Convert):
            converted = clause
        elif isinstance(clause, RenameTable):
            renamed = clause
        elif isinstance(clause, Versioning) and clause.period is None:
            versioned = clause.on
        elif isinstance(clause, Versioning):
            period = clause.period
    default = collation = session.choose(charset.charset, charset.collation, state.collation)
    if converted is not None:
        to = converted.charset
        collation = session.choose(to.charset, to.collation, database)
        if session.flavour is Flavour.MYSQL or charset == Charset():
            default = collation
    plain = state.unversion()
    own = plain.definition.columns == state.definition.columns
    plan = _Plan(plain.definition.columns, clauses)
    columns = tuple(plan.columns(collation, session, convert=converted is not None))
    shown = {c.name.casefold(): c.visible for c in clauses if isinstance(c, ShowColumn)}
    columns = tuple(
        replace(column, visible=shown.get(column.name.casefold(), column.visible))
        for column in columns
    )
    key, prefixes = plan.key(plain.definition)
    known = {column.name.casefold() for column in columns}
    if any(name.casefold() not in known for name in key):
        raise NotUnderstoodError("the primary key names an unknown column")
    uniques = [clause for clause in clauses if isinstance(clause, UniqueKey)]
    written = [put.column for put in plan.puts]
    altered = TableState(
        replace(
            plain.definition,
            columns=not_null(columns, (*key, *(period or ()))),
            primary_key=key,
            key_prefixes=prefixes,
        ),
        default,
        hidden=state.hidden + count_hashes(uniques, written, columns, session),
        foreign_keys=plan.foreign_keys(state),
    )
    if period is not None and not versioned:
        raise NotUnderstoodError("a period of versions on the columns of a table without versions")
    if versioned:
        bounds = (None, state.row_end) if own and state.row_end else None
        altered = altered.version(period or bounds)
    return Altered(altered, renamed)


class _Plan:
    """Which columns stay, which are redefined, and where they are placed.

    The order is that of both servers' ``mysql_prepare_alter_table``. First come the old columns,
    each in its place unless it is dropped. Then, in the order of the statement, new columns are
    inserted, and columns with a new place are moved. A place names a column by its name after the
    statement.
    """

    def __init__(self, old: tuple[ColumnDefinition, ...], clauses: tuple[Clause, ...]) -> None:
        self.old = {column.name.casefold(): column for column in old}
        self.dropped: set[str] = set()
        self.changes: dict[str, PutColumn | RenameColumn] = {}
        self.added: set[str] = set()
        self.puts: list[PutColumn] = []
        self.clauses = clauses
        for clause in clauses:
            if isinstance(clause, DropColumn):
                if self._known(clause.name, clause.lenient):
                    self.dropped.add(clause.name.casefold())
            elif isinstance(clause, RenameColumn):
                if self._known(clause.old, clause.lenient):
                    self.changes[clause.old.casefold()] = clause
            elif isinstance(clause, PutColumn):
                self._put(clause)

    def _known(self, name: str, lenient: bool) -> bool:
        if name.casefold() in self.old:
            return True
        if lenient:
            return False
        raise NotUnderstoodError(f"it names an unknown column {name!r}")

    def _put(self, clause: PutColumn) -> None:
        if clause.old is None:
            name = clause.column.name.casefold()
            if clause.lenient and (name in self.old or name in self.added):
                return
            self.added.add(name)
        elif self._known(clause.old, clause.lenient):
            self.changes[clause.old.casefold()] = clause
        else:
            return
        self.puts.append(clause)

    def columns(
        self, collation: int | None, session: StatementSession, *, convert: bool
    ) -> list[ColumnDefinition]:
        """The columns after the statement, in a table with that default collation.

        ``convert`` is for CONVERT TO: it applies to all text columns, including those that the
        statement itself adds.
        """
        result = _Columns()

        def made(column: WrittenColumn) -> ColumnDefinition:
            defined = column.define(collation, session)
            if not convert:
                return defined
            wanted = session.binary_of(collation) if column.type.binary else collation
            return converted_column(defined, wanted, widen=False)

        def kept(column: ColumnDefinition) -> ColumnDefinition:
            return converted_column(column, collation, widen=True) if convert else column

        for folded, column in self.old.items():
            change = self.changes.get(folded)
            if folded in self.dropped:
                continue
            if isinstance(change, RenameColumn):
                result.append(kept(replace(column, name=change.new)))
            elif change is None:
                result.append(kept(column))
            else:
                result.append(made(change.column))
        for put in self.puts:
            column = made(put.column)
            if put.old is not None and column.name.casefold() not in result.names:
                raise NotUnderstoodError(f"it drops the column {put.old!r} that it changes")
            if put.old is not None and put.place is not None:
                result.remove(column)
            if put.old is None or put.place is not None:
                result.insert(column, put.place)
        if len(set(result.names)) != len(result.names):
            raise NotUnderstoodError("it gives two columns the same name")
        return result.columns

    def key(self, old: TableDefinition) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """The primary key after the statement, and its prefixes.

        Renamed columns get their new names in it, dropped ones are removed.
        """
        parts: list[KeyPart] = []
        for name, prefix in zip_longest(old.primary_key, old.key_prefixes):
            change = self.changes.get(name.casefold())
            if isinstance(change, RenameColumn):
                parts.append(KeyPart(change.new, prefix))
            elif change is not None:
                parts.append(KeyPart(change.column.name, prefix))
            elif name.casefold() not in self.dropped:
                parts.append(KeyPart(name, prefix))
        added = [clause for clause in self.clauses if isinstance(clause, PrimaryKey)]
        if any(not clause.columns for clause in added):
            parts = []
        inline = PrimaryKey(tuple(put.column.name for put in self.puts if put.column.primary))
        for clause in (*added, inline):
            if clause.columns:
                parts = list(starmap(KeyPart, zip_longest(clause.columns, clause.prefixes)))
        return tuple(part.column for part in parts), prefixes_of(parts)

    def foreign_keys(self, old: TableState) -> tuple[ForeignKey, ...]:
        """The table's foreign keys after the statement; those to the table itself keep their
        references.
        """
        dropped = {
            each.name.casefold() for each in self.clauses if isinstance(each, DropConstraint)
        }
        names = renamed_columns(self.clauses)
        kept = tuple(
            key.renamed(names, {})
            for key in old.foreign_keys
            if key.name.casefold() not in dropped
            and not self.dropped & {name.casefold() for name in key.columns}
        )
        new: list[ForeignKey] = []
        for each in self.clauses:
            found = each.column.references if isinstance(each, PutColumn) else each
            if isinstance(found, ForeignKey):
                new.append(found)
        definition = old.definition
        return named(definition.database, definition.table, kept, new)


def renamed_columns(clauses: Iterable[Clause]) -> dict[str, str]:
    """The new names of columns that ALTER TABLE renames, by their case-folded old names."""
    found: dict[str, str] = {}
    for each in clauses:
        if isinstance(each, RenameColumn):
            found[each.old.casefold()] = each.new
        elif isinstance(each, PutColumn) and each.old is not None:
            found[each.old.casefold()] = each.column.name
    return found


class _Columns:
    """Columns in order, and their case-folded names in the same order."""

    def __init__(self) -> None:
        self.columns: list[ColumnDefinition] = []
        self.names: list[str] = []

    def append(self, column: ColumnDefinition) -> None:
        self.columns.append(column)
        self.names.append(column.name.casefold())

    def remove(self, column: ColumnDefinition) -> None:
        at = self.at(column.name)
        del self.columns[at], self.names[at]

    def insert(self, column: ColumnDefinition, place: str | None) -> None:
        """Insert a column at its place, named as after the statement; None: at the end."""
        at = len(self.names) if place is None else 0 if place == FIRST else self.at(place) + 1
        self.columns.insert(at, column)
        self.names.insert(at, column.name.casefold())

    def at(self, name: str) -> int:
        """A column's index. Raises `NotUnderstoodError` if there is no column of that name."""
        try:
            return self.names.index(name.casefold())
        except ValueError:
            raise NotUnderstoodError(f"it names an unknown column {name!r}") from None


def converted_column(
    column: ColumnDefinition, collation: int | None, *, widen: bool
) -> ColumnDefinition:
    """A column after CONVERT TO: bytes stay bytes, all text gets the character set."""
    if column.declared.startswith(("enum(", "set(")):
        return column if column.collation == BINARY else reinterpreted(column, collation)
    textual = column.logical in {Logical.TEXT, Logical.JSON} and column.declared != "json"
    if not textual:
        return column
    declared = column.declared
    if collation != BINARY:
        if widen:
            declared = widened(declared, column.collation, collation)
        return replace(column, collation=collation, declared=declared)
    base, _, rest = declared.partition("(")
    declared = f"{as_binary(base)}({rest}" if rest else as_binary(base)
    return replace(column, collation=BINARY, declared=declared, logical=Logical.BINARY)
