"""The known attributes of a table's columns: names, signs, character sets and logical types.

A log's table map has the types and, depending on ``binlog_row_metadata``, more or less of the rest.
What it lacks comes from a `TableDefinition`: the user's schema, or DDL found in the same logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from tailrace.constants import ColumnType
from tailrace.table_name import TableName
from tailrace.values.charsets import BINARY, charset_of

NamesFrom = Literal["log", "given", "ddl", "server", "none"]
DefinedBy = Literal["given", "ddl", "server"]
"""The source of a definition: the user, a statement in the log, or a query to the server."""


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


def logical_of(
    type_: ColumnType, collation: int | None = None, declared: Logical = Logical.PLAIN
) -> Logical:
    """The logical type of a column; ``declared`` is that of its definition."""
    if type_ in _BY_TYPE:
        return _BY_TYPE[type_]
    if type_ not in STRING_TYPES:
        return Logical.PLAIN
    if declared not in {Logical.PLAIN, Logical.TEXT, Logical.BINARY}:
        return declared
    if collation is not None:
        return Logical.BINARY if collation == BINARY else Logical.TEXT
    if declared is not Logical.PLAIN:
        return declared
    return Logical.BINARY if type_ in BLOB_TYPES else Logical.TEXT


@dataclass(frozen=True, slots=True)
class Column:
    """One column, as its values are decoded.

    ``type`` and ``metadata`` are those of the table map's `ColumnSpec` (real type; metadata
    normalised). The exception is the number of fraction digits of MariaDB's old TIME, DATETIME and
    TIMESTAMP, which only a definition has. ``unsigned`` is False if unknown. ``collation`` is None
    if unknown, and 63 for binary. ``members`` are the names of an ENUM or SET, if known.
    ``generated`` is True for a column that, by its definition, no INSERT may give.
    ``may_be_lacking`` is True if an update may have changed it though both of its images lack it,
    None if that is unknown.
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
    may_be_lacking: bool | None = False

    @property
    def charset(self) -> str:
        """The server's name of the column's character set; utf8mb4 if it is unknown.

        Raises `SchemaError` for a collation id that no known server has.
        """
        return "utf8mb4" if self.collation is None else charset_of(self.collation)

    @property
    def has_equal_texts(self) -> bool:
        """Whether values differ that have the same text: in an ENUM or SET with the member '', that
        member and the value without a member (an ENUM's error value).
        """
        return "" in (self.members or ())


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A schema's definition of one column.

    ``declared`` is the type as in SQL (``varchar(20)``, ``decimal(10,2)``). It is checked against
    the log and shown in errors; empty means unknown. ``collation`` is 63 for binary types and None
    where it does not apply or is unknown. ``visible`` is False for a column that ``SELECT *``
    leaves out, ``generated`` is True for one that no INSERT may give, None if only rows of it are
    known; ``compressed`` is for MariaDB's compressed columns.
    """

    name: str
    declared: str = ""
    unsigned: bool = False
    collation: int | None = None
    members: tuple[str, ...] | None = None
    logical: Logical = Logical.PLAIN
    nullable: bool = True
    visible: bool = True
    generated: bool | None = False
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

    @property
    def full_name(self) -> TableName:
        """Database and table."""
        return TableName(self.database, self.table)


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

    @property
    def full_name(self) -> TableName:
        """Database and table."""
        return TableName(self.database, self.table)

    def _repr_html_(self) -> str:
        """Its columns, for a notebook."""
        from tailrace.notebook import table  # noqa: PLC0415 - in notebooks only

        key = {index: number for number, index in enumerate(self.primary_key, 1)}
        return table(
            str(self.full_name),
            ("column", "type", "character set", "NULL", "primary key"),
            (
                (
                    column.name,
                    column.type.name + (" unsigned" if column.unsigned else ""),
                    column.charset if column.type in STRING_TYPES else "",
                    "yes" if column.nullable else "no",
                    str(key.get(column.index, "")),
                )
                for column in self.columns
            ),
            most=200,
            total=len(self.columns),
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
