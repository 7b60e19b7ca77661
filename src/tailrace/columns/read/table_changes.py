"""What logged statements do to tables as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tailrace.position import parts_of
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

    from tailrace.values.schema import TableDefinition


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a statement did to a table as a whole, by its ``seq`` in the order of all changes.

    ``table`` is a `TableName` as text (`all_of` for a dropped database); ``renamed`` is the new
    name of a renamed table, and ``others`` are the tables that a partition was exchanged for.
    ``unclear`` says that the statement was not understood.
    """

    seq: int
    kind: Literal["create", "alter", "drop", "truncate", "rename", "unclear"]
    table: str
    renamed: str | None = None
    others: tuple[str, ...] = ()
    began: int = 0
    """Where the statement's transaction begins in its file."""
    columns: bool = True
    """Whether it may have changed the table's columns or its key."""
    reason: str = ""
    """What was not understood, and the statement."""
    before: TableDefinition | None = field(default=None, compare=False, repr=False)
    """The table before an ``alter``, if statements in the log or its server have defined it."""
    after: TableDefinition | None = field(default=None, compare=False, repr=False)
    effect: AlterTable | None = field(default=None, compare=False, repr=False)
    """What an ``alter`` did, with names as the server has them."""

    @property
    def names(self) -> tuple[str, ...]:
        """All tables that it names."""
        renamed = () if self.renamed is None else (self.renamed,)
        return (self.table, *renamed, *self.others)

    @property
    def offset(self) -> int:
        """The statement's offset in its file (`tailrace.position.sequence`)."""
        return parts_of(self.seq)[1]


def table_changes(effect: Effect, seq: int, statement: str) -> Iterator[TableChange]:
    """The changes made by the effect of a statement at ``seq``; ``statement`` quotes it."""
    match effect:
        case CreateTable() | CreateLike():
            if not effect.unless_exists:
                yield TableChange(seq, "create", _text(effect.name))
        case AlterTable():
            yield TableChange(
                seq,
                "alter",
                _text(effect.name),
                others=tuple(map(str, effect.exchanged)),
                columns=bool(effect.clauses),
                effect=effect,
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
