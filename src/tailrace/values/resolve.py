"""Combines a log's table map with a definition, which adds what the log lacks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace.constants import Flavour
from tailrace.errors import EventDecodeError, SchemaError
from tailrace.table_name import TableName
from tailrace.values import old_temporal
from tailrace.values.charsets import charset_of, decode
from tailrace.values.registry import check_declared, declare, declared_digits
from tailrace.values.schema import Column, Logical, TableSchema, logical_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.events.column_metadata import ColumnSpec
    from tailrace.events.table_map import TableLayout, TableMapEvent
    from tailrace.values.schema import ColumnDefinition, DefinedBy, NamesFrom, TableDefinition

_CALLED: Final[dict[DefinedBy, str]] = {
    "given": "the schema given",
    "ddl": "the DDL in the log",
    "server": "the server's definition",
}


def resolve_table(
    table_map: TableMapEvent | TableLayout,
    flavour: Flavour,
    definition: TableDefinition | None = None,
    definition_source: DefinedBy = "given",
) -> TableSchema:
    """The table of a table map, as its rows are decoded.

    Raises `SchemaError` if the definition cannot be that of the logged table.
    """
    specs = table_map.columns
    where = str(TableName(table_map.database, table_map.table))
    given: list[ColumnDefinition | None] = [None] * len(specs)
    if definition is not None:
        given[:] = _match(specs, definition, flavour, where, _CALLED[definition_source])
    columns = tuple(
        _column(index, spec, known, where, flavour)
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
    return TableSchema(
        table_map.database,
        table_map.table,
        columns,
        key or (),
        names_from,
        key_is_whole=not any(prefixes or ()),
        undeclared=_undeclared(columns, given, flavour),
    )


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
        if trouble := check_declared(spec, column, flavour):
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
        (c.name for c, told in pairs if told is None and c.type in old_temporal.TYPES), None
    )


def _column(
    index: int, spec: ColumnSpec, known: ColumnDefinition | None, where: str, flavour: Flavour
) -> Column:
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
    if spec.type in old_temporal.TYPES and known is not None:
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
        logical=logical_of(spec.type, collation, known.logical if known else Logical.PLAIN),
        generated=known is not None and bool(known.generated),
        # MariaDB 11.8 leaves all generated columns out of updates, 10.11 some of the virtual ones.
        may_be_lacking=(known.generated if known is not None and known.declared else None)
        if flavour is Flavour.MARIADB
        else False,
    )


def declared_column(definition: ColumnDefinition, flavour: Flavour) -> Column:
    """A column as the log would have it. Raises `SchemaError` as `declare`."""
    spec, known = declare(definition, flavour)
    return replace(_column(0, spec, known, known.name, flavour), name=known.name)


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
