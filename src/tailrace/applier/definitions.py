"""What an ALTER TABLE does to the rows that a table has, as steps for another database.

A log has no row events for it: the values of an added column, and the values that a column has in
its new type, are computed here as the source computed them. What is not sure to be the same is
rejected (`SchemaError`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import Flavour
from tailrace.errors import SchemaError
from tailrace.schema.alter import converted_column
from tailrace.schema.clauses import (
    Convert,
    DropColumn,
    DropConstraint,
    PutColumn,
    RenameColumn,
    RenameTable,
    ShowColumn,
)
from tailrace.schema.columns import TEXTUAL
from tailrace.schema.conversions import How, Modes, Sure, conversion, redeclared
from tailrace.schema.defaults import INTEGERS, DeclaredType, Session, added_value, value_of_null
from tailrace.schema.foreign_keys import ForeignKey
from tailrace.schema.hidden import UniqueKey
from tailrace.schema.tables import Charset
from tailrace.values.schema import Logical

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tailrace.schema.clauses import Clause
    from tailrace.schema.session import StatementSession
    from tailrace.schema.tokens import SqlToken
    from tailrace.values.schema import ColumnDefinition

_FRACTIONAL: Final = frozenset({"time", "datetime", "timestamp"})


@dataclass(frozen=True, slots=True)
class OldColumn:
    """A column before the statement."""

    definition: ColumnDefinition
    type: DeclaredType


@dataclass(frozen=True, slots=True)
class TableStep:
    """One thing to do to a table. ``what`` is ``drop``, ``rename``, ``convert``, ``fill`` (NULLs
    become ``value``), ``add`` or ``rename table``. ``declared`` are the old and the new type;
    ``expression`` has ``{c}`` for the column, and is None if its values stay. ``lenient`` has no
    effect if the column is (``add``) or is not there.
    """

    what: str
    column: str = ""
    new: str = ""
    declared: tuple[str, str] = ("", "")
    expression: str | None = None
    value: Any = None
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class Altering:
    """The statement: its clauses, tokens and session, and the columns before it (None: unknown).

    ``collation`` is the table's.
    """

    clauses: Sequence[Clause]
    tokens: Sequence[SqlToken]
    session: StatementSession
    sql_mode: int
    before: Mapping[str, OldColumn] | None
    database: str
    table: str
    started: Session
    collation: int | None
    is_sqlite: bool

    @property
    def modes(self) -> Modes:
        """The modes of the statement that matter to values."""
        ignores = any(token.key == "IGNORE" for token in self.tokens[:3])
        return Modes.of(self.sql_mode, self.session.flavour, ignores=ignores)

    def steps(self) -> list[TableStep]:
        """What to do, in this order. Raises SchemaError with the clause that cannot be done."""
        drops: list[TableStep] = []
        renames: list[TableStep] = []
        others: list[TableStep] = []
        last: list[TableStep] = []
        for clause in self.clauses:
            match clause:
                case DropColumn():
                    drops.append(TableStep("drop", clause.name, lenient=clause.lenient))
                case RenameColumn():
                    renames.append(
                        TableStep("rename", clause.old, new=clause.new, lenient=clause.lenient)
                    )
                case PutColumn() if clause.old is None:
                    if not self._is_left_out(clause):
                        others.append(self._added(clause))
                case PutColumn(old=str(old)):
                    new = clause.column.name
                    lenient = clause.lenient or old.casefold() == new.casefold()  # case may change
                    renames.append(TableStep("rename", old, new=new, lenient=lenient))
                    others += self._modified(clause, old)
                case Convert():
                    self._check_texts(clause)
                case RenameTable():
                    last.append(
                        TableStep(
                            "rename table", clause.database or self.database, new=clause.table
                        )
                    )
                case ForeignKey() | ShowColumn() | UniqueKey() | DropConstraint() | Charset():
                    pass
                case _:
                    raise SchemaError(_CLAUSES.get(type(clause).__name__, type(clause).__name__))
        names = [(step.column.casefold(), step.new.casefold()) for step in renames]
        if any(new in {each for each, _ in names} - {old} for old, new in names):
            raise SchemaError("columns that take each other's names")
        return [*drops, *renames, *others, *last]

    def _is_left_out(self, clause: PutColumn) -> bool:
        """MariaDB's generated columns are in no table that is created here."""
        return clause.column.generated and self.session.flavour is Flavour.MARIADB

    # --- ADD COLUMN ------------------------------------------------------------------------------

    def _added(self, clause: PutColumn) -> TableStep:
        column = clause.column
        new = self._defined(clause)
        tokens = self.tokens[slice(*clause.tokens)]
        keys = {token.key for token in tokens}
        if column.generated:
            raise SchemaError(f"ADD COLUMN {column.name}, a generated column")
        if keys & {"AUTO_INCREMENT", "SERIAL"}:
            raise SchemaError(f"ADD COLUMN {column.name} AUTO_INCREMENT")
        try:
            value = added_value(new, tokens, self.started)
        except SchemaError as error:
            raise SchemaError(f"ADD COLUMN {column.name}, whose default {error}") from None
        return TableStep(
            "add", column.name, declared=("", new.declared), value=value, lenient=clause.lenient
        )

    def _defined(self, clause: PutColumn) -> ColumnDefinition:
        return clause.column.define(self.collation, self.session)

    # --- MODIFY and CHANGE -----------------------------------------------------------------------

    def _old(self, name: str, what: str) -> OldColumn:
        if self.before is None:
            raise SchemaError(
                f"{what}, whose type until now is unknown (neither its CREATE TABLE nor a row of"
                " the table was read)"
            )
        found = self.before.get(name.casefold())
        if found is None:
            raise SchemaError(f"{what}, which is unknown")
        return found

    def _modified(self, clause: PutColumn, name: str) -> Iterator[TableStep]:
        what = f"MODIFY {name}" if name == clause.column.name else f"CHANGE {name}"
        if clause.lenient and self.before is not None and name.casefold() not in self.before:
            return
        old = self._old(name, what)
        new = self._defined(clause)
        if old.definition.generated and new.generated and self.session.flavour is Flavour.MARIADB:
            return
        if old.definition.generated or new.generated:
            raise SchemaError(f"{what}, a generated column")
        yield from self._changed(old, new, clause.column.name, what)

    def _changed(
        self, old: OldColumn, new: ColumnDefinition, called: str, what: str
    ) -> Iterator[TableStep]:
        declared = "json" if new.logical is Logical.JSON else new.declared
        kind = DeclaredType.of(declared)
        try:
            expression = self._expression(old, new, kind)
        except SchemaError as error:
            raise SchemaError(
                f"{what} from {old.type.declared} to {declared}: {error.message}"
            ) from None
        yield TableStep(
            "convert",
            called,
            declared=(old.type.declared, declared),
            expression=expression,
        )
        if old.definition.nullable and not new.nullable and not self.modes.strict:
            try:
                yield TableStep("fill", called, declared=("", declared), value=value_of_null(kind))
            except SchemaError as error:
                raise SchemaError(f"{what}, whose NULLs become a value that {error}") from None

    def _expression(self, old: OldColumn, new: ColumnDefinition, kind: DeclaredType) -> str | None:
        """The expression for a column's new values; None if they stay. Raises SchemaError if they
        are not known, by the list of exact conversions.
        """
        modes, flavour = self.modes, self.session.flavour
        to = redeclared(new, flavour, modes, old.definition)
        was = redeclared(old.definition, flavour, modes).column
        found = None if was is None else conversion(was, to)
        if found is None:
            is_padded = old.type.unsigned and kind.base in TEXTUAL
            zeros = "texts have zeros in front, if it is ZEROFILL"
            raise SchemaError(zeros if is_padded else "this conversion is not known")
        if found.sure is Sure.FITTING:
            rounded = found.how is How.NUMBER
            raise SchemaError(f"values would be {'rounded' if rounded else 'changed, or may be'}")
        if found.sure is Sure.STRICT and not modes.strict:
            raise SchemaError("values may be cut, without a strict sql_mode")
        return None if found.keeps else expression_of(old.type, kind, is_sqlite=self.is_sqlite)

    def _check_texts(self, clause: Convert) -> None:
        """CONVERT TO CHARACTER SET: the texts stay, if each column may be redefined so."""
        given = clause.charset
        what = f"CONVERT TO CHARACTER SET {given.charset or given.collation}"
        if self.before is None:
            raise SchemaError(f"{what}: the table's columns are unknown")
        collation = self.session.choose(given.charset, given.collation, None)
        for old in self.before.values():
            name = old.definition.name
            new = converted_column(old.definition, collation, widen=True)
            if new != old.definition:
                list(self._changed(old, new, name, f"{what}, which changes {name}"))


