"""Data files in a lake: made plain for every reader, and read back with the types of tasks.

pyarrow writes its own schema into a Parquet footer, and all that is built on Arrow takes it from
there: a TIME is a duration then, a table's name a dictionary, neither of which Delta or Iceberg
has. Without it the same bytes are 64-bit numbers and texts. So a file that goes into a table has
that entry of its footer renamed, in place, to a name of the same length that no reader looks for
but `row_groups`.
"""

from __future__ import annotations

import base64
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.errors import PipelineError
from tailrace.spark.parquet.file import ParquetFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_ARROW: Final = b"ARROW:schema"
_HIDDEN: Final = b"tailrace:typ"
_RENAMED: Final = b"tailrace.renamed"
_TAIL: Final = 8
"""Bytes behind a Parquet footer: its length, and the magic ``PAR1``."""


def make_plain(path: Path) -> None:
    """Take pyarrow's schema out of a file's footer; a file that has none stays as it is.

    Raises `PipelineError` for a file that is no Parquet.
    """
    with path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        if end < _TAIL + 4:
            raise PipelineError(f"{path} is no Parquet file")
        file.seek(end - _TAIL)
        tail = file.read(_TAIL)
        start = end - _TAIL - int.from_bytes(tail[:4], "little")
        if tail[4:] != b"PAR1" or start < 4:
            raise PipelineError(f"{path} is no Parquet file")
        file.seek(start)
        footer = file.read(end - _TAIL - start)
        # The footer's entries follow all that it has about columns, whose names might be
        # anything: so the last one is it.
        at = footer.rfind(_ARROW)
        if at < 0:
            return
        if _ARROW in (pq.read_metadata(path).metadata or {}):
            file.seek(start + at)
            file.write(_HIDDEN)


class RowGroups:
    """A file's row groups, in the types in which they were written.

    Those of a file that another engine wrote come in our types as far as the file itself tells.
    """

    def __init__(self, file: pq.ParquetFile) -> None:
        self._file = file
        self._written = _written(file)
        self.sizes = [file.metadata.row_group(each).num_rows for each in range(file.num_row_groups)]
        """Rows of each group."""

    def read(self, number: int, columns: Sequence[str] | None = None) -> pa.Table:
        """A group's rows."""
        names = None if columns is None else list(columns)
        rows = self._file.read_row_group(number, columns=names, use_threads=False)
        return as_written(rows, self._written)

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
            return as_written(low, self._written), as_written(high, self._written)
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
        with _opened(path) as file:
            yield RowGroups(file)
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(f"cannot read {path}, a file of the lake: {error}") from error


def row_groups(
    path: str, columns: Sequence[str] | None = None, *, back: bool = True
) -> Iterator[pa.Table]:
    """The rows of a file's row groups, one after the other; raises `PipelineError`.

    With ``back`` columns that were given other names (`renamed`) have their own.
    """
    with opened(path) as groups:
        for number in range(len(groups.sizes)):
            rows = groups.read(number, columns)
            if back and _RENAMED in (rows.schema.metadata or {}):
                own = json.loads(rows.schema.metadata[_RENAMED])
                rows = rows.rename_columns([own.get(each, each) for each in rows.schema.names])
            yield rows


def written_schema(path: Path) -> pa.Schema:
    """A file's columns as the file calls them, in the types in which they were written.

    Raises `PipelineError`.
    """
    try:
        with _opened(path) as file:
            return _written(file)
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(f"cannot read {path}, a file of the lake: {error}") from error


def _opened(path: str | Path) -> pq.ParquetFile:
    """A file; Spark's INT96 as microseconds, since nanoseconds end in the year 2262."""
    return pq.ParquetFile(path, coerce_int96_timestamp_unit="us")


def _written(file: pq.ParquetFile) -> pa.Schema:
    hidden = (file.metadata.metadata or {}).get(_HIDDEN)
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


def renamed(path: Path, names: Mapping[str, str], *, images: bool) -> Path:
    """A copy of a file, next to it, with other names for some columns, or columns of its images.

    `row_groups` gives top columns back under the names that they had. Raises `PipelineError`.
    """
    target = path.with_suffix(".renamed.parquet")
    back = json.dumps({new: old for old, new in names.items()})
    file = ParquetFile(target)
    for rows in row_groups(str(path)):
        if images:
            changed = _rename_members(rows, names)
        else:
            changed = rows.rename_columns([names.get(each, each) for each in rows.schema.names])
            changed = changed.replace_schema_metadata({_RENAMED: back.encode()})
        file.write(changed)
    file.close()
    return target


def _rename_members(rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    for image in ("before", "after"):
        index = rows.schema.get_field_index(image)
        kind = rows.schema.field(index).type
        wanted = pa.struct([each.with_name(names.get(each.name, each.name)) for each in kind])
        chunks = [
            pa.StructArray.from_arrays(
                [pc.struct_field(chunk, [place]) for place in range(kind.num_fields)],
                fields=list(wanted),
                mask=chunk.is_null(),
            )
            for chunk in rows.column(index).chunks
        ]
        rows = rows.set_column(index, image, pa.chunked_array(chunks, wanted))
    return rows
