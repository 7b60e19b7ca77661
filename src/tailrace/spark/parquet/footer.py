"""Data files in a lake are read back with the types of tasks, which only their footer tells."""

from __future__ import annotations

import base64
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.errors import PipelineError
from tailrace.spark.parquet.file import HIDDEN, RENAMED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


class RowGroups:
    """A file's row groups, in the types in which they were written.

    Those of a file that another engine wrote come in our types as far as the file itself tells.
    """

    def __init__(self, file: pq.ParquetFile) -> None:
        self._file = file
        self.written = _written(file)
        """The columns as the file calls them, in the types in which they were written."""
        self.sizes = [file.metadata.row_group(each).num_rows for each in range(file.num_row_groups)]
        """Rows of each group."""
        entries = file.metadata.metadata or {}
        self.plain = HIDDEN in entries
        self.own: dict[str, str] = json.loads(entries.get(RENAMED, "{}"))
        """The names that columns had before they were written, where not the same."""

    def read(self, number: int, columns: Sequence[str] | None = None) -> pa.Table:
        """A group's rows."""
        names = None if columns is None else list(columns)
        rows = self._file.read_row_group(number, columns=names, use_threads=False)
        return as_written(rows, self.written)

    def bounds(self, columns: Sequence[str]) -> tuple[pa.Table, pa.Table] | None:
        """The least and the greatest values of columns: tables with a row for each group.

        NULL where a group has NULLs, or no statistics. None if the footer has no usable ones. A
        text's bounds may be cut, so that they need not be values.
        """
        least: dict[str, pa.Array] = {}
        most: dict[str, pa.Array] = {}
        try:
            for name in columns:
                found = self._statistics(name)
                kind = self._file.schema_arrow.field(name).type
                least[name] = pa.array([None if each is None else each.min for each in found], kind)
                most[name] = pa.array([None if each is None else each.max for each in found], kind)
            low, high = pa.table(least), pa.table(most)
            return as_written(low, self.written), as_written(high, self.written)
        except (KeyError, ValueError, TypeError, NotImplementedError, OverflowError):
            return None

    def _statistics(self, column: str) -> list[pq.Statistics | None]:
        """Of each group; None if they do not bound all its values."""
        metadata = self._file.metadata
        places = {metadata.schema.column(at).path: at for at in range(metadata.num_columns)}
        found = [
            metadata.row_group(number).column(places[column]).statistics
            for number in range(metadata.num_row_groups)
        ]
        return [
            each
            if each is not None and each.has_min_max and each.has_null_count and not each.null_count
            else None
            for each in found
        ]


@contextmanager
def opened(path: str | Path) -> Iterator[RowGroups]:
    """Open a file; its errors are `PipelineError`s."""
    try:
        # Spark's INT96 as microseconds, since nanoseconds end in the year 2262
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            yield RowGroups(file)
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(f"cannot read {path}, a file of the lake: {error}") from error


def row_groups(
    path: str, columns: Sequence[str] | None = None, *, back: bool = True
) -> Iterator[pa.Table]:
    """The rows of a file's row groups, one after the other; raises `PipelineError`.

    With ``back`` columns that have other names in the file (`ParquetFile`) have their own.
    """
    with opened(path) as groups:
        for number in range(len(groups.sizes)):
            rows = groups.read(number, columns)
            if back and groups.own:
                own = groups.own
                rows = rows.rename_columns([own.get(each, each) for each in rows.schema.names])
            yield rows


def written_schema(path: Path) -> pa.Schema:
    """A file's columns as the file calls them, in the types in which they were written.

    Raises `PipelineError`.
    """
    with opened(path) as groups:
        return groups.written


def _written(file: pq.ParquetFile) -> pa.Schema:
    hidden = (file.metadata.metadata or {}).get(HIDDEN)
    if hidden is not None:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(hidden)))
    return pa.schema([field.with_type(_ours(field.type)) for field in file.schema_arrow])


def _ours(kind: pa.DataType) -> pa.DataType:
    """The type that we use for the values of a type that another engine may prefer."""
    if pa.types.is_large_string(kind) or kind == pa.string_view():
        return pa.string()
    if pa.types.is_large_binary(kind) or kind == pa.binary_view():
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_ours(field.type)) for field in kind])
    if pa.types.is_map(kind):
        key, item = _ours(kind.key_type), _ours(kind.item_type)
        return kind if (key, item) == (kind.key_type, kind.item_type) else pa.map_(key, item)
    if pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_ours(kind.value_type)))
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz and "UTC")
    return kind


def as_written(rows: pa.Table, written: pa.Schema) -> pa.Table:
    """The rows with the types that a schema has for their columns, and members of structs."""
    for index, field in enumerate(rows.schema):
        found = written.get_field_index(field.name)
        if found < 0:
            continue
        wanted = _narrowed(field.type, written.field(found).type)
        if wanted != field.type:
            column = rows.column(index).cast(wanted)
            rows = rows.set_column(index, field.with_type(wanted), column)
    return rows


def _narrowed(here: pa.DataType, written: pa.DataType) -> pa.DataType:
    """The written type, of a struct only with the members that are here."""
    if pa.types.is_struct(here) and pa.types.is_struct(written):
        members = {field.name: field for field in written}
        return pa.struct(
            [field.with_type(_narrowed(field.type, members[field.name].type)) for field in here]
        )
    if pa.types.is_nested(here):
        return _ours(here)
    return written
