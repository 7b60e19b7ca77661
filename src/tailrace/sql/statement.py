"""A statement to execute, and the settings it needs; rows of an event as one INSERT."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.log.reader import TransactionHead
    from tailrace.sql.settings import Settings
    from tailrace.sql.text import Sql


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement without a terminator.

    ``sql`` is its text, with large literals kept separately (`tailrace.sql.text`); ``text`` is the
    whole text. Bytes that are not UTF-8 are surrogates in it (``surrogateescape``): a logged
    statement may be in another character set. ``settings`` are the session variables that it needs,
    ``database`` is the current database that it needs (None: any), ``before`` are statements to
    execute directly before it. ``group`` is the logged transaction that it comes from. With
    ``alone`` it is outside of transactions. ``charset`` is set for a statement of the log if the
    client that reads it must know the character set to find its end.

    ``joins`` is set for the INSERT of a row that others may join (`multi_row`): the rows
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


MOST_BYTES: Final = 1 << 20
"""Maximum bytes of a multi-row statement: fits every server's ``max_allowed_packet``."""
LONGEST: Final = 1 << 16
"""A row whose INSERT has more bytes than this is not joined."""
END: Final = 2
"""Bytes of a statement's terminator and its line end."""


def multi_row(
    found: Iterable[Statement | RowStatements], rows: int
) -> Iterator[Statement | RowStatements]:
    """The statements, with up to ``rows`` INSERTs of a rows event joined, up to `MOST_BYTES`.

    So a statement never holds rows of several events. Kernels, which write a log piece by piece,
    give the same result (`tailrace.sql.stretches`).
    """
    first: Statement | None = None
    texts: list[str] = []
    size = 0
    for each in found:
        text = each.sql if isinstance(each, Statement) and each.joins is not None else None
        bytes_ = LONGEST + 1
        if isinstance(text, str):
            bytes_ = len(text.encode("utf-8", "surrogateescape")) + END
        if not isinstance(each, Statement) or not isinstance(text, str) or bytes_ > LONGEST:
            if first is not None:
                yield replace(first, sql=",\n".join(texts))
                first = None
            yield each
            continue
        row = each.joins[2] if each.joins is not None else 0
        more = bytes_ - len(text[:row].encode())
        if (
            first is not None
            and (first.joins, first.settings, first.group)
            == (each.joins, each.settings, each.group)
            and len(texts) < rows
            and size + more <= MOST_BYTES
        ):
            texts.append(text[row:])
            size += more
            continue
        if first is not None:
            yield replace(first, sql=",\n".join(texts))
        first, texts, size = each, [text], bytes_
    if first is not None:
        yield replace(first, sql=",\n".join(texts))
