"""A table's columns as an Iceberg schema: field numbers stay with the columns that stay.

Columns have names in the table, and in its files, which have no field numbers.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg import types as t
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate, SetPropertiesUpdate

from tailrace.spark.lake.tables import converted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

MAPPING: Final = "schema.name-mapping.default"
"""The property of a table by which columns are found in files."""
_RESERVED: Final = {
    "_file": "_log_file",
    "_pos": "_log_pos",
    **{name: f"{name}_" for name in ("_deleted", "_partition", "_row_id", "_spec_id")},
}
"""Names that Iceberg gives columns of its own, and what ours are called instead."""
BACK: Final = {new: old for old, new in _RESERVED.items()}
"""What a column of such a name is called in files."""
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
    names = _mapping(schema)
    if metadata.properties.get(MAPPING) != names:
        updates.append(SetPropertiesUpdate(updates={MAPPING: names}))
    return schema, updates


def evolved(known: Schema | None, last: int, columns: pa.Schema) -> Schema:
    """The schema for a table that is to have ``columns``; ``known`` itself where it has them.

    ``last`` is the highest field number that the table ever gave. A column of a type that the old
    one cannot be read as is another column with another number. Raises `UnsupportedType`.
    """
    wanted = converted("Iceberg", columns, _pyarrow_to_schema_without_ids).fields
    fresh = count(last + 1).__next__
    found = Schema(*_fields(wanted, known.fields if known is not None else (), fresh))
    if known is not None and found.as_struct() == known.as_struct():
        return known
    return found


def _fields(
    columns: Iterable[t.NestedField], known: Iterable[t.NestedField], fresh: Callable[[], int]
) -> list[t.NestedField]:
    before = {field.name: field for field in known}
    found: list[t.NestedField] = []
    for new in columns:
        old = before.get(new.name)
        kind = None if old is None else _again(old.field_type, new.field_type, fresh)
        if old is None or kind is None:
            (old,) = assign_fresh_schema_ids(Schema(new), fresh).fields
            kind = _optional(old.field_type)
        found.append(t.NestedField(old.field_id, new.name, kind, required=False, doc=old.doc))
    return found


def _optional(kind: t.IcebergType) -> t.IcebergType:
    """The type of a new column; its members, too, may be NULL."""
    if not isinstance(kind, t.StructType):
        return kind
    return t.StructType(
        *(
            each.model_copy(update={"required": False, "field_type": _optional(each.field_type)})
            for each in kind.fields
        )
    )


def _again(
    old: t.IcebergType, new: t.IcebergType, fresh: Callable[[], int]
) -> t.IcebergType | None:
    """The type of a column that continues; None where the old type cannot be read as it.

    pyiceberg's ``promote`` takes decimals of other scales for the same, and texts for bytes.
    """
    if isinstance(old, t.StructType) and isinstance(new, t.StructType):
        return t.StructType(*_fields(new.fields, old.fields, fresh))
    if isinstance(old, t.DecimalType) and isinstance(new, t.DecimalType):
        wider = old.scale == new.scale and old.precision <= new.precision
        return new if wider else None
    if str(old) == str(new):  # whatever numbers the members of lists and maps have
        return old
    return new if (old, new) in _PROMOTED else None


def allowed(columns: pa.Schema) -> pa.Schema:
    """The columns, with other names for those that Iceberg keeps for itself."""
    return pa.schema([each.with_name(_RESERVED.get(each.name, each.name)) for each in columns])


def _mapping(schema: Schema) -> str:
    """By which names a schema's columns are found in files."""
    fields = [
        each.model_copy(update={"names": each.names + [BACK[n] for n in each.names if n in BACK]})
        for each in schema.name_mapping.root
    ]
    return NameMapping(fields).model_dump_json()
