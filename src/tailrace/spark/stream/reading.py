"""What a task of the data source ``binlog`` does: decode a split into the schema asked for."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from tailrace.columns import read_split
from tailrace.columns.arrays import METADATA_FIELDS, table_of
from tailrace.columns.text.row_json import images_to_json, null_documents
from tailrace.errors import PipelineError, SchemaChanged
from tailrace.log.readable import statement_of
from tailrace.spark.record.types import plain_type
from tailrace.spark.state.current.conversions import conform
from tailrace.spark.state.failure import RejectedError
from tailrace.spark.stream.filters import matching, table_patterns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tailrace.columns import Split
    from tailrace.events import Event
    from tailrace.spark.stream.filters import Condition
    from tailrace.spark.stream.options import Options
    from tailrace.values.schema import TableSchema

_log: Final = logging.getLogger("tailrace.spark")
_TEXT: Final = pa.string()
_FIELDS: Final = tuple(pa.field(each.name, plain_type(each.type)) for each in METADATA_FIELDS)
RECORD_FIELDS: Final = _FIELDS[:-2]
"""The change record's own fields, as Spark sees them: without ``_present`` and ``_raw``."""
_IMAGES: Final = (pa.field("before", _TEXT), pa.field("after", _TEXT))
JSON_SCHEMA: Final = pa.schema([*RECORD_FIELDS, _FIELDS[-1], *_IMAGES])
"""Changes of all tables, their images as JSON; ``_raw`` tells JSON's null from SQL's."""


@dataclass
class SplitPartition(InputPartition):
    """A partition: a split of a log."""

    split: Split


def read_changes(
    partition: InputPartition,
    options: Options,
    target: pa.Schema,
    conditions: Sequence[Condition],
    since: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The changes of a split that meet the conditions, as Arrow batches of the schema ``target``.

    Raises what `read_split` raises, and `SchemaChanged` where rows after the ``_seq`` ``since``
    have other columns than the target (None: they may).
    """
    if not isinstance(partition, SplitPartition):  # there is no log: Spark makes one partition
        return
    tables, columns = table_patterns(conditions), options.columns
    if options.table is not None:
        tables = (options.table,)
    elif not {"before", "after"} & set(target.names):
        columns = ()
    batches = read_split(
        partition.split,
        tables=options.tables.only if tables is None else tables,
        exclude=options.tables.exclude,
        columns=columns,
        verify_checksums=options.verify_checksums,
        statements=options.statements,
        skipped=_warn,
    )
    for batch in batches:
        kept = matching(batch, conditions)
        if not kept.num_rows:
            continue
        names = kept.column("_db")[0].as_py(), kept.column("_table")[0].as_py()
        if not options.tables(*names):
            continue
        if options.table is not None:
            _check_names(kept, options, target)
            last = int(kept.column("_seq")[kept.num_rows - 1].as_py())
            newer = since is not None and last > since
            yield _checked(kept, options, target) if newer else as_columns(kept, target)
        else:
            yield as_json(kept, table_of(batch.schema), target)


def _warn(event: Event) -> None:
    """Note in the task's log that a change is missing."""
    _log.warning("%s:%s: skipped %s", event.file, event.offset, statement_of(event))


def _check_names(batch: pa.RecordBatch, options: Options, target: pa.Schema) -> None:
    """Raise `PipelineError` where the log does not name a table's columns and the target does."""
    if batch.schema.metadata[b"tailrace.names"] != b"none":
        return
    there = {field.name for field in batch.schema.field("after").type}
    asked = table_columns(target, options.images)
    if asked and there.isdisjoint(asked):
        raise PipelineError(
            f"table {options.table}: the log does not name the columns of its rows from"
            f" {_place(batch)} on"
            f" (binlog_row_metadata=MINIMAL), and columns such as {asked[0]} are asked for: give"
            ' its CREATE TABLE by option("schema", …), or read from a later position'
        )


def _checked(batch: pa.RecordBatch, options: Options, target: pa.Schema) -> pa.RecordBatch:
    """As `as_columns`; raises `SchemaChanged` where the table's columns are not the target's."""
    there = [field.name for field in batch.schema.field("after").type]
    asked = table_columns(target, options.images)
    what = [f"{name} is new" for name in there if name not in asked]
    what += [f"{name} is gone" for name in asked if name not in there]
    try:
        if not what:
            return as_columns(batch, target)
    except RejectedError as error:
        what = [str(error)]
    raise SchemaChanged(
        f"table {options.table} has other columns from {_place(batch)} on than those that this"
        f" query began with ({', '.join(what)}): start the query again, with the same checkpoint,"
        ' for the new columns; or give option("schemaChange", "ignore"), which leaves new columns'
        " out"
    )


def _place(batch: pa.RecordBatch) -> str:
    """Where the log has the first row."""
    return f"{batch.column('_file')[0].as_py()}:{batch.column('_pos')[0].as_py()}"


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
