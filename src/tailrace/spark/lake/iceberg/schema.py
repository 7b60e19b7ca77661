"""A table's columns as an Iceberg schema: field numbers stay with the columns that stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg import types as t
from pyiceberg.schema import Schema
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate, SetPropertiesUpdate

from tailrace.errors import UnsupportedType
from tailrace.spark.lake.iceberg.names import MAPPING, allowed, mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

_PLAIN: Final[dict[pa.DataType, t.IcebergType]] = {
    pa.bool_(): t.BooleanType(),
    pa.int8(): t.IntegerType(),
    pa.int16(): t.IntegerType(),
    pa.int32(): t.IntegerType(),
    pa.int64(): t.LongType(),
    pa.float32(): t.FloatType(),
    pa.float64(): t.DoubleType(),
    pa.string(): t.StringType(),
    pa.binary(): t.BinaryType(),
    pa.date32(): t.DateType(),
    pa.timestamp("us"): t.TimestampType(),
    pa.timestamp("us", "UTC"): t.TimestamptzType(),
}
_PROMOTED: Final = {
    (t.IntegerType(), t.LongType()),
    (t.FloatType(), t.DoubleType()),
}


def schema_updates(metadata: TableMetadata, columns: pa.Schema) -> tuple[Schema, list[TableUpdate]]:
    """The schema of a table that is to have ``columns``, and what gives it that."""
    known = metadata.schema()
    updates: list[TableUpdate] = []
    schema = evolved(known, metadata.last_column_id, allowed(columns))
    if schema is not known:
        number = 1 + max(each.schema_id for each in metadata.schemas)
        schema = Schema(*schema.fields, schema_id=number)
        updates += [AddSchemaUpdate(schema=schema), SetCurrentSchemaUpdate()]
    names = mapping(schema)
    if metadata.properties.get(MAPPING) != names:
        updates.append(SetPropertiesUpdate(updates={MAPPING: names}))
    return schema, updates


def evolved(known: Schema | None, last: int, columns: pa.Schema) -> Schema:
    """The schema for a table that is to have ``columns``; ``known`` itself where it has them.

    ``last`` is the highest field number that the table ever gave. A column of a type that the old
    one cannot be read as is another column with another number.
    """
    number = last

    def fresh() -> int:
        nonlocal number
        number += 1
        return number

    fields = _fields(columns, known.fields if known is not None else (), fresh)
    found = Schema(*fields)
    if known is not None and found.as_struct() == known.as_struct():
        return known
    return found


def _fields(
    columns: Iterable[pa.Field], known: Iterable[t.NestedField], fresh: Callable[[], int]
) -> list[t.NestedField]:
    before = {field.name: field for field in known}
    found = []
    for column in columns:
        old = before.get(column.name)
        kind = None if old is None else _again(column.type, old.field_type, fresh)
        if old is None or kind is None:
            old, kind = None, _type(column.type, fresh)
        found.append(
            t.NestedField(
                field_id=fresh() if old is None else old.field_id,
                name=column.name,
                field_type=kind,
                required=False,
                doc=None if old is None else old.doc,
            )
        )
    return found


def _again(
    arrow: pa.DataType, old: t.IcebergType, fresh: Callable[[], int]
) -> t.IcebergType | None:
    """The type of a column that continues; None where the old type cannot be read as it."""
    if pa.types.is_struct(arrow):
        if not isinstance(old, t.StructType):
            return None
        return t.StructType(*_fields(arrow, old.fields, fresh))
    if pa.types.is_nested(arrow):
        wanted: Any = _type(arrow, lambda: 0)
        if isinstance(old, t.MapType) and isinstance(wanted, t.MapType):
            same = (old.key_type, old.value_type) == (wanted.key_type, wanted.value_type)
            return old if same else None
        if isinstance(old, t.ListType) and isinstance(wanted, t.ListType):
            return old if old.element_type == wanted.element_type else None
        return None
    new = _type(arrow, fresh)
    if new == old or (old, new) in _PROMOTED:
        return new
    if isinstance(old, t.DecimalType) and isinstance(new, t.DecimalType):
        wider = old.scale == new.scale and old.precision <= new.precision
        return new if wider else None
    return None


def _type(arrow: pa.DataType, fresh: Callable[[], int]) -> t.IcebergType:
    if pa.types.is_decimal128(arrow):
        return t.DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_struct(arrow):
        return t.StructType(*_fields(arrow, (), fresh))
    if pa.types.is_map(arrow):
        return t.MapType(
            key_id=fresh(),
            key_type=_type(arrow.key_type, fresh),
            value_id=fresh(),
            value_type=_type(arrow.item_type, fresh),
            value_required=False,
        )
    if pa.types.is_list(arrow):
        return t.ListType(
            element_id=fresh(),
            element_type=_type(arrow.value_type, fresh),
            element_required=False,
        )
    found = _PLAIN.get(arrow)
    if found is None:
        raise UnsupportedType(f"Iceberg has no type for {arrow}")
    return found
