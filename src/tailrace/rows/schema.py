"""The known attributes of a table's columns: names, signs, character sets and logical types.

A log's table map has the types and, depending on ``binlog_row_metadata``, more or less of the rest.
What it lacks comes from a `TableDefinition`: the user's schema, or DDL found in the same logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

from tailrace.constants import ColumnType, Flavour
from tailrace.errors import EventDecodeError, SchemaError
from tailrace.rows.charsets import decode
from tailrace.rows.collations import BINARY, charset_of
from tailrace.rows.type_check import OLD_TEMPORAL_TYPES, check_declared, declared_digits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.events.column_metadata import ColumnSpec
    from tailrace.events.table_map import TableLayout, TableMapEvent

NamesFrom = Literal["log", "given", "ddl", "server", "none"]
DefinedBy = Literal["given", "ddl", "server"]
"""The source of a definition: the user, a statement in the log, or a query to the server."""
_CALLED: Final[dict[DefinedBy, str]] = {
    "given": "the schema given",
    "ddl": "the DDL in the log",
    "server": "the server's definition",
}


class Logical(StrEnum):
    """The meaning of a column's bytes if their type alone does not determine it."""

    PLAIN = "plain"
    """The type determines the meaning: numbers, dates, BIT, ENUM, SET."""
    BINARY = "binary"
    TEXT = "text"
    JSON = "json"
    """MySQL's JSON (type JSON), or a MariaDB column declared JSON (text in a BLOB)."""
    UUID = "uuid"
    INET4 = "inet4"
    INET6 = "inet6"
    VECTOR = "vector"
    GEOMETRY = "geometry"


