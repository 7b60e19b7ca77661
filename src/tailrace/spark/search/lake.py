"""A lake that `tailrace mirror` has made, as the source of an index.

The lake's manifest names the files that have the rows of each table's current state, and the table
itself says which of their rows are deleted. A file is never changed. So a shard's state has that
list, and the table's mark: what changed between two versions of the lake is in the files that are
not the same in both, and there in the rows that are not (each row has the ``_seq`` of its last
change). If a table's columns have changed since, or what the shard's version had can no longer be
read, all rows of the table are read.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.columns.arrays import described_table
from tailrace.errors import LakeChanged, PipelineError
from tailrace.spark.parquet.footer import as_written
from tailrace.spark.state.current import raw
from tailrace.spark.state.current.flat import SEQ, STAMP
from tailrace.spark.state.current.rows import RAW
from tailrace.values.result_set import ResultSet
from tailrace.values.row import Row
from tailrace.values.surrogates import unescaped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tailrace.position import Position
    from tailrace.search.shard import ShardWriter
    from tailrace.spark.lake.reading import LakeFile, LakeView
    from tailrace.spark.manifest.manifest import TableState
    from tailrace.table_filter import TableFilter
    from tailrace.values.schema import TableSchema

    Mask = np.ndarray[Any, np.dtype[np.bool_]]

_SIDE: Final = "\0side"
_NUMBER: Final = "\0number"


def position_of(view: LakeView) -> Position:
    """Up to where the lake has its log. Raises PipelineError if it has several."""
    sources = view.manifest.sources
    if len(sources) != 1:
        raise PipelineError(
            f"{view.lake} has the logs of {len(sources)} sources: an index follows one"
        )
    return next(iter(sources.values())).position


@dataclass(frozen=True)
class _Table:
    """A table of the lake: its columns, as the log describes them, and its files."""

    state: TableState
    schema: TableSchema
    columns: pa.Schema
    files: tuple[str, ...]
    mark: str | None

    @property
    def saved(self) -> dict[str, Any]:
        """What a shard's state keeps of it: ``shape`` differs if rows are to be read again."""
        fields = [
            [each.name, str(each.type), sorted(map(repr, (each.metadata or {}).items()))]
            for each in self.columns
        ]
        shape = json.dumps([self.state.parts.get("current"), self.schema.primary_key, fields])
        digest = blake2b(shape.encode(), digest_size=8).hexdigest()
        return {"shape": digest, "files": list(self.files), "mark": self.mark}


def _tables(view: LakeView, wants: TableFilter) -> Iterator[tuple[str, _Table]]:
    for state in view.manifest.tables.values():
        if state.dropped or not wants(state.database, state.table):
            continue
        name, current = str(state.full_name), state.current
        if current is None or current.refused is not None:
            why = "it keeps none" if current is None else current.refused
            raise PipelineError(
                f"{view.lake} has no current state of {name}, of which an index is made: {why};"
                f" leave the table out (--exclude {shlex.quote(name)})"
            )
        if (aside := state.set_aside) is not None:
            raise PipelineError(
                f"{name} is set aside in {view.lake} since {aside.since or 'the begin of its log'}:"
                f" {aside.reason}; {aside.needs}; an index is not made of old rows: leave the table"
                f" out (--exclude {name})"
            )
        schema = described_table(state.database, state.table, current.columns, current.key)
        if schema is None:
            raise PipelineError(
                f"{view.lake} does not have the character sets of {name}: it was written by an"
                " earlier Tailrace; mirror the log into a new lake"
            )
        files = tuple(each.name for each in current.data)
        yield name, _Table(state, schema, current.columns, files, state.marks.get("current"))


def take_lake(view: LakeView, writer: ShardWriter, wants: TableFilter) -> int:
    """Take the lake's version into a shard, and commit; the number of rows that changed.

    Raises PipelineError; LakeChanged if a file of the version is gone.
    """
    state = writer.state
    before = state.lake or {}
    tables = dict(_tables(view, wants))
    for name in before.keys() - tables.keys():
        writer.drop(name)
    rows = 0
    time = state.time or 0
    try:
        for name, table in tables.items():
            for kind, chunk in _changes(view, table, before.get(name), writer):
                stamp = pc.max(chunk.column(STAMP)).cast(pa.int64()).as_py()
                time = max(time, stamp or 0)
                result = ResultSet(_Cursor(chunk, table.schema), table.schema)
                rows += chunk.num_rows
                writer.change(result.schema, (_row(kind, each) for each in result))
    except FileNotFoundError as error:
        raise LakeChanged(f"{view.lake}: {error} is gone: run tailrace mirror again") from error
    state.lake = {name: table.saved for name, table in tables.items()}
    position = position_of(view)
    writer.commit(position, read=position, time=time or None)
    return rows


