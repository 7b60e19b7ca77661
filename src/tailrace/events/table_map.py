"""TABLE_MAP: the columns of a table whose rows follow (facts sheet 2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tailrace.constants import ColumnType, EventType, Flavour
from tailrace.errors import EventDecodeError
from tailrace.events.base import Event
from tailrace.events.column_metadata import ColumnSpec, read_types
from tailrace.events.fields import Cursor, text
from tailrace.events.optional_metadata import OptionalMetadata, read_optional

if TYPE_CHECKING:
    from tailrace.events.context import DecodeContext

_MOST_OPEN: Final = 1 << 16
_CACHED_SIZE: Final = 1 << 12
_MOST_COLUMNS: Final = 4096


@dataclass(frozen=True, slots=True)
class TableLayout:
    """What a table map says apart from its table id and flags.

    The same bytes give the same object again, as long as it is kept: what is derived from a table
    may be kept by it.
    """

    database: str
    table: str
    columns: tuple[ColumnSpec, ...]
    primary_key: tuple[int, ...] | None
    primary_key_prefixes: tuple[int, ...] | None
    optional_metadata: bytes
    unknown_fields: tuple[int, ...]


def _name(cursor: Cursor, what: str) -> str:
    name = text(cursor.lenenc_bytes(what), what)
    if cursor.u8(f"{what}'s zero byte"):
        raise EventDecodeError(f"no zero byte ends {what}")
    return name


def _parse(raw: bytes, flavour: Flavour) -> TableLayout:
    cursor = Cursor(raw)
    database = _name(cursor, "the database's name")
    table = _name(cursor, "the table's name")
    count = cursor.lenenc("the number of columns")
    if count > _MOST_COLUMNS:
        raise EventDecodeError(f"{count} columns, no table has more than {_MOST_COLUMNS}")
    codes = cursor.take(count, "the column types")
    metadata = cursor.lenenc_bytes("the column metadata")
    nullable = cursor.take((count + 7) // 8, "the nullable bits")
    kinds = list(read_types(codes, metadata))
    optional = cursor.rest()
    said = read_optional(optional, [kind for kind, _ in kinds], flavour)
    columns = tuple(
        _column(index, kind, size, bool(nullable[index >> 3] >> (index & 7) & 1), said)
        for index, (kind, size) in enumerate(kinds)
    )
    return TableLayout(
        database, table, columns, said.key, said.key_prefixes, optional, said.unknown
    )


def _column(
    index: int, kind: ColumnType, size: int, nullable: bool, said: OptionalMetadata
) -> ColumnSpec:
    return ColumnSpec(
        kind,
        size,
        nullable,
        said.unsigned.get(index),
        said.collations.get(index),
        said.names.get(index),
        said.members.get(index),
        said.geometry_types.get(index),
        said.visible.get(index),
        said.dimensions.get(index),
    )


_parse_kept = lru_cache(maxsize=256)(_parse)
"""Logs repeat their table maps, in one-row transactions before every row; few are kept."""


class TableMapEvent(Event, types=(EventType.TABLE_MAP,)):
    """TABLE_MAP (19): gives a table's columns a ``table_id``, until the end of the statement.

    ``flags``: 1 BIT_LEN_EXACT, 2 REFERRED_FK_DB, 4 GENERATED_INVISIBLE_PK; MariaDB 0x4000
    HAS_TRIGGERS.
    """

    __slots__ = ("flags", "layout", "table_id")

    FIELDS = ("table_id", "flags", "database", "table", "columns", "primary_key")
    CHANGES_CONTEXT = True

    table_id: int
    flags: int
    layout: TableLayout

    def read_body(self, context: DecodeContext, /) -> None:
        """Layout: table id u48 (or u32), flags u16, the table's layout."""
        body = self.body
        id_size = 6
        at = 8
        if context.format is not None:
            id_size = context.format.table_map_id_size
            at = id_size + 2
            if id_size == 6:
                at += context.extra_post_header(EventType.TABLE_MAP)
        if len(body) < at:
            raise EventDecodeError(f"{len(body)} bytes, the fixed part needs {at}")
        self.table_id = int.from_bytes(body[:id_size], "little")
        self.flags = int.from_bytes(body[id_size : id_size + 2], "little")
        parse = _parse_kept if len(body) <= _CACHED_SIZE else _parse
        self.layout = parse(body[at:], context.flavour)

    @property
    def database(self) -> str:
        """The database's name."""
        return self.layout.database

    @property
    def table(self) -> str:
        """The table's name."""
        return self.layout.table

    @property
    def columns(self) -> tuple[ColumnSpec, ...]:
        """The columns, in the table's order."""
        return self.layout.columns

    @property
    def primary_key(self) -> tuple[int, ...] | None:
        """Column indexes of the primary key, None where the log does not say."""
        return self.layout.primary_key

    @property
    def primary_key_prefixes(self) -> tuple[int, ...] | None:
        """Characters of each key column that count, 0 for all."""
        return self.layout.primary_key_prefixes

    def update(self, context: DecodeContext) -> None:
        """Rows events may refer to the table now."""
        if len(context.table_maps) >= _MOST_OPEN and self.table_id not in context.table_maps:
            raise EventDecodeError(f"more than {_MOST_OPEN} tables are open in one statement")
        context.table_maps[self.table_id] = self
