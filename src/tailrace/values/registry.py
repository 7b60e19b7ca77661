"""The column types: how each is stored, converted and declared, from one module per family.

The key is the type code of the table map; for strings, whose bytes mean different things, it is the
logical type (`key_of`). ``columns/types.py`` and ``sql/values.py`` have tables with the same keys.
To add a type, declare it in its family's module, and add the family to `_FAMILIES` if it is new.

A dumper takes what the loader gives and makes the same bytes from it, except for details that the
value does not have. These are: opaque values within JSON documents (their text is written as a
number or a string; so are integers of other widths than MySQL's JSON parser chooses), the error
value of an ENUM that has an empty name, empty names in a SET, and characters for which several
codes are read as one. Rows from a log are therefore passed on as bytes (`tailrace.values.encode`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import ColumnType, Flavour
from tailrace.errors import SchemaError, UnsupportedType, ValueRejected
from tailrace.printable import short_repr
from tailrace.values import (
    compressed,
    decimals,
    floats,
    geometry,
    integers,
    json,
    members,
    network,
    old_temporal,
    strings,
    temporal,
    vector,
)
from tailrace.values.family import Declared, Format, TypeFamily, sized
from tailrace.values.schema import STRING_TYPES, Logical

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.events.column_metadata import ColumnSpec
    from tailrace.values.family import Declaration, Dumper, JsonWriter, Key, Loader, Width
    from tailrace.values.schema import Column, ColumnDefinition


def _no_value(value: Any) -> bytes:
    raise ValueRejected(f"{short_repr(value)}: the column's type has NULL only")


_NULL: Final = TypeFamily(
    widths={ColumnType.NULL: sized(0)},
    formats={ColumnType.NULL: Format.of(lambda _data: None, _no_value)},
)
_FAMILIES: Final = (
    _NULL,
    integers.FAMILY,
    floats.FAMILY,
    decimals.FAMILY,
    temporal.FAMILY,
    old_temporal.FAMILY,
    members.FAMILY,
    strings.FAMILY,
    json.FAMILY,
    geometry.FAMILY,
    vector.FAMILY,
    network.FAMILY,
)
WIDTHS: Final = {code: width for family in _FAMILIES for code, width in family.widths.items()}
FORMATS: Final[dict[Key, Format]] = {
    key: found for family in _FAMILIES for key, found in family.formats.items()
}
NAMES: Final[dict[str, Declaration]] = {
    name: found for family in _FAMILIES for name, found in family.names.items()
}
"""The types by their names in SQL, in lower case."""


def key_of(column: Column) -> Key:
    """The column's key in tables of column types."""
    return column.logical if column.type in STRING_TYPES else column.type


def width_of(column: Column) -> Width:
    """The width of a column's values in a row image.

    Raises `UnsupportedType` for types that no row image has, and for metadata that is invalid for
    its type.
    """
    width = WIDTHS[column.type](column.metadata) if column.type in WIDTHS else None
    if width is None:
        raise _unsupported(column)
    return width


def loader_of(column: Column) -> Loader:
    """The function that converts a value's bytes to a Python object.

    Raises `UnsupportedType` if none can.
    """
    load = _format(column).loader(column)
    if column.type in compressed.TYPES:
        return compressed.compressed_loader(load, column)
    return load


def dumper_of(column: Column) -> Dumper:
    """The function that converts a Python object to a value's bytes.

    Nothing is rounded, truncated or replaced. The message of a `ValueRejected` says what was wrong,
    but not in which column: `tailrace.values.encode` adds that. Raises `UnsupportedType` if no
    function can convert.
    """
    width = width_of(column)
    dump = _format(column).dumper(column)
    if column.type in compressed.TYPES:
        return compressed.compressed_dumper(dump, column)
    return _limited(dump, width.most) if width.prefix else dump


def json_writer_of(column: Column) -> JsonWriter:
    """The function that writes a column's values, as its loader returns them, as JSON."""
    return _format(column).json(column)


