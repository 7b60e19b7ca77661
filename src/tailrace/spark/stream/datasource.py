"""The data source ``binlog``: a log's changes as a DataFrame, for everyone else's jobs.

    tailrace.spark.register(spark)
    spark.read.format("binlog").option("path", "/logs").load()
    spark.read.format("binlog").option("path", "/logs").option("tables", "shop.orders").load()
    spark.readStream.format("binlog").option("path", "/logs").option("start", "now").load()

A partition is a split of a log. The options are described at `BinlogDataSource`.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from tailrace.columns import changes, plan_splits, read_split
from tailrace.columns.arrays import table_of
from tailrace.columns.types import plan_of
from tailrace.errors import ConnectionLost, PipelineError, SchemaError, ServerError, UsageError
from tailrace.live.scheme import names_server
from tailrace.live.snapshot import logs_names
from tailrace.live.tables import definitions_of
from tailrace.live.url import Source
from tailrace.position import sequence_at
from tailrace.schema.catalogue import Catalogue
from tailrace.schema.table import Table
from tailrace.schema.user_schema import load
from tailrace.spark.input.folder import settled
from tailrace.spark.input.server_log import ServerLog
from tailrace.spark.record.types import spark_schema, wanted_schema
from tailrace.spark.stream.filters import taken
from tailrace.spark.stream.options import NAMES, Options, refuse_streaming
from tailrace.spark.stream.reading import (
    JSON_SCHEMA,
    RECORD_FIELDS,
    SplitPartition,
    read_changes,
    table_schema,
)
from tailrace.storage import find
from tailrace.table_name import TableName
from tailrace.values.resolve import resolve_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceWriter, Filter
    from pyspark.sql.types import StructType

    from tailrace.columns import Split
    from tailrace.schema.letter_case import LowerCase
    from tailrace.spark.stream.filters import Condition
    from tailrace.values.schema import Column, TableSchema

_PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"
_KEPT: Final = "tailrace.options"
"""Metadata of the first column of a table in Spark's catalogue: its options.

Spark tells them to a Python source when the table is created, and never again.
"""


def register(spark: SparkSession) -> None:
    """Make the format ``binlog`` known to a session."""
    spark.dataSource.register(BinlogDataSource)
    # Spark looks for it in this thread's active session only, and one that another thread has made
    # is not active here; making any DataFrame of our own data makes it so.
    spark.createDataFrame([], "nothing INT")


def _of_catalogue(given: Mapping[str, str]) -> dict[str, str] | None:
    """The options of a table that Spark's catalogue is about to create; None where it is not."""
    options = {name.lower(): value for name, value in given.items()}
    if "location" not in options:
        return None
    path = options.get("path", options["location"])
    found = urlsplit(path)
    if found.scheme == "file" and not found.netloc:  # Spark has made a URI of it
        path = unquote(found.path)
    ours = {name: value for name, value in options.items() if name in NAMES}
    return ours | {"path": path}


