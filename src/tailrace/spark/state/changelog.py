"""The changelog files that one task writes: a file a table, several tables at once.

Batches are kept until they make a row group of some size; what is kept, and how many files are
open, is bounded. A table whose columns or key change in the middle continues in another file,
so that each file has one schema.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.columns.arrays import OPERATIONS, described_columns
from tailrace.constants import ColumnType
from tailrace.errors import PipelineError, about_table
from tailrace.spark.record.present import bits, unlogged_columns
from tailrace.spark.record.types import SHARD
from tailrace.spark.state.current import raw
from tailrace.table_name import TableName
from tailrace.values.schema import BLOB_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.spark.manifest.making import Making
    from tailrace.spark.parquet.file import DataFolder, ParquetFile
    from tailrace.values.schema import Column, TableSchema


class Limits(NamedTuple):
    """Rows, or bytes in memory, that make a row group; what is kept, or open, over all tables."""

    group_rows: int = 1 << 17
    group_bytes: int = 32 << 20
    kept_bytes: int = 96 << 20
    open_files: int = 64


DEFAULT_LIMITS: Final = Limits()
_BLOBS: Final = BLOB_TYPES | {ColumnType.JSON, ColumnType.GEOMETRY, ColumnType.VECTOR}
"""What ``binlog_row_image=NOBLOB`` leaves out where it did not change."""


@dataclass(frozen=True)
class ChangeFile:
    """What one changelog file holds; made by a task, read by the driver.

    ``columns`` are the table's columns as in these rows, ``key`` the names of its primary key's
    columns (none where it is unknown), ``names`` where the columns' names come from. ``first`` and
    ``last`` are the rows' least and greatest ``_seq``. ``partial`` says that some row has an image
    that is not full, ``moved`` that such a row changed its key, and ``unlogged`` names columns that
    updates leave out though they may have changed: generated ones, on some servers. ``seconds`` is
    what it took to decode and write the rows. ``derived``: they are none of the log's, but what
    foreign keys did (`tailrace.spark.state.cascade`).
    """

    database: str
    table: str
    source: str
    path: str
    rows: int
    size: int
    memory: int
    operations: dict[str, int]
    columns: pa.Schema
    key: tuple[str, ...]
    names: str
    first: int
    last: int
    partial: bool
    moved: bool
    unlogged: tuple[str, ...]
    seconds: float
    derived: bool = False
    updates_lack: int | None = None
    """The least ``_seq`` of updates whose images are not full, where states are made of them."""

    @property
    def name(self) -> str:
        """The table's full name, ``shop.orders``."""
        return str(TableName(self.database, self.table))


@dataclass(frozen=True)
class Unnamed:
    """Rows of a table whose columns nobody names: their least and greatest ``_seq``.

    ``columns`` are those of the first: name, type and metadata of each.
    """

    first: int
    last: int
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Named:
    """The first rows of a table whose columns the log names: their ``_seq``, and the table."""

    first: int
    table: TableSchema


@dataclass
class _Open:
    """A table whose rows are being written; ``file`` is None until its first row group."""

    name: TableName
    schema: pa.Schema
    file: ParquetFile | None = None
    kept: list[pa.RecordBatch] = field(default_factory=list)
    kept_rows: int = 0
    kept_bytes: int = 0
    rows: int = 0
    memory: int = 0
    counts: Any = field(default_factory=lambda: np.zeros(len(OPERATIONS), np.int64))
    first: int | None = None
    last: int = 0
    partial: bool = False
    moved: bool = False
    unlogged: set[str] = field(default_factory=set)
    seconds: float = 0.0
    updates_lack: int | None = None

    @property
    def key(self) -> list[str]:
        """The names of the primary key's columns."""
        names: list[str] = json.loads(self.schema.metadata[b"tailrace.key"])
        return names


