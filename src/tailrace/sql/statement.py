"""A statement to execute, and the settings it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace.log.reader import TransactionHead
    from tailrace.sql.large import Sql
    from tailrace.sql.settings import Settings


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement without a terminator.

    ``sql`` is its text, with large literals kept separately (`tailrace.sql.large`); ``text`` is the
    whole text. Bytes that are not UTF-8 are surrogates in it (``surrogateescape``): a logged
    statement may be in another character set. ``settings`` are the session variables that it needs,
    ``database`` is the current database that it needs (None: any), ``before`` are statements to
    execute directly before it. ``group`` is the logged transaction that it comes from. With
    ``alone`` it is outside of transactions. ``charset`` is set for a statement of the log if the
    client that reads it must know the character set to find its end.

    ``joins`` is set for the INSERT of a row that others may join (`tailrace.sql.joined`): the rows
    event's offset, its number in a payload, and the row's offset in the text.

    An empty one has nothing to execute; ``note`` then tells a reader what was left out.
    """

    sql: Sql
    settings: Settings
    group: TransactionHead | None
    database: str | None = None
    before: tuple[str, ...] = ()
    alone: bool = False
    logged: bool = False
    charset: str | None = None
    note: str | None = None
    joins: tuple[int, int, int] | None = None

    @property
    def text(self) -> str:
        """The whole text of the statement."""
        return str(self.sql)

    @property
    def size(self) -> int:
        """The approximate length of its text."""
        return len(self.sql) if isinstance(self.sql, str) else self.sql.size


@dataclass(frozen=True, slots=True)
class RowStatements:
    """Statements for the rows of consecutive transactions, as one text.

    ``data`` (arrays of uint8, pieces of it) begins with the first statement of the transaction
    ``group`` and ends with the last one of the transaction ``last``, each with its terminator and
    line end. It contains everything between them, as in a script. ``settings`` are those that the
    first statement needs, ``left`` are those after the last one. ``held`` keeps the pieces' memory
    alive.
    """

    data: list[Any]
    settings: Settings
    left: Settings
    group: TransactionHead
    last: TransactionHead
    held: Any = None

    @property
    def size(self) -> int:
        """Its number of bytes."""
        return sum(map(len, self.data))
