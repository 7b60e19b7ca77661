"""A statement to run, and what it needs around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace.reader import TransactionHead
    from tailrace.sql.large import Sql
    from tailrace.sql.settings import Settings


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement without a mark at its end.

    ``sql`` is its text, with large literals apart (`tailrace.sql.large`); ``text`` makes it whole.
    It holds bytes that are not UTF-8 as surrogates (``surrogateescape``): a logged statement
    may be in another character set. ``settings`` are the session variables that it needs,
    ``database`` the one to be in (None: any), ``before`` what to run right before it. ``group`` is
    the logged transaction that it comes from. One that is ``alone`` stands outside of transactions.
    ``charset`` is set for the text of the log where the client that is fed with it must know the
    character set to find the text's end.

    ``joins`` is set for the INSERT of a row that others may join (`tailrace.sql.joined`): the rows
    event's offset, its number in a payload, and where the row begins in the text.

    An empty one is nothing to run; ``note`` then says, for a reader, what was left out.
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
        """The statement itself."""
        return str(self.sql)

    @property
    def size(self) -> int:
        """How long its text is, about."""
        return len(self.sql) if isinstance(self.sql, str) else self.sql.size


@dataclass(frozen=True, slots=True)
class RowStatements:
    """Statements for the rows of transactions that follow each other, as one text.

    ``data`` (arrays of uint8, pieces of it) begins with the first statement of the transaction
    ``group`` and ends with the last one of the transaction ``last``, each with its mark and a
    line's end. All that stands between them is in it, as a script has it. ``settings`` are those
    that the first one needs, ``left`` those that the last one leaves. ``held`` keeps the memory
    that the pieces lie in.
    """

    data: list[Any]
    settings: Settings
    left: Settings
    group: TransactionHead
    last: TransactionHead
    held: Any = None

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return sum(map(len, self.data))