_BY_TYPE: Final = {
    ColumnType.JSON: Logical.JSON,
    ColumnType.GEOMETRY: Logical.GEOMETRY,
    ColumnType.VECTOR: Logical.VECTOR,
}
BLOB_TYPES: Final = frozenset(
    {
        ColumnType.BLOB,
        ColumnType.TINY_BLOB,
        ColumnType.MEDIUM_BLOB,
        ColumnType.LONG_BLOB,
        ColumnType.BLOB_COMPRESSED,
    }
)
STRING_TYPES: Final = BLOB_TYPES | {
    ColumnType.STRING,
    ColumnType.VARCHAR,
    ColumnType.VAR_STRING,
    ColumnType.VARCHAR_COMPRESSED,
}
"""The types whose bytes may be text, binary or a type from a definition; including blobs."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column, as its values are decoded.

    ``type`` and ``metadata`` are those of the table map's `ColumnSpec` (real type; metadata
    normalised). The exception is the number of fraction digits of MariaDB's old TIME, DATETIME and
    TIMESTAMP, which only a definition has. ``unsigned`` is False if unknown. ``collation`` is None
    if unknown, and 63 for binary. ``members`` are the names of an ENUM or SET, if known.
    ``generated`` is True for a column that, by its definition, no INSERT may give.
    """

    index: int
    name: str
    type: ColumnType
    metadata: int
    nullable: bool
    unsigned: bool
    collation: int | None
    members: tuple[str, ...] | None
    logical: Logical
    generated: bool = False

    @property
    def charset(self) -> str:
        """The server's name of the column's character set; utf8mb4 if it is unknown.

        Raises `SchemaError` for a collation id that no known server has.
        """
        return "utf8mb4" if self.collation is None else charset_of(self.collation)


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A schema's definition of one column.

    ``declared`` is the type as in SQL (``varchar(20)``, ``decimal(10,2)``). It is checked against
    the log and shown in errors; empty means unknown. ``collation`` is 63 for binary types and None
    where it does not apply or is unknown. ``visible`` is False for a column that ``SELECT *``
    leaves out, ``generated`` is True for one that no INSERT may give, ``compressed`` is for
    MariaDB's compressed columns.
    """

    name: str
    declared: str = ""
    unsigned: bool = False
    collation: int | None = None
    members: tuple[str, ...] | None = None
    logical: Logical = Logical.PLAIN
    nullable: bool = True
    visible: bool = True
    generated: bool = False
    compressed: bool = False


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table's definition, from a user's schema or from DDL.

    ``primary_key`` holds column names. ``key_prefixes`` holds how many characters of each column
    count (0: all); it is empty if every column counts in full.
    """

    database: str
    table: str
    columns: tuple[ColumnDefinition, ...]
    primary_key: tuple[str, ...] = ()
    key_prefixes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table as its rows are decoded: hashable, picklable, the same for all equal table maps.

    ``primary_key`` holds column indexes, in key order; it is empty if it is unknown. ``names_from``
    is the source of the column names. ``key_is_whole`` is False if only a prefix of some key column
    counts. Two rows then differ in the bytes of the whole columns, but the columns may still
    compare as equal. ``undeclared`` is a column of one of MariaDB's old temporal types whose number
    of fraction digits is unknown; then no row can be decoded (None: there is none).
    """

    database: str
    table: str
    columns: tuple[Column, ...]
    primary_key: tuple[int, ...] = ()
    names_from: NamesFrom = "none"
    key_is_whole: bool = True
    undeclared: str | None = None

    @classmethod
    def resolve(
        cls,
        table_map: TableMapEvent | TableLayout,
        flavour: Flavour,
        definition: TableDefinition | None = None,
        definition_source: DefinedBy = "given",
    ) -> TableSchema:
        """Combine the log's table map with a definition, which adds what the log lacks.

        Raises `SchemaError` if the definition cannot be that of the logged table.
        """
        specs = table_map.columns
        where = f"{table_map.database}.{table_map.table}"
        given: list[ColumnDefinition | None] = [None] * len(specs)
        if definition is not None:
            given[:] = _match(specs, definition, flavour, where, _CALLED[definition_source])
        columns = tuple(
            _column(index, spec, known, where)
            for index, (spec, known) in enumerate(zip(specs, given, strict=True))
        )
        names_from: NamesFrom = "none"
        if specs and all(spec.name is not None for spec in specs):
            names_from = "log"
        elif definition is not None:
            names_from = definition_source
        key, prefixes = table_map.primary_key, table_map.primary_key_prefixes
        if key is None and definition is not None:
            key = _key_of(definition.primary_key, columns, where)
            prefixes = definition.key_prefixes
        if key is not None and any(not 0 <= index < len(columns) for index in key):
            raise SchemaError(f"{where}: the primary key names a column that does not exist")
        return cls(
            table_map.database,
            table_map.table,
            columns,
            key or (),
            names_from,
            key_is_whole=not any(prefixes or ()),
            undeclared=_undeclared(columns, given, flavour),
        )

    def index_of(self, name: str) -> int | None:
        """The index of a column, as written or else in any case; None if it does not exist."""
        for column in self.columns:
            if column.name == name:
                return column.index
        folded = name.casefold()
        for column in self.columns:
            if column.name.casefold() == folded:
                return column.index
        return None


def _match(
    specs: tuple[ColumnSpec, ...],
    definition: TableDefinition,
    flavour: Flavour,
    where: str,
    source: str,
) -> list[ColumnDefinition]:
    """The definition's columns in the log's order; an error if it cannot be the same table."""
    known = definition.columns
    if len(known) != len(specs):
        raise SchemaError(
            f"{where} has {len(specs)} columns in the log and {len(known)} in {source}: "
            "it is not the definition that the rows were written with; give that one"
        )
    if all(spec.name is not None for spec in specs):
        by_name = {column.name.casefold(): column for column in known}
        known = tuple(
            by_name.get((spec.name or "").casefold(), column)
            for spec, column in zip(specs, known, strict=True)
        )
        for spec, column in zip(specs, known, strict=True):
            if (spec.name or "").casefold() != column.name.casefold():
                raise SchemaError(
                    f"{where}: the log has a column {spec.name!r} that is not in {source}"
                )
    for spec, column in zip(specs, known, strict=True):
        if trouble := check_declared(spec, column.declared, column.members, flavour):
            raise SchemaError(
                f"{where}.{column.name} is {column.declared} in {source}, but {trouble}: "
                "it is not the definition that the rows were written with; give that one"
            )
    return list(known)


def _undeclared(
    columns: Sequence[Column], known: Sequence[ColumnDefinition | None], flavour: Flavour
) -> str | None:
    """The first column whose number of fraction digits only a definition has, if it is missing;
    MySQL's old temporal types have no fraction.
    """
    if flavour is not Flavour.MARIADB:
        return None
    pairs = zip(columns, known, strict=True)
    return next(
        (c.name for c, told in pairs if told is None and c.type in OLD_TEMPORAL_TYPES), None
    )


def _column(index: int, spec: ColumnSpec, known: ColumnDefinition | None, where: str) -> Column:
    collation = spec.collation
    if collation is None and known is not None:
        collation = known.collation
    name, unsigned, members = f"c{index + 1}", False, None
    if known is not None:
        name, unsigned, members = known.name, known.unsigned, known.members
    if spec.name is not None:
        name = spec.name
    if spec.unsigned is not None:
        unsigned = spec.unsigned
    if spec.members is not None:
        members = tuple(_member(text, collation, where) for text in spec.members)
    metadata = spec.metadata
    if spec.type in OLD_TEMPORAL_TYPES and known is not None:
        metadata = declared_digits(known.declared)
    return Column(
        index=index,
        name=name,
        type=spec.type,
        metadata=metadata,
        nullable=spec.nullable,
        unsigned=unsigned,
        collation=collation,
        members=members,
        logical=_logical(spec.type, collation, known),
        generated=known is not None and known.generated,
    )


def _logical(type_: ColumnType, collation: int | None, known: ColumnDefinition | None) -> Logical:
    if type_ in _BY_TYPE:
        return _BY_TYPE[type_]
    if type_ not in STRING_TYPES:
        return Logical.PLAIN
    told = known.logical if known is not None else Logical.PLAIN
    if told not in {Logical.PLAIN, Logical.TEXT, Logical.BINARY}:
        return told
    if collation is not None:
        return Logical.BINARY if collation == BINARY else Logical.TEXT
    if told is not Logical.PLAIN:
        return told
    return Logical.BINARY if type_ in BLOB_TYPES else Logical.TEXT


def _member(text: bytes, collation: int | None, where: str) -> str:
    """An ENUM's or SET's name from the log; the collation determines its character set."""
    charset = "utf8mb4" if collation is None else charset_of(collation)
    try:
        return decode(charset, text)
    except EventDecodeError:
        raise SchemaError(f"{where}: an ENUM or SET name is not valid {charset}") from None


def _key_of(names: tuple[str, ...], columns: tuple[Column, ...], where: str) -> tuple[int, ...]:
    known = [column.name.casefold() for column in columns]
    try:
        return tuple(known.index(name.casefold()) for name in names)
    except ValueError:
        raise SchemaError(
            f"{where}: the primary key {names} names a column that is not there"
        ) from None
