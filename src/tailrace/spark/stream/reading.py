"""What a task of the data source ``binlog`` does: decode a split into the schema asked for."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition

from tailrace.columns import read_split
from tailrace.columns.arrays import table_of
from tailrace.errors import PipelineError, SchemaChanged
from tailrace.log.readable import statement_of
from tailrace.spark.state.failure import RejectedError
from tailrace.spark.stream.filters import matching, table_patterns
from tailrace.spark.stream.shape import as_columns, as_json, table_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from tailrace.columns import Split
    from tailrace.events import Event
    from tailrace.spark.stream.filters import Condition
    from tailrace.spark.stream.options import Options

_log: Final = logging.getLogger("tailrace.spark")


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
    batches = read_split(
        partition.split,
        tables=_tables(options, conditions),
        exclude=options.tables.exclude,
        columns=_wanted(options, target),
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


def _tables(options: Options, conditions: Sequence[Condition]) -> tuple[str, ...] | None:
    """Patterns of the tables to decode, which may fit more than are asked for; None for all."""
    by_filter = table_patterns(conditions, options.table)
    return options.tables.only if by_filter is None else by_filter


def _wanted(options: Options, target: pa.Schema) -> tuple[str, ...] | None:
    """The table's columns to decode; None for all."""
    if options.table is None:
        return None if {"before", "after"} & set(target.names) else ()
    return options.columns
