"""Arrow's rows as rows events, by the kernels of `columns.encode`. Needs pyarrow and numba."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tailrace.columns.write.rows import encode_rows
from tailrace.errors import UnknownColumn, UsageError, ValueRejected
from tailrace.values.encode import RowImage
from tailrace.values.schema import BLOB_TYPES
from tailrace.writing.chunk import RowsChunk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.values.schema import TableSchema
    from tailrace.writing.rows import RowsSource

_SLICE: Final = 8 << 20
"""Bytes of Arrow data that are encoded at once."""


def chunks(source: RowsSource, before: Any, after: Any) -> Iterator[RowsChunk]:
    """Events of Arrow's rows, a slice of them at a time.

    Each call has the same columns in all its images, as a statement of a server has: with the
    images MINIMAL and NOBLOB an update's after images hold what changed in any of its rows. Raises
    what `encode_rows` does, and ValueRejected where an image needs a column that is not given.
    """
    for rows in (before, after):
        if rows is not None and not isinstance(rows, pa.Table | pa.RecordBatch):
            raise UsageError(
                f"rows before and after are both Arrow's or neither: here is a {type(rows)}"
            )
    if source.kind == "update" and (before is None or after is None):
        raise UsageError("an update of Arrow's rows needs those before and those after")
    images = _Images(source.schema, source.options.image, before, after)
    bits = images.bits(images.before), images.bits(images.after)
    prefix = source.event(b"", *bits)
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
                yield RowsChunk(bytearray(source.event(rows, *bits)), 1, 0)
        elif len(encoded):
            yield RowsChunk(encoded.data, len(encoded), int(encoded.starts[-1]))


class _Images:
    """Which columns the images hold: ``before`` and ``after`` are column index to Arrow's column,
    None without such images.
    """

    def __init__(self, schema: TableSchema, image: RowImage, before: Any, after: Any) -> None:
        self._schema = schema
        self._image = image
        self._every = set(range(len(schema.columns)))
        self._blobs = {column.index for column in schema.columns if column.type in BLOB_TYPES}
        self.count = (after if before is None else before).num_rows
        old = None if before is None else self._given(before)
        new = None if after is None else self._given(after)
        if old is not None and new is not None and after.num_rows != self.count:
            raise ValueRejected(
                f"{self._name}: {self.count} rows before, {after.num_rows} rows after"
            )
        self.before = None if old is None else self._chosen(old, self._columns_before(), "before")
        self.after = None
        if new is not None:
            self.after = self._chosen(new, self._columns_after(old, new), "after")

    @property
    def _name(self) -> str:
        return f"{self._schema.database}.{self._schema.table}"

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

    def _columns_before(self) -> set[int]:
        key = set(self._schema.primary_key)
        if self._image is RowImage.FULL or not key:
            return self._every
        return key if self._image is RowImage.MINIMAL else self._every - (self._blobs - key)

    def _columns_after(self, old: dict[int, Any] | None, new: dict[int, Any]) -> set[int]:
        given = set(new)
        if old is None:
            if self._image is RowImage.FULL:
                return self._every
            return given if self._image is RowImage.MINIMAL else self._every - self._blobs | given
        changed = {index for index, column in new.items() if not _same(old.get(index), column)}
        if self._image is RowImage.MINIMAL:
            complete = given >= self._every - self._generated
            return changed or given if complete else given
        columns = set(self._every)
        if self._image is RowImage.NOBLOB:
            columns = self._every - self._blobs | changed
        for index in columns - given:
            if index in old:
                new[index] = old[index]
        return columns

    @property
    def _generated(self) -> set[int]:
        return {column.index for column in self._schema.columns if column.generated}

    def _chosen(self, given: dict[int, Any], columns: set[int], side: str) -> dict[int, Any]:
        if missing := sorted(columns - set(given) - self._generated):
            names = ", ".join(self._schema.columns[index].name for index in missing[:5])
            raise ValueRejected(
                f"{self._name}: the rows {side} do not give {names}"
                f"{' and others' if len(missing) > 5 else ''}, which the {self._image.upper()}"
                f" image of rows {side} needs: give them, NULL if they are"
            )
        return {index: given[index] for index in sorted(columns) if index in given}

    def bits(self, columns: dict[int, Any] | None) -> bytes | None:
        """The bitmap of an image's columns."""
        if columns is None:
            return None
        bitmap = sum(1 << index for index in columns)
        return bitmap.to_bytes((len(self._schema.columns) + 7) // 8, "little")

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


def _same(one: Any | None, other: Any) -> bool:
    if one is None:
        return False
    if isinstance(one, pa.ChunkedArray) is not isinstance(other, pa.ChunkedArray):
        one, other = pa.chunked_array(one), pa.chunked_array(other)
    return bool(one.type == other.type and one.equals(other))
