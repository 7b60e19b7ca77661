"""Converts a declared column to its logged form: from a definition to a table map.

Sources: what MySQL 9.7, MariaDB 11.8 and 10.11 write (``tests/rows/test_table_server.py`` compares
byte for byte); facts sheet 2.2 and 3.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NoReturn

from tailrace.constants import ColumnType, Flavour
from tailrace.errors import SchemaError
from tailrace.events.column_metadata import ColumnSpec
from tailrace.rows.charsets import encode
from tailrace.rows.collations import BINARY, charset_of, default_collation, longest_character
from tailrace.rows.schema import ColumnDefinition, Logical, TableDefinition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_T = ColumnType
_DECLARED: Final = re.compile(
    r"\s*(?P<base>[a-z]\w*)\s*(?:\((?P<inside>.*)\))?(?P<tail>[^)]*)", re.IGNORECASE | re.DOTALL
)
_MARIADB_COMMENT: Final = re.compile(r"/\*m?!\d*(.*?)\*/")
_TAIL: Final = frozenset({"unsigned", "signed", "zerofill", "precision", "compressed"})
"""The words that may follow a type, as servers print it."""
_MOST_BYTES: Final = 65535


@dataclass(frozen=True, slots=True)
class _Declared:
    """A declaration being processed: the column, its numbers in parentheses, its flavour."""

    column: ColumnDefinition
    base: str
    numbers: tuple[int, ...]
    flavour: Flavour

    def number(self, default: int, least: int, most: int, at: int = 0) -> int:
        """The number in the parentheses; `SchemaError` if no server accepts it."""
        value = self.numbers[at] if len(self.numbers) > at else default
        if not least <= value <= most:
            self.refuse(f"{value} is not between {least} and {most}")
        return value

    def refuse(self, reason: str) -> NoReturn:
        raise SchemaError(f"column {self.column.name}: {self.column.declared!r}: {reason}")

    @property
    def collation(self) -> int:
        """The column's collation, or that of the flavour's utf8mb4 if it is unknown."""
        collation = self.column.collation
        if collation is None:
            collation = default_collation("utf8mb4", self.flavour)
        return BINARY if collation is None else collation

    def size(self, default: int, most: int) -> int:
        """The bytes of this many characters."""
        size = self.number(default, 0, most) * longest_character(self.collation)
        if size > _MOST_BYTES:
            self.refuse(f"{size} bytes, a column holds {_MOST_BYTES}")
        return size

    def spec(self, type_: ColumnType, metadata: int = 0) -> ColumnSpec:
        """The logged column: this type, and the attributes that every column has."""
        column = self.column
        return ColumnSpec(
            type_, metadata, column.nullable, name=column.name, visible=column.visible
        )

    def numeric(self, type_: ColumnType, metadata: int = 0) -> ColumnSpec:
        return replace(self.spec(type_, metadata), unsigned=self.column.unsigned)

    def text(self, type_: ColumnType, metadata: int) -> ColumnSpec:
        return replace(self.spec(type_, metadata), collation=self.collation)

    def binary(self, type_: ColumnType, metadata: int) -> ColumnSpec:
        return replace(self.spec(type_, metadata), collation=BINARY)


def _integer(type_: ColumnType) -> Callable[[_Declared], ColumnSpec]:
    return lambda declared: declared.numeric(type_)


def _float(declared: _Declared) -> ColumnSpec:
    """FLOAT(p) is a double from 25 bits on."""
    if declared.base.startswith("float") and declared.base != "float8":
        numbers = declared.numbers
        if len(numbers) != 1 or numbers[0] <= 24:
            return declared.numeric(_T.FLOAT, 4)
    return declared.numeric(_T.DOUBLE, 8)


def _decimal(declared: _Declared) -> ColumnSpec:
    precision = declared.number(10, 1, 65)
    most = 30 if declared.flavour is Flavour.MYSQL else 38
    scale = declared.number(0, 0, min(precision, most), at=1)
    return declared.numeric(_T.NEWDECIMAL, precision << 8 | scale)


def _bit(declared: _Declared) -> ColumnSpec:
    return declared.spec(_T.BIT, declared.number(1, 1, 64))


def _year(declared: _Declared) -> ColumnSpec:
    return replace(declared.spec(_T.YEAR), unsigned=True)


def _date(declared: _Declared) -> ColumnSpec:
    return declared.spec(_T.DATE)


def _fractional(type_: ColumnType) -> Callable[[_Declared], ColumnSpec]:
    return lambda declared: declared.spec(type_, declared.number(0, 0, 6))


def _char(declared: _Declared) -> ColumnSpec:
    return declared.text(_T.STRING, declared.size(1, 255))


def _binary(declared: _Declared) -> ColumnSpec:
    return declared.binary(_T.STRING, declared.number(1, 0, 255))


def _compressed(declared: _Declared, size: int) -> tuple[ColumnType, int]:
    """VARCHAR or VARBINARY; if compressed, it has an additional byte for the method."""
    if not declared.column.compressed:
        return _T.VARCHAR, size
    return _T.VARCHAR_COMPRESSED, size + 1


def _varchar(declared: _Declared) -> ColumnSpec:
    if not declared.numbers:
        declared.refuse("how many characters?")
    return declared.text(*_compressed(declared, declared.size(0, _MOST_BYTES)))


def _varbinary(declared: _Declared) -> ColumnSpec:
    if not declared.numbers:
        declared.refuse("how many bytes?")
    return declared.binary(*_compressed(declared, declared.number(0, 0, _MOST_BYTES)))


_PREFIX: Final = {
    **dict.fromkeys(("tinytext", "tinyblob"), 1),
    **dict.fromkeys(("text", "blob"), 2),
    **dict.fromkeys(("mediumtext", "mediumblob"), 3),
    **dict.fromkeys(("longtext", "longblob", "clob", "json"), 4),
}
"""Bytes of a value's length prefix."""


