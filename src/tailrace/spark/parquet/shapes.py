"""The columns of a lake's table, as files with other columns come in: types widen, names stay.

A table of Delta or Iceberg has one type a column, which its older files must be readable as. Where
a column's new type is not wider than the old (a number becomes a text), its values continue in a
column of their own, ``price__string``: what was written stays as it was, and nothing is converted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable

_WHOLE: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_FLOATING: Final = (pa.float32(), pa.float64())
DURATION: Final = {b"tailrace": b"time"}
"""A field's metadata that tells a TIME, kept as a number of microseconds, from a number."""
_NAMES: Final = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "datetime",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.bool_(): "boolean",
    pa.list_(pa.float32()): "vector",
}


def plain(arrow: pa.DataType) -> pa.DataType:
    """The type as tables have it: no dictionaries, a duration is a number of microseconds."""
    if pa.types.is_dictionary(arrow):
        return plain(arrow.value_type)
    if pa.types.is_duration(arrow):
        return pa.int64()
    if pa.types.is_null(arrow):
        return pa.string()
    if pa.types.is_map(arrow):
        return pa.map_(plain(arrow.key_type), plain(arrow.item_type))
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(field.name, plain(field.type)) for field in arrow])
    if pa.types.is_list(arrow):
        return pa.list_(plain(arrow.value_type))
    return arrow


def plain_schema(fields: Iterable[pa.Field]) -> pa.Schema:
    """Fields as tables have them; each may be NULL. Those of durations say so."""
    return pa.schema([_plain_field(field) for field in fields])


def _plain_field(field: pa.Field) -> pa.Field:
    found = pa.field(field.name, plain(field.type))
    return found.with_metadata(DURATION) if pa.types.is_duration(field.type) else found


def as_arrow(shape: pa.Schema) -> pa.Schema:
    """Columns as `plain_schema` gives them, with durations again."""
    return pa.schema(
        [
            pa.field(each.name, pa.duration("us") if each.metadata == DURATION else each.type)
            for each in shape
        ]
    )


def wider(old: pa.DataType, new: pa.DataType) -> pa.DataType | None:
    """The one of two types that holds the values of both, for every reader; None if neither is."""
    if old == new:
        return old
    for family in (_WHOLE, _FLOATING):
        if old in family and new in family:
            return max(old, new, key=family.index)
    decimals = pa.types.is_decimal128(old) and pa.types.is_decimal128(new)
    if decimals and old.scale == new.scale:
        return max(old, new, key=lambda each: each.precision)
    return None


def merged(table: pa.Schema | None, rows: pa.Schema) -> tuple[pa.Schema, dict[str, str]]:
    """A table's columns once it takes rows of other columns; and new names for some of these.

    ``rows`` is as `plain_schema` gives it. Columns that the rows lack stay, NULL in them.
    Names that differ in case alone are one, as to servers and Spark, and spelled as at first.
    """
    if table is None:
        return rows, {}
    known = {field.name.lower(): field for field in table}
    own = {name.lower() for name in rows.names}
    names: dict[str, str] = {}
    for field in rows:
        name = field.name
        while (both := _both(known.get(name.lower()), field)) is None or (
            name != field.name and name.lower() in own
        ):
            name = f"{field.name}__{_type_name(field)}" if name == field.name else f"{name}_"
        there = known.get(name.lower())
        name = name if there is None else there.name
        if name != field.name:
            names[field.name] = name
        known[name.lower()] = both.with_name(name)
    return pa.schema(known.values()), names


def _both(old: pa.Field | None, new: pa.Field) -> pa.Field | None:
    """A column that holds the values of both; None if there is none."""
    if old is None:
        return new
    if (old.metadata or {}) != (new.metadata or {}):
        return None
    found = wider(old.type, new.type)
    return None if found is None else new.with_type(found)


def _type_name(field: pa.Field) -> str:
    """A type as part of a column's name."""
    if field.metadata == DURATION:
        return "time"
    if pa.types.is_decimal128(field.type):
        return f"decimal_{field.type.precision}_{field.type.scale}"
    return _NAMES.get(field.type, "other")
