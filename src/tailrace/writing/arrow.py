"""Arrow's rows as rows events, by the kernels of `columns.encode`. Needs pyarrow and numba."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tailrace.columns.write.rows import encode_rows
from tailrace.errors import UnknownColumn, UsageError, ValueRejected
from tailrace.table_name import TableName
from tailrace.values.encode import ImageColumns
from tailrace.writing.cache import RowsChunk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.writing.rows import RowsSource

_SLICE: Final = 8 << 20
"""Bytes of Arrow data that are encoded at once."""


def _as_arrow(rows: Any) -> pa.Table | pa.RecordBatch | None:
    """Arrow's rows; those of a data frame (pandas, polars) as a table. Raises UsageError."""
    if rows is None or isinstance(rows, pa.Table | pa.RecordBatch):
        return rows
    if not hasattr(rows, "__arrow_c_stream__") or isinstance(rows, pa.ChunkedArray):
        raise UsageError(
            f"rows before and after are both Arrow's or neither: here is a {type(rows).__name__}"
        )
    return pa.table(rows)


def chunks(source: RowsSource, before: Any, after: Any) -> Iterator[RowsChunk]:
    """Events of Arrow's rows, a slice of them at a time.

    Each call has the same columns in all its images, as a statement of a server has: with the
    images MINIMAL and NOBLOB an update's after images hold what changed in any of its rows. Raises
    what `encode_rows` does, and ValueRejected where an image needs a column that is not given.
    """
    before, after = _as_arrow(before), _as_arrow(after)
    if source.kind == "update" and (before is None or after is None):
        raise UsageError("an update of Arrow's rows needs those before and those after")
    images = _Images(ImageColumns(source.schema, source.options.image), before, after)
    bits = images.bits
    prefix = bytes(source.event(b"", *bits))
    most = source.options.max_rows_event_size + len(prefix)
    for old, new in images.slices():
        encoded = encode_rows(
            source.schema,
            source.kind,
            old,
            new,
            prefix=prefix,
            most=most,
            filler=source.mariadb,
        )
        if source.compress:
            for event in encoded:
                rows = bytes(event[len(prefix) :])
                yield RowsChunk(source.event(rows, *bits), 1, 0)
        elif len(encoded):
            yield RowsChunk(encoded.data, len(encoded), int(encoded.starts[-1]))


class _Images:
    """The columns of the images: ``before`` and ``after`` are column index to Arrow's column, None
    without such images; ``bits`` are the bitmaps of both.
    """

    def __init__(self, columns: ImageColumns, before: Any, after: Any) -> None:
        self._schema = columns.schema
        self.count = (after if before is None else before).num_rows
        old = None if before is None else self._given(before)
        new = None if after is None else self._given(after)
        if old is not None and new is not None and after.num_rows != self.count:
            raise ValueRejected(
                f"{self._name}: {self.count} rows before, {after.num_rows} rows after"
            )
        self.before = self.after = None
        if old is not None:
            self.before = _chosen(columns, old, columns.before, "before")
        if new is not None:
            given = frozenset(new)
            wanted = columns.after(
                given,
                None if old is None else frozenset(old),
                lambda: frozenset(
                    index for index in given if not _same((old or {}).get(index), new[index])
                ),
            )
            self.after = _chosen(columns, (old or {}) | new, wanted, "after")
        self.bits = tuple(
            None if image is None else columns.bitmap(image) for image in (self.before, self.after)
        )

    @property
    def _name(self) -> str:
        return str(TableName(self._schema.database, self._schema.table))

    def _given(self, rows: Any) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            index = self._schema.index_of(name)
            if index is None:
                raise UnknownColumn(f"{self._name} has no column {name!r}")
            if index in found:
                raise UnknownColumn(f"{self._name}: the column {name!r} is given twice")
            found[index] = column
        return found

    def slices(self) -> Iterator[tuple[Any | None, Any | None]]:
        """The rows before and after, so many at a time that their bytes are few."""
        old, new = self._table(self.before), self._table(self.after)
        size = sum(table.nbytes for table in (old, new) if table is not None)
        step = max(1, self.count * _SLICE // max(size, _SLICE))
        for at in range(0, self.count, step):
            yield (
                None if old is None else old.slice(at, step),
                None if new is None else new.slice(at, step),
            )

    def _table(self, columns: dict[int, Any] | None) -> Any | None:
        if columns is None:
            return None
        names = [self._schema.columns[index].name for index in columns]
        return pa.Table.from_arrays(list(columns.values()), names=names)


def _chosen(
    columns: ImageColumns, given: dict[int, Any], wanted: frozenset[int], side: str
) -> dict[int, Any]:
    """The columns that an image holds. Raises ValueRejected for one that is not given."""
    if missing := wanted - given.keys() - columns.generated:
        raise columns.reject(missing, side)
    return {index: given[index] for index in sorted(wanted) if index in given}


def _same(one: Any | None, other: Any) -> bool:
    if one is None:
        return False
    if isinstance(one, pa.ChunkedArray) is not isinstance(other, pa.ChunkedArray):
        one, other = pa.chunked_array(one), pa.chunked_array(other)
    return bool(one.type == other.type and one.equals(other))