class BinlogDataSource(DataSource):
    """Format ``binlog``, with options:

    - ``path``: a log file, a folder of logs, a folder of such folders, a URL of these
      (``s3://bucket/logs``), or a server's (``mysql://user@host``), whose log is copied into the
      folder ``spool`` first, which driver and tasks share.
    - ``keyring``: a file with the keys of logs that are encrypted; the tasks read it, too.
    - ``tables``: the full name of one table (``shop.orders``): the rows have its columns, typed.
      Or patterns, with commas (``shop.*,crm.people``), or nothing for all tables: the rows have the
      images as JSON text, and ``_raw``, which tells JSON's null in them from SQL's.
    - ``exclude``: leave out the tables that match these patterns; their rows are not decoded.
    - ``images``: of one table ``row`` (default: the after image, a delete's before image),
      ``both``, or ``json``, as for several tables.
    - ``columns``: only these columns of the table are decoded; names with commas between.
    - ``schema``: an SQL file of CREATE TABLE statements, for logs that name no columns.
    - ``lower_case_table_names``: that of the server that wrote the log (`tailrace.spark.mirror`). A
      server is asked. For files it is needed if patterns are not in lower case.
    - ``verify_checksums``: ``false`` does not verify checksums.
    - ``statements``: ``skip`` skips changes that were logged as statements.
    - ``split``: bytes of log for each partition, approximately (64 MiB).

    And of ``spark.readStream``:

    - ``start``: ``oldest`` (default), ``now``, a position (``binlog.000003:1234``), a set of GTIDs
      after which it begins, or a time (``2026-11-21T12:00:00Z``).
    - ``maxBytesPerTrigger``, ``maxTransactionsPerTrigger``: the most that a batch takes.
    - ``spool``: one for each query. ``spoolLimit``: how much of the log is received before a batch
      has it, in bytes or as ``20GB`` (default). Receiving pauses there and resumes.
    - ``schemaChange``: of one table's stream, what to do once the table gets other columns than
      those with which the query began: ``error`` (default) ends the query, and after a restart it
      has the new ones; ``ignore`` continues without new columns.
    - ``index``: the folder for the index of the log's files; by default one in the cache, or, of a
      server, one in the spool.

    Filters on ``_db``, ``_table``, ``_op``, ``_ts`` and ``_gtid`` are pushed down if
    ``spark.sql.python.filterPushdown.enabled`` is true.
    """

    _since: int | None = None
    """The ``_seq`` after which rows must have the table's columns; None if the user gave them."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "binlog"

    def schema(self) -> StructType:
        """All tables: the change record with JSON images. One table: its current columns."""
        kept = _of_catalogue(self.options)
        found, self._since = newest_schema(Options.of(kept or self.options))
        schema = spark_schema(found)
        if kept is not None:
            schema.fields[0].metadata = {_KEPT: json.dumps(kept)}
        return schema

    def _given(self, schema: StructType) -> Mapping[str, str]:
        """The options; of a table in the catalogue those that it was created with, and others."""
        kept = schema.fields[0].metadata.get(_KEPT) if schema.fields else None
        if kept is None:
            return _of_catalogue(self.options) or self.options
        options: dict[str, str] = json.loads(kept)
        asked = {name.lower(): value for name, value in self.options.items()}
        return options | {name: value for name, value in asked.items() if name in NAMES}

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader; one that takes filters if Spark is about to push them.

        Spark does not accept a reader that takes filters while the setting is off, and the source
        does not get the setting; but if it is on, Spark plans with another module.
        """
        given = self._given(schema)
        options = Options.of(given)
        refuse_streaming(given, server=names_server(options.path))
        kind = PushingReader if _PUSHING in sys.modules or _is_main(_PUSHING) else BinlogReader
        return kind(options, wanted_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of a log; its options are those of `tailrace.spark.writer`."""
        from tailrace.spark.writer import BinlogWriter  # noqa: PLC0415 - readers do without

        return BinlogWriter(self.options, schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """The reader of a streaming query."""
        from tailrace.spark.stream.reader import StreamReader  # noqa: PLC0415 - most read no stream

        options = Options.of(self._given(schema))
        return StreamReader(options, wanted_schema(schema), self._since)


def _is_main(module: str) -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == module


def _splits(options: Options) -> list[Split]:
    """The splits of the logs; those of a server, up to its present end, are copied first."""
    catalogue = Catalogue(lowers_names=options.lowers_names)
    if options.schema is not None:
        catalogue.given(load(options.schema))
    if not names_server(options.path):
        found = settled(partial(find, options.path, options.keyring))
    elif options.spool is not None:
        found = [ServerLog(Source.parse(options.path), Path(options.spool)).receive()]
    else:
        raise UsageError(
            "a server is read through a copy of its log: give a folder for it, which driver and"
            ' tasks share, by option("spool", …), or read the folder of tailrace receive'
        )
    return [
        split
        for series in found
        for split in plan_splits(series, target_bytes=options.split, catalogue=catalogue)
    ]


def newest_schema(options: Options) -> tuple[pa.Schema, int | None]:
    """The schema of a read, as Arrow has it; of one table, with the ``_seq`` after which its rows
    must have these columns: as its server defines them, else as its newest row has them.

    Raises `PipelineError` where the logs have no change of the table or it has no such column,
    UsageError where one of its columns has a name of ours.
    """
    if options.table is None:
        return JSON_SCHEMA, None
    columns, since = defined_columns(options, options.table) or newest_columns(
        options, options.table
    )
    names = [column.name for column in columns]
    if missing := [name for name in options.columns or () if name not in names]:
        raise PipelineError(f"table {options.table} has no column {missing[0]}")
    columns = tuple(each for each in columns if each.name in (options.columns or names))
    ours = {field.name for field in RECORD_FIELDS} | {"_present", "_raw"}
    odd = [column.name for column in columns if column.name.lower() in ours]
    if odd and options.images == "row":
        raise UsageError(
            f"{options.table} has a column {odd[0]}, which is also the name of a field of the"
            ' change record: read it with option("images", "both")'
        )
    return table_schema(arrow_schema(columns), options.images), since


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The columns of a table, with the types that their values are read as."""
    return pa.schema([pa.field(column.name, plan_of(column).type) for column in columns])


def defined_columns(options: Options, table: str) -> tuple[tuple[Column, ...], int] | None:
    """A table's columns as its server defines them now, and the ``_seq`` where its log ends.

    None where only rows tell what they are read as: if the log is in files, if the user gave
    definitions, if the server cannot be asked, has no such table or does not log the names of
    columns, and if the log describes a column in another way than its definition does (MariaDB's
    UUID, INET and columns that only the log has).
    """
    if not names_server(options.path) or options.schema is not None:
        return None
    source, name = Source.parse(options.path), TableName.parse(table)
    try:
        if not logs_names(source):
            return None
        said = definitions_of(source, [name])
        state = said.tables.get(name)
        if said.end is None or state is None or state.hidden:
            return None
        made = Table.of(state.definition, said.flavour)
    except (ConnectionLost, ServerError, SchemaError):
        return None  # reading the log raises it, or does not need it
    logged = resolve_table(made.table_map(1), said.flavour).columns
    if arrow_schema(logged) != arrow_schema(made.schema.columns):
        return None
    return logged, sequence_at(said.end)


def newest_columns(options: Options, table: str) -> tuple[tuple[Column, ...], int]:
    """A table's columns as its newest row has them, and the ``_seq`` of that row."""
    found: list[TableSchema] = []
    asked: dict[str, Any] = {
        "tables": (table,),
        "columns": (),
        "verify_checksums": False,
        "statements": options.statements,
        "notice": found.append,
    }
    parts: Iterable[Iterable[pa.RecordBatch]]
    if names_server(options.path):
        case: LowerCase = None if options.lowers_names is None else 1 if options.lowers_names else 0
        read = changes(options.path, schema=options.schema, lower_case_table_names=case, **asked)
        parts = [read.record_batches()]
    else:
        parts = (read_split(split, **asked) for split in reversed(_splits(options)))
    newest = next((last[0] for part in parts if (last := deque(part, 1))), None)
    if newest is None:
        raise PipelineError(f"{options.path} has no rows of table {table}")
    shape = _shape(table_of(newest.schema))  # a batch does not say all that the log says of it
    columns = next(each for each in reversed(found) if _shape(each) == shape).columns
    return columns, int(newest.column("_seq")[newest.num_rows - 1].as_py())


def _shape(table: TableSchema) -> list[tuple[Any, ...]]:
    return [(each.name, each.type, each.metadata, each.unsigned) for each in table.columns]


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
        return read_changes(partition, self._options, self._target, self._conditions)


class PushingReader(BinlogReader):
    """A reader that takes filters from Spark."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take what can be told from the change record's own fields; Spark does the others."""
        self._conditions, left = taken(filters)
        return left
