"""Columns of MariaDB that no CREATE TABLE shows but the log has: versions and hashes."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from tailrace.constants import ColumnType
from tailrace.rows.collations import BINARY, longest_character
from tailrace.rows.schema import ColumnDefinition, TableDefinition
from tailrace.schema.types import BLOBS, TEXTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tailrace.events.table_map import TableMapEvent

ROW_END: Final = "row_end"
SYSTEM_PERIOD: Final = tuple(
    ColumnDefinition(name, "timestamp(6)", nullable=False, visible=False, generated=True)
    for name in ("row_start", ROW_END)
)
"""What WITH SYSTEM VERSIONING adds at the end where no columns are declared for it."""


class KeyPart(NamedTuple):
    """A column of a key ("" for an expression), and how many characters of it (None: all).

    ``period``: it is no column but a period of MariaDB's, ``WITHOUT OVERLAPS``.
    """

    column: str
    prefix: int | None = None
    period: bool = False


def prefixes_of(parts: Iterable[KeyPart]) -> tuple[int, ...]:
    """How many characters of each count, 0 for all; empty where all of each does."""
    prefixes = tuple(part.prefix or 0 for part in parts)
    return prefixes if any(prefixes) else ()


class UniqueKey(NamedTuple):
    """A UNIQUE key; ``hashed`` where USING HASH is written."""

    parts: tuple[KeyPart, ...]
    hashed: bool = False

    def on_columns(self, periods: Mapping[str, tuple[str, str]] = MappingProxyType({})) -> Self:
        """The key with the columns of its period instead of it, as the server keeps it.

        ``periods`` are the bounds of the table's periods by case-folded name. What is not known to
        be unique on columns, for a period that is not among them or an expression, has no parts.
        """
        parts: list[KeyPart] = []
        for part in self.parts:
            bounds = periods.get(part.column.casefold()) if part.period else None
            if bounds is not None:
                parts += [KeyPart(bounds[1]), KeyPart(bounds[0])]
            elif part.period or not part.column:
                return self._replace(parts=())
            else:
                parts.append(part)
        return self._replace(parts=tuple(parts))


_SHORTEST_LIMIT: Final = 767
"""Bytes of a key from which on some row format has it hashed."""
LONGEST_LIMIT: Final = 3072
"""Bytes of a key beyond which InnoDB has it hashed, with the row format that it has by default."""
_LENGTH: Final = re.compile(r"(?:var)?(?:char|binary)\((\d+)\)")


def by_name(columns: Iterable[ColumnDefinition]) -> dict[str, ColumnDefinition]:
    """Columns by their case-folded names."""
    return {column.name.casefold(): column for column in columns}


def may_be_hashed(key: UniqueKey, columns: Mapping[str, ColumnDefinition]) -> bool:
    """May MariaDB keep this key by a hidden hash column?

    It does so for whole TEXT and BLOB columns and for keys longer than the engine's limit.
    """
    return key_size(key, columns) > _SHORTEST_LIMIT


def key_size(key: UniqueKey, columns: Mapping[str, ColumnDefinition]) -> float:
    """The bytes that a key takes, at most; infinite where no engine keeps it but by a hash.

    ``columns`` are the table's, `by_name`.
    """
    if key.hashed:
        return inf
    size = 0
    for part in key.parts:
        column = columns.get(part.column.casefold())
        if column is None:
            continue
        if part.prefix is None and column.declared in {*TEXTS, *BLOBS}:
            return inf
        found = _LENGTH.match(column.declared)
        characters = part.prefix or (int(found[1]) if found else 8)
        size += characters * longest_character(column.collation or BINARY)
    return size


def with_hashes(
    definition: TableDefinition, most: int, table_map: TableMapEvent
) -> TableDefinition:
    """The definition with the hidden hash columns that the logged table has at its end.

    ``most`` is how many there may be. Unchanged where the table map's surplus is anything else.
    """
    surplus = table_map.columns[len(definition.columns) :]
    if not 0 < len(surplus) <= most or any(
        spec.type is not ColumnType.LONGLONG for spec in surplus
    ):
        return definition
    hashes = tuple(
        ColumnDefinition(
            f"DB_ROW_HASH_{number}",
            "bigint unsigned",
            unsigned=True,
            visible=False,
            generated=True,
        )
        for number in range(1, len(surplus) + 1)
    )
    return replace(definition, columns=definition.columns + hashes)
