"""A part of a log's rows as the events of transactions.

A task writes its transactions, but for what only their place in the log tells, into a file of its
own: table maps and rows events in cache form (no checksum, no position), one transaction after the
other. `tailrace.writing.parts.log` puts them into a log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.columns.arrays import METADATA_FIELDS
from tailrace.errors import ValueRejected
from tailrace.values.encode import RowImage
from tailrace.writing.cache import MadeEvents, cached
from tailrace.writing.rows import RowsSource, WrittenTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tailrace.writing.options import WriterOptions
    from tailrace.writing.parts.log import LogOfParts
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


Written = tuple[int, int]
"""A transaction in a part's file: its bytes, and its events."""


def write_rows(
    log: LogOfParts, batches: Iterable[pa.RecordBatch], path: Path
) -> tuple[Written, ...]:
    """Write all rows into a new file, in their order; its transactions, one after the other.

    Raises `ValueRejected` for a row that cannot be written, OSError.
    """
    maker = _Maker(log)
    found: list[Written] = []
    size = events = 0
    with path.open("xb") as file:
        for piece in _pieces(batches, log.rows):
            for data, count in maker.events(piece):
                size += file.write(data)
                events += count
            maker.row += piece.num_rows
            if not maker.row % log.rows:
                found.append((size, events))
                size = events = 0
        if events:
            found.append((size, events))
    return tuple(found)


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

    def __init__(self, log: LogOfParts) -> None:
        self._log = log
        self.row = 0
        self._known = WrittenTable.of(log.table, 1, log.options, log.header["form"])
        self._map = self._known.table_map.replace(timestamp=log.timestamp, server_id=log.server_id)
        self._made = MadeEvents()
        schema = log.table.schema
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
        runs = pc.run_end_encode(column)
        start = 0
        for name, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            if name not in _KINDS:
                raise ValueRejected(
                    f"row {self.row + start + 1} of the partition: {OPERATION} is {name!r}, and "
                    f"not {', '.join(_KINDS)}"
                )
            yield _KINDS[name], start, end - start
            start = end

    def _statement(
        self, kind: Change, rows: pa.RecordBatch
    ) -> Iterator[tuple[bytes | bytearray | memoryview, int]]:
        before, after, options = self._images(kind, rows)
        header, made = self._log.header, self._made
        source = RowsSource(
            self._known, self._map, kind, options, flags=0, header=header, made=made
        )
        chunks = source.of(before, after)
        held = next(chunks)
        yield cached(self._map), 1
        for chunk in chunks:
            yield held.data, held.count
            held = chunk
        held.end_statement()
        yield held.data, held.count

    def _images(
        self, kind: Change, rows: pa.RecordBatch
    ) -> tuple[pa.Table | None, pa.Table | None, WriterOptions]:
        """The rows before and after, and the options that say which columns they have."""
        options = self._log.options
        if self._log.images:
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
                f"{self._log.table_name} has no primary key, so an update needs the row as it was: "
                "give structs before and after"
            )
        options = replace(options, image=RowImage.MINIMAL)
        return whole.select(self._key), None if kind == "delete" else whole, options

    def _struct(self, rows: pa.RecordBatch, side: str) -> pa.Table:
        column = rows.column(side)
        if column.null_count:
            raise ValueRejected(f"{side} is NULL, and the operation needs it")
        return pa.table(column.flatten(), [field.name for field in column.type])
