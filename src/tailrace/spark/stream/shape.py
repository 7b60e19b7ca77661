"""Batches of changes in the schema that a query has asked the data source for."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.columns.arrays import METADATA_FIELDS
from tailrace.columns.text.row_json import images_to_json, null_documents
from tailrace.spark.record.types import plain_type
from tailrace.spark.state.current.conversions import conform

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.values.schema import TableSchema

_TEXT: Final = pa.string()
_FIELDS: Final = tuple(pa.field(each.name, plain_type(each.type)) for each in METADATA_FIELDS)
RECORD_FIELDS: Final = _FIELDS[:-2]
"""The change record's own fields, as Spark sees them: without ``_present`` and ``_raw``."""
_IMAGES: Final = (pa.field("before", _TEXT), pa.field("after", _TEXT))
JSON_SCHEMA: Final = pa.schema([*RECORD_FIELDS, _FIELDS[-1], *_IMAGES])
"""Changes of all tables, their images as JSON; ``_raw`` tells JSON's null from SQL's."""


def table_schema(columns: pa.Schema, images: Literal["row", "both"]) -> pa.Schema:
    """The schema of one table's changes: its columns, or both images as structs."""
    fields = [pa.field(field.name, plain_type(field.type)) for field in columns]
    if images == "both":
        image = pa.struct(fields)
        fields = [pa.field("before", image), pa.field("after", image)]
    return pa.schema([*_FIELDS, *fields])


def table_columns(schema: pa.Schema, images: Literal["row", "both"]) -> list[str]:
    """The names of the table's columns in what `table_schema` made."""
    if images == "both":
        return [field.name for field in schema.field("after").type]
    ours = {field.name for field in _FIELDS}
    return [name for name in schema.names if name not in ours]


def as_json(batch: pa.RecordBatch, table: TableSchema, target: pa.Schema) -> pa.RecordBatch:
    """A batch with its images as JSON documents, in the fields of ``target``."""
    made: dict[str, Callable[[], pa.Array]] = {
        "before": lambda: images_to_json(batch, table, "before"),
        "after": lambda: images_to_json(batch, table, "after"),
        "_raw": lambda: null_documents(batch, table),
    }
    columns = [
        made[field.name]() if field.name in made else _plain(batch, field) for field in target
    ]
    return pa.RecordBatch.from_arrays(columns, schema=target)


def as_columns(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """A batch of one table, in the fields of ``target``.

    What is neither a field of the record nor an image is a column of the table: the after image's
    value, or the before image's in a delete; NULL where the table had no such column then.
    """
    chosen: pa.StructArray | None = None
    columns = []
    for field in target:
        if field.name in {"before", "after"}:
            columns.append(_image(batch.column(field.name), field.type))
        elif field.name in batch.schema.names:
            columns.append(_plain(batch, field))
        else:
            chosen = _one_image(batch) if chosen is None else chosen
            columns.append(_member(chosen, field))
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _plain(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    column = batch.column(field.name)
    return column if column.type == field.type else column.cast(field.type)


def _one_image(batch: pa.RecordBatch) -> pa.StructArray:
    """The after images; the before image of each delete."""
    before, after = batch.column("before"), batch.column("after")
    if after.null_count == 0:
        return after
    if after.null_count == len(after):
        return before
    return pc.if_else(after.is_valid(), after, before)


def _member(image: pa.StructArray, field: pa.Field) -> pa.Array:
    index = image.type.get_field_index(field.name)
    if index < 0:
        return pa.nulls(len(image), field.type)
    values = pc.struct_field(image, [index])
    return _typed(values, field)


def _image(image: pa.StructArray, wanted: pa.StructType) -> pa.Array:
    """An image's struct with the wanted members."""
    if image.null_count == len(image):
        return pa.nulls(len(image), wanted)
    members = [_member(image, field) for field in wanted]
    mask = image.is_null() if image.null_count else None
    return pa.StructArray.from_arrays(members, fields=list(wanted), mask=mask)


def _typed(values: pa.Array, field: pa.Field) -> pa.Array:
    if values.type == field.type:
        return values
    if pa.types.is_nested(field.type):
        return values.cast(field.type)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if any(before(values.type) and after(field.type) for before, after in _READ_AS):
        with suppress(pa.ArrowInvalid):
            return values.cast(field.type)
    if {values.type, field.type} == {pa.string(), pa.binary()} and _is_ascii(values):
        return values.cast(field.type)
    changed: Any = conform(pa.chunked_array([values]), field.type, field.name)
    return changed.combine_chunks()


def _is_ascii(values: pa.Array) -> bool:
    return all(each is None or each.isascii() for each in values.to_pylist())


def _is_exact(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow) or pa.types.is_decimal(arrow))


_READ_AS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]], ...]] = (
    (_is_exact, pa.types.is_string),
    (pa.types.is_integer, pa.types.is_floating),
    (pa.types.is_floating, pa.types.is_floating),
    (pa.types.is_date, pa.types.is_timestamp),
)
"""What a reader's column of another type shows: the same value, if no digit of it is lost."""
