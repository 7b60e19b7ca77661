"""TABLE_MAP: the columns of a table whose rows follow (facts sheet 2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from tailrace.constants import EventType, Flavour
from tailrace.errors import EventDecodeError
from tailrace.events.base import Event
from tailrace.events.column_metadata import ColumnSpec, read_types, write_types
from tailrace.events.fields import Builder, Cursor, integer, made, name, parts, text
from tailrace.events.layout import FIXED_REST, REQUIRED, derived, field
from tailrace.events.optional_metadata import read_optional, write_optional
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.events.base import LogState
    from tailrace.events.description import FormatDescription

_MOST_OPEN: Final = 1 << 16
_CACHED_SIZE: Final = 1 << 12
_MOST_COLUMNS: Final = 4096
_LONGEST_NAME: Final = 255  # the servers' have up to 192 bytes; the length was once one byte


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The content of a table map, except its table id and flags.

    The same bytes give the same object again while it exists: data derived from a table may be
    cached by it.
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


class _Columns(NamedTuple):
    """The part of a `TableLayout` that tables with equal columns share."""

    columns: tuple[ColumnSpec, ...]
    primary_key: tuple[int, ...] | None
    primary_key_prefixes: tuple[int, ...] | None
    optional_metadata: bytes
    unknown_fields: tuple[int, ...]


def _stored_columns(cursor: Cursor) -> tuple[bytes, bytes, bytes]:
    """The columns' type codes, metadata and nullable bits, as they are stored."""
    count = cursor.lenenc("the number of columns")
    if count > _MOST_COLUMNS:
        raise EventDecodeError(f"{count} columns, no table has more than {_MOST_COLUMNS}")
    codes = cursor.take(count, "the column types")
    metadata = cursor.lenenc_bytes("the column metadata")
    return codes, metadata, cursor.take((count + 7) // 8, "the nullable bits")


def _parse_columns(raw: bytes, flavour: Flavour) -> _Columns:
    cursor = Cursor(raw)
    codes, metadata, nullable = _stored_columns(cursor)
    kinds = list(read_types(codes, metadata))
    optional = cursor.rest()
    said = read_optional(optional, [kind for kind, _ in kinds], flavour)
    columns = tuple(
        ColumnSpec(kind, size, bool(nullable[index >> 3] >> (index & 7) & 1), **given)
        for index, ((kind, size), given) in enumerate(zip(kinds, said.columns, strict=True))
    )
    return _Columns(columns, said.key, said.key_prefixes, optional, said.unknown)


_columns_kept = lru_cache(maxsize=64)(_parse_columns)
"""Tables that were split by customer or by time differ by their names alone."""


def _parse(raw: bytes, flavour: Flavour) -> TableLayout:
    cursor = Cursor(raw)
    database = _name(cursor, "the database's name")
    table = _name(cursor, "the table's name")
    parse = _columns_kept if cursor.remaining <= _CACHED_SIZE else _parse_columns
    return TableLayout(database, table, *parse(cursor.rest(), flavour))


_parse_kept = lru_cache(maxsize=256)(_parse)
"""Logs repeat their table maps: with one-row transactions, before every row. Few are kept."""


class TableMapEvent(Event, types=(EventType.TABLE_MAP,)):
    """TABLE_MAP (19): gives a table's columns a ``table_id``, until the end of the statement.

    ``flags``: 1 BIT_LEN_EXACT, 2 REFERRED_FK_DB, 4 GENERATED_INVISIBLE_PK; MariaDB 0x4000
    HAS_TRIGGERS. For `make`, ``columns`` are `ColumnSpec`; their properties other than type,
    metadata and nullability go into the optional metadata, in the servers' order.
    ``optional_metadata`` are bytes of an event that was read, whose order, forms and unknown fields
    are kept.
    """

    FIELDS = ("table_id", "flags", "database", "table", "columns", "primary_key")
    MADE_OF: ClassVar[Mapping[str, Any]] = {
        "database": REQUIRED,
        "table": REQUIRED,
        "columns": REQUIRED,
        "primary_key": None,
        "primary_key_prefixes": None,
        "optional_metadata": b"",
    }
    CHANGES_CONTEXT = True

    table_id: int = field()
    flags: int = field(default=1)
    fixed_rest: bytes = FIXED_REST
    layout: TableLayout = derived()

    def read_body(self, form: FormatDescription, /) -> None:
        """Layout: table id u48 (or u32), flags u16, the table's layout."""
        body = self.body
        id_size = form.table_map_id_size
        at = id_size + 2
        if len(body) < at:
            raise EventDecodeError(f"{len(body)} bytes, the fixed part needs {at}")
        self.fixed_rest = b""
        if form.differs and id_size == 6:
            cursor = Cursor(body, at)
            FIXED_REST.read(self, cursor)
            at = cursor.pos
        self.table_id = int.from_bytes(body[:id_size], "little")
        self.flags = int.from_bytes(body[id_size : id_size + 2], "little")
        parse = _parse_kept if len(body) <= _CACHED_SIZE else _parse
        self.layout = parse(body[at:], form.flavour)

    def write_body(self, form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        columns = parts(self.columns, None, "columns")
        integer(len(columns), "columns", 0, _MOST_COLUMNS)
        codes, metadata = write_types(columns)
        nullable = bytearray((len(columns) + 7) // 8)
        for index, column in enumerate(columns):
            if made(column.nullable, bool, f"columns: column {index + 1}, nullable"):
                nullable[index >> 3] |= 1 << (index & 7)
        out = Builder()
        out.unsigned(self.table_id, form.table_map_id_size, "table_id")
        out.u16(self.flags, "flags")
        if form.table_map_id_size == 6:
            FIXED_REST.write(self, out)
        for what, value in (("database", self.database), ("table", self.table)):
            out.lenenc_bytes(name(value, what, _LONGEST_NAME), what)
            out.zeros(1)
        out.lenenc(len(columns), "columns")
        out.raw(codes, "columns")
        out.lenenc_bytes(metadata, "columns")
        out.raw(bytes(nullable), "columns")
        optional = write_optional(
            columns,
            self.primary_key,
            self.primary_key_prefixes,
            form.flavour,
            self.optional_metadata,
        )
        out.raw(optional, "optional_metadata")
        return out.done()

    @property
    def full_name(self) -> TableName:
        """Database and table."""
        return TableName(self.database, self.table)

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
        """Column indexes of the primary key, None if the log does not say."""
        return self.layout.primary_key

    @property
    def primary_key_prefixes(self) -> tuple[int, ...] | None:
        """For each key column the number of characters in the key, 0 for all."""
        return self.layout.primary_key_prefixes

    @property
    def type_codes(self) -> bytes:
        """The columns' types as they are stored: a byte for each."""
        return self._stored()[0]

    @property
    def metadata(self) -> bytes:
        """The columns' metadata as it is stored, one column's after the other's."""
        return self._stored()[1]

    @property
    def null_bits(self) -> bytes:
        """A bit for each column, the first one's lowest: whether it may be NULL."""
        return self._stored()[2]

    def _stored(self) -> tuple[bytes, bytes, bytes]:
        form = self.form
        extra = form.extra_post_header(self.type) if form.table_map_id_size == 6 else 0
        cursor = Cursor(self.body, form.table_map_id_size + 2 + extra)
        _name(cursor, "the database's name")
        _name(cursor, "the table's name")
        return _stored_columns(cursor)

    @property
    def optional_metadata(self) -> bytes:
        """The optional metadata as it is stored."""
        return self.layout.optional_metadata

    def update(self, context: LogState) -> None:
        """From now on rows events may refer to the table."""
        self.table_id = int.from_bytes(self.body[: self.form.table_map_id_size], "little")
        if len(context.table_maps) >= _MOST_OPEN and self.table_id not in context.table_maps:
            raise EventDecodeError(f"more than {_MOST_OPEN} tables are open in one statement")
        context.table_maps[self.table_id] = self
