"""The data source ``binlog``: a log's changes as a DataFrame, for everyone else's jobs.

    tailrace.spark.register(spark)
    spark.read.format("binlog").option("path", "/logs").load()
    spark.read.format("binlog").option("path", "/logs").option("table", "shop.orders").load()

A partition is a split of a log. The options are described at `BinlogDataSource`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from tailrace.columns import plan_splits, read_split
from tailrace.columns.arrays import table_of
from tailrace.columns.types import plan_of
from tailrace.errors import PipelineError, UsageError
from tailrace.schema.catalogue import Catalogue
from tailrace.schema.given import load
from tailrace.selection import wants
from tailrace.spark.filters import matching, table_patterns, taken
from tailrace.spark.shape import JSON_SCHEMA, RECORD_FIELDS, as_columns, as_json, table_schema
from tailrace.spark.types import spark_schema, wanted_schema
from tailrace.storage import find

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from tailrace.columns import Split
    from tailrace.rows.schema import TableSchema
    from tailrace.spark.filters import Condition

_PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"
_KNOWN: Final = frozenset(
    {"path", "table", "tables", "images", "columns", "schema", "keyring", "verify", "statements"}
    | {"split"}
)


def register(spark: SparkSession) -> None:
    """Make the format ``binlog`` known to a session."""
    spark.dataSource.register(BinlogDataSource)


@dataclass(frozen=True)
class Options:
    """The options of a read, understood; raises UsageError for one that is not."""

    path: str
    table: str | None
    tables: tuple[str, ...] | None
    images: Literal["row", "both"]
    columns: tuple[str, ...] | None
    schema: str | None
    verify: bool
    statements: Literal["error", "skip"]
    split_bytes: int
    keyring: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Options:
        """Understand what was given to ``.option(…)``, whatever the case of the names."""
        options = {name.lower(): value for name, value in given.items()}
        if unknown := sorted(set(options) - _KNOWN):
            raise UsageError(
                f"format binlog has no option {unknown[0]!r}: it has {', '.join(sorted(_KNOWN))}"
            )
        if not options.get("path"):
            raise UsageError('format binlog: give the logs, a file or folder, by option("path", …)')
        table = options.get("table")
        if table is not None and "tables" in options:
            raise UsageError("give option table for one table's columns, or tables, not both")
        if table is not None and "." not in table:
            raise UsageError(f"option table is a full name like shop.orders, and not {table!r}")
        images = _choice(options, "images", ("row", "both"))
        if table is None and ("columns" in options or "images" in options):
            raise UsageError("options columns and images are for one table: give option table too")
        return cls(
            options["path"],
            table,
            _names(options.get("tables")),
            images,
            _names(options.get("columns")),
            options.get("schema"),
            _choice(options, "verify", ("true", "false")) == "true",
            _choice(options, "statements", ("error", "skip")),
            _bytes(options.get("split", str(64 << 20))),
            options.get("keyring"),
        )


def _choice(options: Mapping[str, str], name: str, values: tuple[str, ...]) -> Any:
    value = options.get(name, values[0]).lower()
    if value not in values:
        raise UsageError(f"option {name} is {' or '.join(values)}, and not {value!r}")
    return value


def _names(text: str | None) -> tuple[str, ...] | None:
    """Names with commas between them, or a JSON list of names."""
    if text is None:
        return None
    if not text.startswith("["):
        return tuple(name.strip() for name in text.split(","))
    try:
        return tuple(str(name) for name in json.loads(text))
    except ValueError as error:
        raise UsageError(f"option columns is no list of names: {error}") from None


def _bytes(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise UsageError(f"option split is a number of bytes, and not {text!r}")
    return int(text)


class BinlogDataSource(DataSource):
    """Format ``binlog``, with options:

    - ``path``: a log file, a folder of logs, a folder of such folders, or a URL of these
      (``s3://bucket/logs``).
    - ``keyring``: a file with the keys of logs that are encrypted; the tasks read it, too.
    - ``table``: give this table's columns, typed; else all tables, with images as JSON text.
    - ``tables``: of all tables, only those that fit these patterns (``shop.*``), with commas.
    - ``images``: ``row`` (default: the after image, a delete's before image) or ``both``.
    - ``columns``: only these columns of the table are decoded; names with commas between.
    - ``schema``: an SQL file of CREATE TABLE statements, for logs that name no columns.
    - ``verify``: ``false`` leaves checksums alone.
    - ``statements``: ``skip`` passes over changes that were logged as statements.
    - ``split``: bytes of log that a partition has, about (64 MiB).

    Filters on ``_db``, ``_table``, ``_op``, ``_ts`` and ``_gtid`` are taken over where
    ``spark.sql.python.filterPushdown.enabled`` is true.
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "binlog"

    def schema(self) -> StructType:
        """All tables: the change record with JSON images. One table: its newest columns."""
        return spark_schema(arrow_schema(Options.of(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader; one that takes filters where Spark is about to push them.

        Spark refuses a reader that takes filters while the setting is off, and does not tell the
        source of the setting; but it plans with another module where it is on.
        """
        kind = PushingReader if _PUSHING in sys.modules or _is_main(_PUSHING) else BinlogReader
        return kind(Options.of(self.options), wanted_schema(schema))


def _is_main(module: str) -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == module


def _splits(options: Options) -> list[Split]:
    catalogue = Catalogue()
    if options.schema is not None:
        catalogue.given(load(options.schema))
    return [
        split
        for series in find(options.path, options.keyring)
        for split in plan_splits(series, target_bytes=options.split_bytes, catalogue=catalogue)
    ]


def arrow_schema(options: Options) -> pa.Schema:
    """The schema of a read, as Arrow has it.

    Raises `PipelineError` where the logs have no change of the table or it has no such column,
    UsageError where one of its columns has a name of ours.
    """
    if options.table is None:
        return JSON_SCHEMA
    columns = _columns(options, options.table)
    ours = {field.name for field in RECORD_FIELDS} | {"_present", "_raw"}
    taken_names = [name for name in columns.names if name.lower() in ours]
    if taken_names and options.images == "row":
        raise UsageError(
            f"{options.table} has a column {taken_names[0]}, which is also the name of a field of "
            'the change record: read it with option("images", "both")'
        )
    return table_schema(columns, options.images)


def _columns(options: Options, table: str) -> pa.Schema:
    """A table's columns, as the newest part of the log that has any of its changes knows it."""
    found: list[TableSchema] = []
    for split in reversed(_splits(options)):
        batches = read_split(
            split,
            tables=table_patterns((), table),
            columns=(),
            verify_checksums=False,
            statements=options.statements,
            notice=found.append,
        )
        for _ in batches:
            pass
        if found:
            break
    if not found:
        raise PipelineError(f"{options.path} has no rows of table {table}")
    columns = found[-1].columns
    if options.columns is not None:
        names = {column.name for column in columns}
        if missing := [name for name in options.columns if name not in names]:
            raise PipelineError(f"table {table} has no column {missing[0]}")
        columns = tuple(column for column in columns if column.name in options.columns)
    return pa.schema([pa.field(column.name, plan_of(column).type) for column in columns])


@dataclass
class SplitPartition(InputPartition):
    """A partition: a split of a log."""

    split: Split


class BinlogReader(DataSourceReader):
    """Reads the splits of a log; pickles, with what is asked for of it."""

    def __init__(self, options: Options, target: pa.Schema) -> None:
        self._options = options
        self._target = target
        self._conditions: list[Condition] = []

    def partitions(self) -> Sequence[InputPartition]:
        """A partition for each split."""
        return [SplitPartition(split) for split in _splits(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes of a split that meet the filters taken over, as Arrow batches."""
        if not isinstance(partition, SplitPartition):  # there is no log: Spark makes one partition
            return
        options = self._options
        batches = read_split(
            partition.split,
            tables=self._tables(),
            columns=self._wanted(),
            verify_checksums=options.verify,
            statements=options.statements,
        )
        asked = wants(options.tables)
        for batch in batches:
            kept = matching(batch, self._conditions)
            if not kept.num_rows:
                continue
            names = kept.column("_db")[0].as_py(), kept.column("_table")[0].as_py()
            if not asked(*names):
                continue
            if options.table is not None:
                yield as_columns(kept, self._target)
                continue
            yield as_json(kept, table_of(batch.schema), self._target)

    def _tables(self) -> tuple[str, ...] | None:
        """Patterns of the tables to decode, which may fit more than are asked for; None for all."""
        by_filter = table_patterns(self._conditions, self._options.table)
        return self._options.tables if by_filter is None else by_filter

    def _wanted(self) -> tuple[str, ...] | None:
        """The table's columns to decode; None for all."""
        if self._options.table is None:
            return None if {"before", "after"} & set(self._target.names) else ()
        return self._options.columns


class PushingReader(BinlogReader):
    """A reader that takes filters from Spark."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take what can be told from the change record's own fields; Spark does the others."""
        self._conditions, left = taken(filters)
        return left