def _row(kind: str, row: Row) -> Row:
    return row if kind == "put" else Row("delete", row.after, None, row.number)


def _changes(
    view: LakeView, table: _Table, before: dict[str, Any] | None, writer: ShardWriter
) -> Iterator[tuple[str, pa.Table]]:
    """Rows that are not there any more (``remove``), then those that came (``put``)."""
    if before == table.saved:
        return
    files = view.kept(table.state, table.files, table.mark)
    if files is None:
        raise FileNotFoundError(f"what {table.state.full_name} had")
    known: Mapping[str, LakeFile] | None = None
    if before and before["shape"] == table.saved["shape"] and "mark" in before:
        mark = before["mark"]  # which in other formats determines what rows are deleted
        if mark is not None or view.manifest.options.format == "parquet":
            known = view.kept(table.state, before["files"], mark)
    gone = [] if known is None else _unlike(known, files)
    if known is None or not all(each.is_there() for each in gone):
        writer.drop(str(table.state.full_name))
        yield from (("put", each) for each in _read(list(files.values()), table, None))
        return
    come = _unlike(files, known)
    mask = _differing(gone, come, table)
    count = sum(each.num_rows for each in _read(gone, table, None, [SEQ]))
    yield from (("remove", each) for each in _read(gone, table, mask[:count]))
    yield from (("put", each) for each in _read(come, table, mask[count:]))


def _unlike(files: Mapping[str, LakeFile], others: Mapping[str, LakeFile]) -> list[LakeFile]:
    return [file for name, file in files.items() if others.get(name) != file]


def _differing(gone: Sequence[LakeFile], come: Sequence[LakeFile], table: _Table) -> Mask:
    """Which rows of all these files are in one of both only, by key and last change."""
    names = [*(table.columns.names[index] for index in table.schema.primary_key), SEQ]
    parts, count = list[pa.Table](), 0
    for side, files in ((-1, gone), (1, come)):
        for rows in _read(files, table, None, names):
            numbers = pa.array(np.arange(count, count + rows.num_rows))
            sides = pa.repeat(pa.scalar(side), rows.num_rows)
            parts.append(rows.append_column(_SIDE, sides).append_column(_NUMBER, numbers))
            count += rows.num_rows
    mask = np.zeros(count, np.bool_)
    if parts:
        grouped = pa.concat_tables(parts).group_by(names)
        sums = grouped.aggregate([(_SIDE, "sum"), (_NUMBER, "min")])
        alone = sums.filter(pc.not_equal(sums.column(f"{_SIDE}_sum"), 0))
        mask[alone.column(f"{_NUMBER}_min").to_numpy()] = True
    return mask


def _read(
    files: Sequence[LakeFile], table: _Table, mask: Mask | None, names: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """The rows of files, those of ``mask``; by default all columns."""
    at = 0
    for file in files:
        for found in file.rows(names or [*table.columns.names, SEQ, STAMP, RAW]):
            rows = as_written(found, table.columns)
            if mask is not None:
                rows = rows.filter(pa.array(mask[at : at + found.num_rows]))
            at += found.num_rows
            if rows.num_rows:
                yield rows


class _Cursor:
    """Rows of the lake as a driver gives those of a query."""

    def __init__(self, rows: pa.Table, table: TableSchema) -> None:
        names = [each.name for each in table.columns]
        self.description = [(name, *(None,) * 6) for name in names]
        odd = raw.texts(rows.column(RAW))
        values = [_values(rows.column(name), odd.get(name)) for name in names]
        self._rows = zip(*values, strict=True)

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next rows."""
        return [*islice(self._rows, size)]


def _values(column: pa.ChunkedArray, odd: pa.Array | None) -> list[Any]:
    """A column's values as SELECT gives them; ``odd`` are those that no typed column holds."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):  # a year that Python's dates do not have
        values = column.cast(pa.string()).to_pylist()
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        values = [None if each is None else int(each) for each in values]
    for row, text in enumerate(() if odd is None else odd.to_pylist()):
        if text is not None:
            values[row] = unescaped(text)
    return values
