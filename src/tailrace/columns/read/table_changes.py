"""What logged statements do to tables as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tailrace.position import parts_of
from tailrace.schema.alteration import exchanged
from tailrace.schema.clauses import RenameTable
from tailrace.schema.ddl import (
    AlterTable,
    CreateLike,
    CreateTable,
    DropDatabase,
    DropTable,
    Effect,
    Name,
    RenameTo,
    Truncate,
    Unclear,
)
from tailrace.table_name import TableName, all_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.schema.alteration import Alteration


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a statement did to a table as a whole, by its ``seq`` in the order of all changes.

    ``table`` is a `TableName` as text (`all_of` for a dropped database); ``renamed`` is the new
    name of a renamed table. ``unclear`` says that the statement was not understood. An ``alter``
    has an ``alteration``.
    """

    seq: int
    kind: Literal["create", "alter", "drop", "truncate", "rename", "unclear"]
    table: str
    renamed: str | None = None
    began: int = 0
    """Where the statement's transaction begins in its file."""
    micros: int = 0
    """When it was committed: microseconds UTC, as ``_ts`` of rows."""
    columns: bool = True
    """Whether it may have changed the table's columns or its key."""
    exchanged: bool = False
    """A partition of another table was exchanged for it."""
    reason: str = ""
    """What was not understood, and the statement."""
    statement: str = ""
    """The statement, as reasons quote it."""
    alteration: Alteration | None = field(default=None, compare=False, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """All tables that it names."""
        renamed = () if self.renamed is None else (self.renamed,)
        return (self.table, *renamed)

    @property
    def offset(self) -> int:
        """The statement's offset in its file (`tailrace.position.sequence`)."""
        return parts_of(self.seq)[1]


def table_changes(
    effect: Effect, seq: int, statement: str, done: Alteration | str | None
) -> Iterator[TableChange]:
    """The changes made by the effect of a statement at ``seq``; ``statement`` quotes it.

    ``done`` is what an ALTER TABLE did to its table's rows, or why that is not known.
    """
    match effect:
        case CreateTable() | CreateLike():
            if not effect.unless_exists:
                yield TableChange(seq, "create", _text(effect.name))
        case AlterTable():
            name, columns = _text(effect.name), bool(effect.clauses)
            if isinstance(done, str):
                reason = f"{done}: {statement}"
                yield TableChange(seq, "unclear", name, columns=columns, reason=reason)
            else:
                yield TableChange(seq, "alter", name, columns=columns, alteration=done)
            for other in map(str, effect.exchanged):
                yield TableChange(
                    seq,
                    "alter",
                    other,
                    columns=False,
                    exchanged=True,
                    alteration=exchanged(statement),
                )
            for clause in effect.clauses:
                if isinstance(clause, RenameTable):
                    new = Name(clause.database or effect.name.database, clause.table)
                    yield TableChange(seq, "rename", _text(effect.name), _text(new))
        case RenameTo():
            yield TableChange(seq, "rename", _text(effect.old), _text(effect.new))
        case DropTable():
            yield TableChange(seq, "drop", _text(effect.name))
        case Truncate():
            yield TableChange(seq, "truncate", _text(effect.name))
        case DropDatabase():
            yield TableChange(seq, "drop", all_of(effect.database))
        case Unclear(name=Name() as made, made=True):
            if not effect.unless_exists:
                yield TableChange(seq, "create", _text(made))
        case Unclear():
            name = "*.*" if effect.name is None else _text(effect.name)
            yield TableChange(seq, "unclear", name, reason=f"{effect.reason}: {statement}")
        case _:
            return


def _text(name: Name) -> str:
    return str(TableName(*name.key))