def _lob(declared: _Declared) -> tuple[ColumnType, int]:
    type_ = _T.BLOB_COMPRESSED if declared.column.compressed else _T.BLOB
    return type_, _PREFIX[declared.base]


def _text(declared: _Declared) -> ColumnSpec:
    return declared.text(*_lob(declared))


def _blob(declared: _Declared) -> ColumnSpec:
    return declared.binary(*_lob(declared))


def _json(declared: _Declared) -> ColumnSpec:
    if declared.flavour is Flavour.MYSQL:
        return declared.spec(_T.JSON, 4)
    return _text(declared)


def _members(declared: _Declared) -> tuple[bytes, ...]:
    """The names of an ENUM or SET in the column's character set."""
    names = declared.column.members
    if not names:
        declared.refuse("its names are not known")
    charset = charset_of(declared.collation)
    return tuple(encode(charset, name) for name in names)


def _enum(declared: _Declared) -> ColumnSpec:
    members = _members(declared)
    spec = declared.text(_T.ENUM, 1 if len(members) < 256 else 2)
    return replace(spec, members=members)


def _set(declared: _Declared) -> ColumnSpec:
    members = _members(declared)
    if len(members) > 64:
        declared.refuse(f"{len(members)} names, a SET holds 64")
    size = (len(members) + 7) // 8
    return replace(declared.text(_T.SET, size if size <= 4 else 8), members=members)


_SHAPES: Final = (
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
)


def _geometry(declared: _Declared) -> ColumnSpec:
    base = "geometrycollection" if declared.base == "geomcollection" else declared.base
    spec = replace(declared.spec(_T.GEOMETRY, 4), geometry_type=_SHAPES.index(base))
    return spec if declared.flavour is Flavour.MYSQL else replace(spec, collation=BINARY)


def _vector(declared: _Declared) -> ColumnSpec:
    """MySQL has a type for it; MariaDB logs the bytes of the numbers as a VARBINARY."""
    dimensions = declared.number(2048, 1, 16383)
    if declared.flavour is Flavour.MARIADB:
        return declared.binary(_T.VARCHAR, 4 * dimensions)
    return replace(declared.binary(_T.VECTOR, 4), dimensions=dimensions)


def _network(size: int) -> Callable[[_Declared], ColumnSpec]:
    return lambda declared: declared.binary(_T.STRING, size)


_MAKERS: Final[dict[str, Callable[[_Declared], ColumnSpec]]] = {
    **dict.fromkeys(("tinyint", "bool", "boolean", "int1"), _integer(_T.TINY)),
    **dict.fromkeys(("smallint", "int2"), _integer(_T.SHORT)),
    **dict.fromkeys(("mediumint", "middleint", "int3"), _integer(_T.INT24)),
    **dict.fromkeys(("int", "integer", "int4"), _integer(_T.LONG)),
    **dict.fromkeys(("bigint", "serial", "int8"), _integer(_T.LONGLONG)),
    **dict.fromkeys(("decimal", "dec", "numeric", "fixed", "number"), _decimal),
    **dict.fromkeys(("float", "double", "real", "float4", "float8"), _float),
    "bit": _bit,
    "year": _year,
    "date": _date,
    "time": _fractional(_T.TIME2),
    "datetime": _fractional(_T.DATETIME2),
    "timestamp": _fractional(_T.TIMESTAMP2),
    **dict.fromkeys(("char", "character", "nchar"), _char),
    **dict.fromkeys(("varchar", "varchar2", "nvarchar", "varcharacter"), _varchar),
    "binary": _binary,
    **dict.fromkeys(("varbinary", "raw"), _varbinary),
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext", "clob"), _text),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), _blob),
    "enum": _enum,
    "set": _set,
    "json": _json,
    **dict.fromkeys((*_SHAPES, "geomcollection"), _geometry),
    "vector": _vector,
    "uuid": _network(16),
    "inet4": _network(4),
    "inet6": _network(16),
}
_LOGICAL: Final = {
    "json": Logical.JSON,
    "vector": Logical.VECTOR,
    "uuid": Logical.UUID,
    "inet4": Logical.INET4,
    "inet6": Logical.INET6,
    **dict.fromkeys((*_SHAPES, "geomcollection"), Logical.GEOMETRY),
}
_ONLY_MARIADB: Final = frozenset({"uuid", "inet4", "inet6"})