def octets_of(column: Column) -> Callable[[bytes], bytes] | None:
    """The function that makes a column's bytes in a row image those that a user asks for."""
    return _format(column).octets


def _limited(dump: Dumper, most: int) -> Dumper:
    def dump_limited(value: Any) -> bytes:
        data = dump(value)
        if len(data) > most:
            raise ValueRejected(f"{len(data)} bytes, the column holds {most}")
        return data

    return dump_limited


def _format(column: Column) -> Format:
    found = FORMATS.get(key_of(column))
    if found is None:
        raise _unsupported(column)
    return found


def _unsupported(column: Column) -> UnsupportedType:
    return UnsupportedType(
        f"column {column.name} is of type {column.type.name} with metadata {column.metadata}, "
        "which no row image has; leave its table out to continue"
    )


_DECLARED: Final = re.compile(
    r"\s*(?P<base>[a-z]\w*)\s*(?:\((?P<inside>.*)\))?(?P<tail>[^)]*)", re.IGNORECASE | re.DOTALL
)
_BASE: Final = re.compile(r"\s*([a-z]\w*)\s*(?:\(([^)]*)\))?", re.IGNORECASE)
_MARIADB_COMMENT: Final = re.compile(r"/\*m?!\d*(.*?)\*/")
_TAIL: Final = frozenset({"unsigned", "signed", "zerofill", "precision", "compressed"})
"""The words that may follow a type, as servers print it."""


def declare(column: ColumnDefinition, flavour: Flavour) -> tuple[ColumnSpec, ColumnDefinition]:
    """What a server of the flavour logs for a column with full metadata; and the completed column.

    Completed: it has everything that the declared type implies and the definition lacks (logical
    type, sign, collation; text of unknown character set is the flavour's utf8mb4). Raises
    `SchemaError` for a type that the flavour does not have, or for sizes that no server accepts.

    Sources: what MySQL 9.7, MariaDB 11.8 and 10.11 write (``tests/values/test_table_server.py``
    compares byte for byte); facts sheet 2.2 and 3.1.
    """
    found = _DECLARED.fullmatch(column.declared)
    base = found["base"].lower() if found else ""
    known = NAMES.get(base)
    if (
        found is None
        or known is None
        or known.spec is None
        or (known.only_mariadb and flavour is Flavour.MYSQL)
    ):
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
    compressed_ = column.compressed or "compressed" in words
    column = replace(
        column,
        unsigned=column.unsigned or known.unsigned or bool(words & {"unsigned", "zerofill"}),
        logical=known.logical if column.logical is Logical.PLAIN else column.logical,
        compressed=compressed_,
    )
    if compressed_ and flavour is Flavour.MYSQL:
        raise SchemaError(f"column {column.name}: only MariaDB compresses columns")
    numbers = _numbers(found["inside"]) if base not in {"enum", "set"} else ()
    spec = known.spec(Declared(column, base, numbers, flavour))
    return spec, replace(column, collation=spec.collation)


def check_declared(spec: ColumnSpec, column: ColumnDefinition, flavour: Flavour) -> str | None:
    """How the log contradicts a column's declared type, as the end of a sentence; else None.

    An empty declaration contradicts nothing. A type name that no server of the flavour has is also
    a contradiction.
    """
    if not column.declared:
        return None
    found = _BASE.match(column.declared)
    known = NAMES.get(found[1].lower()) if found else None
    if found is None or known is None:
        return f"{flavour} has no type of that name"
    if spec.type not in known.fits:
        return f"the log says {spec.type.name}"
    return known.trouble(spec, Declared(column, known.name, _numbers(found[2]), flavour))


def declared_digits(declared: str) -> int:
    """The number of fraction digits that ``datetime(3)`` and similar types declare."""
    found = _BASE.match(declared)
    return int(found[2]) if found and found[2] and found[2].strip().isdigit() else 0


def _numbers(inside: str | None) -> tuple[int, ...]:
    return tuple(int(text) for text in re.findall(r"\d+", inside or ""))