_CLAUSES: Final = {
    "PrimaryKey": "ADD or DROP PRIMARY KEY",
    "Versioning": "ADD or DROP SYSTEM VERSIONING",
}


# --- values in another type ----------------------------------------------------------------------


def expression_of(old: DeclaredType, new: DeclaredType, *, is_sqlite: bool) -> str | None:
    """The expression that makes a column's values those of another type: ``{c}`` is the column.

    None if they stay as they are. Raises SchemaError where a target's values are of another kind.
    """
    one, two = old.base, new.base
    if one in INTEGERS and two in INTEGERS:
        texts = [each.base == "bigint" and each.unsigned for each in (old, new)]
        if is_sqlite and texts[0] != texts[1]:
            return "CAST({c} AS TEXT)" if texts[1] else "CAST({c} AS INTEGER)"
        return None
    if one in {*INTEGERS, "decimal"} and two == "decimal":
        if not is_sqlite:
            return f"round({{c}}::numeric, {new.scale})"
        return _with_zeros("CAST({c} AS TEXT)", old.scale if one == "decimal" else 0, new.scale)
    if one in {*INTEGERS, "decimal"} and two in TEXTUAL:
        if is_sqlite:
            return "CAST({c} AS TEXT)"
        return f"round({{c}}, {old.scale})::text" if one == "decimal" else "{c}::text"
    if one == "float" and two == "double" and not (old.numbers or new.numbers):
        return None
    if one in {*TEXTUAL, "enum", "set"} and two in TEXTUAL:
        return _as_text(old, new, one, two)
    if one == two == "enum":
        return None
    if one == two == "set" and old.members is not None and new.members is not None:
        if [each for each in new.members if each in old.members] != list(old.members):
            raise SchemaError("its names are not kept in their order")
        return None
    if one == two and one in _FRACTIONAL and new.size >= old.size:
        return _with_zeros("{c}", old.size, new.size) if is_sqlite else None
    if one == "date" and two == "datetime":
        return _with_zeros("{c} || ' 00:00:00'", 0, new.size) if is_sqlite else None
    raise SchemaError("this conversion is not known here")


def _with_zeros(text: str, old: int, new: int) -> str | None:
    """A text with more digits after its point."""
    if new == old:
        return None if text == "{c}" else text
    return f"{text} || '{'' if old else '.'}{'0' * (new - old)}'"


def _as_text(old: DeclaredType, new: DeclaredType, one: str, two: str) -> str | None:
    cut = None
    if two in {"char", "varchar"} and not (one in {"char", "varchar"} and old.size <= new.size):
        cut = f"substr({{c}}, 1, {new.size})"
    return f"rtrim({cut or '{c}'}, ' ')" if two == "char" and one != "char" else cut


def old_columns(definitions: Iterable[ColumnDefinition]) -> dict[str, OldColumn]:
    """Columns by their folded names, from a table's definition."""
    return {
        each.name.casefold(): OldColumn(
            each, DeclaredType.of("json" if each.logical is Logical.JSON else each.declared)
        )
        for each in definitions
    }