def declare(column: ColumnDefinition, flavour: Flavour) -> tuple[ColumnSpec, ColumnDefinition]:
    """What a server of the flavour logs for a column with full metadata; and the completed column.

    Completed: it has everything that the declared type implies and the definition lacks (logical
    type, sign, collation; text of unknown character set is the flavour's utf8mb4). Raises
    `SchemaError` for a type that the flavour does not have, or for sizes that no server accepts.
    """
    found = _DECLARED.fullmatch(column.declared)
    base = found["base"].lower() if found else ""
    make = _MAKERS.get(base)
    if found is None or make is None or (base in _ONLY_MARIADB and flavour is Flavour.MYSQL):
        raise SchemaError(
            f"column {column.name}: {flavour} has no type {column.declared!r}; "
            "give the type as CREATE TABLE does, as varchar(20)"
        )
    words = frozenset(_MARIADB_COMMENT.sub(r" \1 ", found["tail"].lower()).split())
    if words - _TAIL:
        raise SchemaError(
            f"column {column.name}: {column.declared!r}: {' '.join(sorted(words - _TAIL))!r} is no "
            "part of a type; a definition has fields for collation, names and the rest"
        )
    unsigned = column.unsigned or base == "serial" or bool(words & {"unsigned", "zerofill"})
    logical = column.logical
    if logical is Logical.PLAIN and base in _LOGICAL:
        logical = _LOGICAL[base]
    numbers: tuple[int, ...] = ()
    if found["inside"] is not None and base not in {"enum", "set"}:
        numbers = tuple(int(text) for text in re.findall(r"\d+", found["inside"]))
    if base == "json" and flavour is Flavour.MARIADB and column.collation is None:
        column = replace(column, collation=_MARIADB_JSON)
    compressed = column.compressed or "compressed" in words
    column = replace(column, unsigned=unsigned, logical=logical, compressed=compressed)
    if compressed and flavour is Flavour.MYSQL:
        raise SchemaError(f"column {column.name}: only MariaDB compresses columns")
    spec = make(_Declared(column, base, numbers, flavour))
    return spec, replace(column, collation=spec.collation)


_MARIADB_JSON: Final = 46  # utf8mb4_bin


def key_of(
    definition: TableDefinition, specs: tuple[ColumnSpec, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The primary key as logged: indexes, and how many characters of each column count (0: all).

    None if there is none. Raises `SchemaError` if it names a column that does not exist.
    """
    if not definition.primary_key:
        return None
    known = [column.name.casefold() for column in definition.columns]
    indexes = []
    for name in definition.primary_key:
        if name.casefold() not in known:
            raise SchemaError(
                f"table {definition.table}: the primary key names a column {name!r} that is not "
                "there"
            )
        indexes.append(known.index(name.casefold()))
    return tuple(indexes), prefixes_of(definition, indexes, specs)


def prefixes_of(
    definition: TableDefinition, indexes: Sequence[int], specs: tuple[ColumnSpec, ...]
) -> tuple[int, ...]:
    """How many characters of each key column count; 0 for all, also if the prefix covers all.

    Raises `SchemaError` if their number differs from that of the columns.
    """
    given = definition.key_prefixes or (0,) * len(indexes)
    if len(given) != len(indexes):
        raise SchemaError(
            f"table {definition.table}: {len(given)} prefixes for the {len(indexes)} columns of "
            "its primary key"
        )
    return tuple(
        0 if _whole(specs[index], prefix) else prefix
        for index, prefix in zip(indexes, given, strict=True)
    )


def _whole(spec: ColumnSpec, prefix: int) -> bool:
    """Whether a prefix of this length covers all of a CHAR, VARCHAR, BINARY or VARBINARY."""
    if spec.type not in {_T.STRING, _T.VARCHAR}:
        return not prefix
    return prefix * longest_character(spec.collation or BINARY) >= spec.metadata or not prefix
