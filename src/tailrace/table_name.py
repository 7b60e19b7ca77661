"""A table's name: database and table, and the one text form of both.

Plain names are written as ``shop.orders``. If one of the two has any other character than letters,
digits, ``_``, ``$`` and ``-``, both are in backticks, and a backtick in a name is doubled. So
`` `a`.`b.c` `` and `` `a.b`.`c` `` are two texts, and a text means one table. It is also the
pattern that selects this table only (`tailrace.table_filter`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from tailrace.errors import UsageError
from tailrace.printable import short_repr

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN: Final = re.compile(r"[\w$-]*")
_PIECES: Final = re.compile(
    r"`(?P<quoted>(?:[^`]|``)*)`"  # literal text
    r"|\[!?\]?[^\]]*\]"  # a set of characters in a pattern
    r"|.",
    re.DOTALL,
)


class TableName(NamedTuple):
    """The name of a table with its database, which is empty if it is unknown.

    It is equal to the tuple of both, and its text is what `parse` reads.

    >>> from tailrace.table_name import TableName
    >>> str(TableName("shop", "orders")), str(TableName("shop", "orders.2026"))
    ('shop.orders', '`shop`.`orders.2026`')
    >>> TableName.parse("shop.`orders.2026`")
    TableName(database='shop', table='orders.2026')
    """

    database: str
    table: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """The name that a text means. Raises UsageError for a text without a dot between two names.

        Without quotes, the first dot ends the database's name.
        """
        parts = list(split(text, ".", most=1)) if isinstance(text, str) else []
        if len(parts) != 2:
            raise UsageError(
                f"{short_repr(text)} is not a table's name: give database and table, such as"
                " 'shop.orders' or '`shop`.`orders.2026`'"
            )
        return cls(*map(_unquoted, parts))

    def __str__(self) -> str:
        return _text(self.database, self.table)


def quoted_part(name: str) -> str:
    """One of the two names, in backticks if it is not plain."""
    return name if _PLAIN.fullmatch(name) else _quoted(name)


def all_of(database: str) -> str:
    """The text for all tables of a database: as a pattern, and as what a statement drops."""
    return f"{quoted_part(database)}.*"


def database_of(text: str) -> str | None:
    """The database that an `all_of` means; None for any other text."""
    return _unquoted(text[:-2]) if text.endswith(".*") else None


def split(text: str, mark: str, most: int = -1) -> Iterator[str]:
    """The parts of a text between marks (one character), as `str.split` finds them.

    A mark in backticks or in brackets, such as ``[,]``, does not count.
    """
    if "`" not in text and "[" not in text:
        yield from text.split(mark, most)
        return
    begin = 0
    for piece, start, end in pieces(text):
        if most and piece is None and text[start:end] == mark:
            yield text[begin:start]
            begin = end
            most -= 1
    yield text[begin:]


def pieces(text: str) -> Iterator[tuple[str | None, int, int]]:
    """The pieces of a name or a pattern, with where they start and end in it.

    A piece in backticks is its text; for any other one, which is one character or a set of them in
    brackets, it is None.
    """
    for found in _PIECES.finditer(text):
        quoted = found["quoted"]
        yield None if quoted is None else quoted.replace("``", "`"), *found.span()


def _unquoted(part: str) -> str:
    return "".join(
        part[start:end] if quoted is None else quoted for quoted, start, end in pieces(part)
    )


@lru_cache(maxsize=1 << 12)
def _text(database: str, table: str) -> str:
    if _PLAIN.fullmatch(database) and _PLAIN.fullmatch(table):
        return f"{database}.{table}"
    return f"{_quoted(database)}.{_quoted(table)}"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
