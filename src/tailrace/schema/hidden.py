"""MariaDB columns that are in the log but not in CREATE TABLE: versions and hashes."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from tailrace.constants import ColumnType
from tailrace.schema.columns import BLOBS, TEXTS
from tailrace.values.charsets import BINARY, longest_character
from tailrace.values.schema import ColumnDefinition, TableDefinition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tailrace.events.table_map import TableMapEvent

ROW_END: Final = "row_end"
SYSTEM_PERIOD: Final = tuple(
    ColumnDefinition(name, "timestamp(6)", nullable=False, visible=False, generated=True)
    for name in ("row_start", ROW_END)
)
"""The columns that WITH SYSTEM VERSIONING adds at the end if none are declared for it."""


class KeyPart(NamedTuple):
    """A column of a key ("" for an expression), and how many characters of it (None: all).

    ``period``: it is not a column but a MariaDB period, ``WITHOUT OVERLAPS``.
    """

    column: str
    prefix: int | None = None
    period: bool = False


def prefixes_of(parts: Iterable[KeyPart]) -> tuple[int, ...]:
    """How many characters of each column count, 0 for all; empty if all of every column count."""
    prefixes = tuple(part.prefix or 0 for part in parts)
    return prefixes if any(prefixes) else ()


class UniqueKey(NamedTuple):
    """A UNIQUE key; ``hashed`` if USING HASH is given."""

    parts: tuple[KeyPart, ...]
    hashed: bool = False

    def on_columns(self, periods: Mapping[str, tuple[str, str]] = MappingProxyType({})) -> Self:
        """The key with its period replaced by the period's columns, as the server stores it.

        ``periods`` are the bounds of the table's periods by case-folded name. A key has no parts if
        it is not known to be unique on columns: it has an expression, or a period that is not in
        ``periods``.
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
"""Key size in bytes from which at least one row format uses a hash."""
LONGEST_LIMIT: Final = 3072
"""Key size in bytes above which InnoDB uses a hash, with its default row format."""
_LENGTH: Final = re.compile(r"(?:var)?(?:char|binary)\((\d+)\)")


def by_name(columns: Iterable[ColumnDefinition]) -> dict[str, ColumnDefinition]:
    """Columns by their case-folded names."""
    return {column.name.casefold(): column for column in columns}


def may_be_hashed(key: UniqueKey, columns: Mapping[str, ColumnDefinition]) -> bool:
    """Whether MariaDB may implement this key by a hidden hash column.

    It does so for whole TEXT and BLOB columns and for keys longer than the engine's limit.
    """
    return key_size(key, columns) > _SHORTEST_LIMIT


def key_size(key: UniqueKey, columns: Mapping[str, ColumnDefinition]) -> float:
    """The maximum bytes of a key; infinite if every engine needs a hash for it.

    ``columns`` are the table's, as from `by_name`.
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
    """The definition plus the hidden hash columns that the logged table has at its end.

    ``most`` is their maximum number. Unchanged if the table map's additional columns are anything
    else.
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