class ChangelogFiles:
    """Takes the batches of a split in log order; `finish` gives what was written.

    The files of a table go to its changelog's folder of the batch in the making, ``to``. With
    ``source`` they have a column ``_source`` of that value. Where they are to be ``named``,
    `by_log` and `unnamed` tell who names columns; where they are to be ``defined``, columns that
    updates lack are left out of states unless it is known that they are not generated, and
    `lacking` has these updates of tables that are named. Raises `PipelineError` where writing
    fails.
    """

    def __init__(
        self,
        to: Making,
        *,
        source: str | None = None,
        named: bool = False,
        defined: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._to = to
        self._source = source
        self._named = named
        self._defined = defined
        self._limits = limits
        self._tables: OrderedDict[TableName, _Open] = OrderedDict()
        self._kept = 0
        self._done: list[ChangeFile] = []
        self._folders: dict[TableName, DataFolder] = {}
        self._paths: list[Path] = []
        self._lacking: dict[TableName, dict[str, bool | None]] = {}
        self._met: dict[TableName, list[TableSchema]] = {}
        self.unnamed: dict[TableName, Unnamed] = {}
        """The tables of which rows were left out (`leave_out`)."""
        self.lacking: dict[TableName, Unnamed] = {}
        """Those of which updates lack columns that the server may generate."""
        self.by_log: dict[TableName, Named] = {}
        """The tables whose columns the log names."""

    def meet(self, table: TableSchema) -> None:
        """Take note of a table's columns before its first batch comes."""
        lacking: dict[str, bool | None] = {
            column.name: column.may_be_lacking
            for column in table.columns
            if column.may_be_lacking
            or (column.may_be_lacking is None and (self._defined or column.type not in _BLOBS))
        }
        name = table.full_name
        if self._lacking.get(name, lacking) != lacking and name in self._tables:
            self._close(name)
        self._lacking[name] = lacking
        if self._named:
            self._met.setdefault(name, []).append(table)

    def add(self, batch: pa.RecordBatch, seconds: float = 0.0) -> None:
        """Take one table's next changes; ``seconds`` is what it took to decode them."""
        if not batch.num_rows:
            return
        name = TableName(batch.column("_db")[0].as_py(), batch.column("_table")[0].as_py())
        if self._named:
            self._note_names(name, batch)
        table = self._tables.get(name)
        if table is not None and not table.schema.equals(batch.schema, check_metadata=True):
            self._close(name)
            table = None
        if table is None:
            table = self._tables[name] = _Open(name, batch.schema)
        self._tables.move_to_end(name)
        size = batch.nbytes
        table.seconds += seconds
        table.kept.append(batch)
        table.kept_rows += batch.num_rows
        table.kept_bytes += size
        self._kept += size
        limits = self._limits
        if table.kept_rows >= limits.group_rows or table.kept_bytes >= limits.group_bytes:
            self._write(table)
        while self._kept > limits.kept_bytes:
            self._write(max(self._tables.values(), key=lambda each: each.kept_bytes))
        opened = [each for each, one in self._tables.items() if one.file is not None]
        for each in opened[: max(0, len(opened) - limits.open_files)]:
            self._close(each)  # it was written to longest ago

    def leave_out(self, table: TableSchema, first: int, last: int) -> None:
        """Take note of rows that are not decoded, with about their least and greatest ``_seq``."""
        _extend(self.unnamed, table, first, last)

    def finish(self) -> list[ChangeFile]:
        """Write what is kept and close all files; in the order in which they were closed."""
        for name in list(self._tables):
            self._close(name)
        return self._done

    def remove(self) -> None:
        """Remove all files."""
        for path in self._paths:
            path.unlink(missing_ok=True)

    def _note_names(self, name: TableName, batch: pa.RecordBatch) -> None:
        """Keep the first table of its name whose columns the log names."""
        if batch.schema.metadata[b"tailrace.names"] != b"log" or name in self.by_log:
            return
        first = int(pc.min(batch.column("_seq")).as_py())
        for met in self._met_with(name, batch.schema):
            if met.names_from == "log":
                self.by_log[name] = Named(first, met)

    def _met_with(self, name: TableName, schema: pa.Schema) -> Iterator[TableSchema]:
        """What was met of a table, where it had the columns of these batches."""
        names = schema.field("after").type.names
        for met in self._met.get(name, ()):
            if [column.name for column in met.columns] == names:
                yield met

    def _write(self, table: _Open) -> None:
        """Write what is kept of a table; what is raised notes which one it is about."""
        start = time.perf_counter()
        try:
            rows = pa.Table.from_batches(table.kept)
            self._kept -= table.kept_bytes
            table.memory += table.kept_bytes
            table.kept, table.kept_rows, table.kept_bytes = [], 0, 0
            self._note(table, rows)
            if table.file is None:
                table.file = self._folder(table.name).file("part")
                self._paths.append(table.file.path)
            table.file.write(rows if self._source is None else _with_source(rows, self._source))
        except Exception as error:
            about_table(error, *table.name)
            raise
        table.seconds += time.perf_counter() - start

    def _folder(self, name: TableName) -> DataFolder:
        """A table's folder; those of all tables that are open are noted at once."""
        if name not in self._folders:
            fresh = {name: self._to.changelog(name)}
            for each in self._tables.keys() - self._folders.keys():
                with suppress(PipelineError):  # it is raised when that table is written
                    fresh[each] = self._to.changelog(each)
            self._to.note(each.path for each in fresh.values())
            self._folders |= fresh
        return self._folders[name]

    def _note(self, table: _Open, rows: pa.Table) -> None:
        """Keep the figures that the driver needs of the rows."""
        table.rows += rows.num_rows
        for chunk in rows.column("_op").chunks:
            table.counts += np.bincount(chunk.indices, minlength=len(OPERATIONS))
        bounds = pc.min_max(rows.column("_seq"))
        first, last = int(bounds["min"].as_py()), int(bounds["max"].as_py())
        table.first = first if table.first is None else min(first, table.first)
        table.last = max(last, table.last)
        if rows.column("_present").null_count == rows.num_rows:
            return
        table.partial = True
        updates = rows.filter(pc.equal(rows.column("_op").cast(pa.string()), "update"))
        least = pc.min(updates.column("_seq").filter(updates.column("_present").is_valid())).as_py()
        if table.updates_lack is None and least is not None and self._defined:
            table.updates_lack = int(least)
        table.moved = table.moved or _moves(updates, table.key)
        may_be = self._lacking.get(table.name, {})
        lacking = {name: self._defined or known for name, known in may_be.items()}
        lacks = unlogged_columns(rows, table.key, lacking)
        table.unlogged |= lacks
        if self._named and self._defined and any(may_be[name] is None for name in lacks):
            # The first updates that lack columns which the server may generate.
            _extend(self.lacking, next(self._met_with(table.name, rows.schema)), int(least), last)

    def _close(self, name: TableName) -> None:
        table = self._tables.pop(name)
        if table.kept:
            self._write(table)
        if table.file is None or table.first is None:
            return
        metadata = table.schema.metadata
        counts = table.counts.tolist()
        self._done.append(
            ChangeFile(
                database=name.database,
                table=name.table,
                source=metadata[b"tailrace.source"].decode(),
                path=str(table.file.path),
                rows=table.rows,
                size=table.file.close(),
                memory=table.memory,
                operations=dict(zip(OPERATIONS.to_pylist(), counts, strict=True)),
                columns=described_columns(table.schema),
                key=tuple(table.key),
                names=metadata[b"tailrace.names"].decode(),
                first=table.first,
                last=table.last,
                partial=table.partial,
                moved=table.moved,
                unlogged=tuple(sorted(table.unlogged)),
                seconds=table.seconds,
                updates_lack=table.updates_lack,
            )
        )


def _extend(found: dict[TableName, Unnamed], table: TableSchema, first: int, last: int) -> None:
    """Take more rows of a table into what is found of it."""
    known = found.get(table.full_name) or Unnamed(first, last, table.columns)
    found[table.full_name] = replace(known, last=max(last, known.last))


def _with_source(rows: pa.Table, source: str) -> pa.Table:
    """The rows with a column that says which shard they are of, after ``_server_id``."""
    at = rows.schema.get_field_index("_server_id") + 1
    return rows.add_column(at, SHARD, pa.repeat(pa.scalar(source), rows.num_rows))


def _moves(updates: pa.Table, key: list[str]) -> bool:
    """Whether an update's after image has a key column that differs from its before image's.

    With images that are not full a key column is only there where it was set.
    """
    names = updates.schema.field("after").type.names
    there = bits(updates.column("_present"), "after", len(names))
    return any((there[:, names.index(name)] & raw.changed(updates, name)).any() for name in key)
