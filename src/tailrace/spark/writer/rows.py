"""Rows of a DataFrame as the events of transactions, by one task.

A task writes its transactions, but for what only their place in the log tells, into a file of its
own: table maps and rows events in cache form (no checksum, no position), one transaction after the
other. `tailrace.spark.writer.log` puts them into a log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.columns.arrays import METADATA_FIELDS
from tailrace.errors import ValueRejected
from tailrace.events import FormatDescription
from tailrace.values.encode import RowImage
from tailrace.writing.cache import MadeEvents, cached
from tailrace.writing.rows import RowsSource, WrittenTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tailrace.constants import ChecksumAlgorithm, Flavour
    from tailrace.schema.table import Table
    from tailrace.writing.options import WriterOptions
    from tailrace.writing.rows import Change

OPERATION: Final = "_op"
BEFORE, AFTER = "before", "after"
RECORD: Final = frozenset({"_source", *(field.name for field in METADATA_FIELDS)})
"""The fields of the change record: none is written, `OPERATION` says what a row is."""
_KINDS: Final[dict[str, Change]] = {
    "insert": "insert",
    "snapshot": "insert",
    "update": "update",
    "delete": "delete",
}


@dataclass(frozen=True)
class Form:
    """How rows are written: what a task must know of the log.

    ``images``: rows come as structs before and after; else as one row's columns. ``timestamp`` is
    in seconds UTC, ``rows`` the most that a transaction has.
    """

    table: Table
    flavour: Flavour
    server_version: str
    server_id: int
    timestamp: int
    rows: int
    images: bool
    checksum: ChecksumAlgorithm
    options: WriterOptions

    @property
    def description(self) -> FormatDescription:
        """The format description of the log."""
        return FormatDescription.of(
            self.flavour,
            server_version=self.server_version,
            checksum_algorithm=self.checksum,
        )

    @property
    def header(self) -> dict[str, Any]:
        """What every event's header says."""
        return {
            "timestamp": self.timestamp,
            "server_id": self.server_id,
            "form": self.description,
        }

    @property
    def name(self) -> str:
        """The table's full name."""
        return f"{self.table.database}.{self.table.name}"


@dataclass(frozen=True)
class Written:
    """A transaction in a task's file: its bytes, events and rows."""

    size: int
    events: int
    rows: int


def write_rows(form: Form, batches: Iterable[pa.RecordBatch], path: Path) -> list[Written]:
    """Write all rows into a new file, in their order; its transactions, one after the other.

    Raises `ValueRejected` for a row that cannot be written, OSError.
    """
    maker = _Maker(form)
    found: list[Written] = []
    size = events = rows = 0
    with path.open("xb") as file:
        for piece in _pieces(batches, form.rows):
            for data, count in maker.events(piece):
                file.write(data)
                size += len(data)
                events += count
            rows += piece.num_rows
            maker.row += piece.num_rows
            if rows == form.rows:
                found.append(Written(size, events, rows))
                size = events = rows = 0
        if rows:
            found.append(Written(size, events, rows))
        file.flush()
    return found


def _pieces(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """The rows in pieces that end where a transaction is to end."""
    room = most
    for batch in batches:
        at = 0
        while at < batch.num_rows:
            piece = batch.slice(at, room)
            at += piece.num_rows
            room = room - piece.num_rows or most
            yield piece


class _Maker:
    """Makes events of rows; ``row`` counts those of the partition that are done."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self.row = 0
        self._known = WrittenTable.of(form.table, 1, form.options, form.description)
        self._map = self._known.table_map.replace(
            timestamp=form.timestamp, server_id=form.server_id
        )
        self._made = MadeEvents()
        schema = form.table.schema
        self._columns = {column.name for column in schema.columns}
        self._key = [schema.columns[index].name for index in schema.primary_key]

    def events(self, piece: pa.RecordBatch) -> Iterator[tuple[bytes | bytearray | memoryview, int]]:
        """The statements of some rows: those that follow one another with one operation are one."""
        self._check(piece)
        for kind, start, count in self._runs(piece):
            part = piece.slice(start, count)
            try:
                yield from self._statement(kind, part)
            except ValueRejected as error:
                where = f"rows {self.row + start + 1} on of the partition"
                raise ValueRejected(f"{where}: {error}") from error

    def _check(self, piece: pa.RecordBatch) -> None:
        """What a column cannot say must not be lost silently."""
        for name, what in (
            ("_present", "an image that lacks columns (binlog_row_image is not FULL)"),
            (
                "_raw",
                "a value that its typed column cannot hold (a zero date, text with surrogates)",
            ),
        ):
            if name not in piece.schema.names:
                continue
            column = piece.column(name)
            if name == "_raw" and pa.types.is_map(column.type):
                column = pa.array([each or None for each in column.to_pylist()], column.type)
            if column.null_count < len(column):
                row = int(np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))[0])
                raise ValueRejected(
                    f"row {self.row + row + 1} of the partition has {what}, which stands in {name} "
                    "and is not written: filter such rows out, or give all values and drop the "
                    f"column {name}"
                )

    def _runs(self, piece: pa.RecordBatch) -> Iterator[tuple[Change, int, int]]:
        """Operation, first row and number of rows."""
        if OPERATION not in piece.schema.names:
            yield "insert", 0, piece.num_rows
            return
        column = piece.column(OPERATION)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        coded = pc.dictionary_encode(column, null_encoding="encode")
        codes = coded.indices.to_numpy()
        names = coded.dictionary.to_pylist()
        starts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
        for start, end in pairwise(starts):
            name = names[codes[start]]
            if name not in _KINDS:
                raise ValueRejected(
                    f"row {self.row + start + 1} of the partition: {OPERATION} is {name!r}, and "
                    f"not {', '.join(_KINDS)}"
                )
            yield _KINDS[name], start, end - start

    def _statement(
        self, kind: Change, rows: pa.RecordBatch
    ) -> Iterator[tuple[bytes | bytearray | memoryview, int]]:
        before, after, options = self._images(kind, rows)
        source = RowsSource(
            self._known,
            self._map,
            kind,
            options,
            flags=0,
            header=self._form.header,
            made=self._made,
        )
        held = None
        for chunk in source.of(before, after):
            if held is None:
                yield cached(self._map), 1
            else:
                yield held.data, held.count
            held = chunk
        if held is not None:
            held.end_statement()
            yield held.data, held.count

    def _images(
        self, kind: Change, rows: pa.RecordBatch
    ) -> tuple[pa.Table | None, pa.Table | None, WriterOptions]:
        """The rows before and after, and the options that say which columns they have."""
        options = self._form.options
        if self._form.images:
            before = None if kind == "insert" else self._struct(rows, BEFORE)
            after = None if kind == "delete" else self._struct(rows, AFTER)
            return before, after, options
        names = [name for name in rows.schema.names if name in self._columns]
        whole = pa.table([rows.column(name) for name in names], names)
        if kind == "insert":
            return None, whole, options
        if not self._key:
            if kind == "delete":
                return whole, None, options
            raise ValueRejected(
                f"{self._form.name} has no primary key, so an update needs the row as it was: give "
                "structs before and after"
            )
        options = replace(options, image=RowImage.MINIMAL)
        return whole.select(self._key), None if kind == "delete" else whole, options

    def _struct(self, rows: pa.RecordBatch, side: str) -> pa.Table:
        column = rows.column(side)
        if column.null_count:
            raise ValueRejected(f"{side} is NULL, and the operation needs it")
        members = column.flatten()
        names = [field.name for field in column.type]
        return pa.table(list(members), names)
