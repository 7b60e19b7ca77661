"""Changelog rows as the fold takes them: the table's columns side by side, in its newest shape."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.columns.arrays import OPERATIONS
from tailrace.spark.record.present import Bits, bits
from tailrace.spark.state.current import raw
from tailrace.spark.state.current.conversions import carried, default
from tailrace.spark.state.failure import RejectedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tailrace.spark.state.current.lineage import Source

INSERT, UPDATE, DELETE, SNAPSHOT = range(4)
SEQ: Final = "_seq"
STAMP: Final = "_ts"
UNKNOWN: Final = "\0unknown"
"""A column that is true where a row has a default in it that the log does not tell."""

Bytes = np.ndarray[Any, np.dtype[np.int8]]
Taken = tuple[pa.ChunkedArray, pa.ChunkedArray | None, Bits | None]
"""A column's values, their texts, and which rows are there (None: all)."""


@dataclass(frozen=True)
class Target:
    """A table as its rows are to be in the lake: its columns, and the names of its key's.

    ``given`` says that the key is one that a user gave, which the server might not hold unique;
    ``shard`` is what the rows have in a column ``_source``, if there is to be one.
    """

    columns: pa.Schema
    key: tuple[str, ...]
    given: bool = False
    shard: str | None = None


_OLD: Final = "\0old."
_OPERATION: Final = "\0op"
_PRESENT: Final = "\0present."


@dataclass(frozen=True)
class Flat:
    """Changes of a table, in log order, as one table that a spill file can hold.

    ``rows`` has the target's columns from the after images (NULLs in a delete), ``_seq``, ``_ts``,
    and columns of texts (`raw.beside`); ``old`` has the key's columns from the before images.
    ``operations`` are numbers as in the change record's dictionary. ``present`` is None where all
    images are full, else it tells for each row and target column whether ``rows`` has its value.
    """

    table: pa.Table

    @classmethod
    def of(
        cls, rows: pa.Table, old: pa.Table, operations: Bytes, present: Bits | None, target: Target
    ) -> Flat:
        """The changes of these parts."""
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        columns[_OPERATION] = pa.array(operations)
        columns |= {f"{_OLD}{name}": old.column(name) for name in old.schema.names}
        if present is not None:
            named = zip(target.columns.names, present.T, strict=True)
            columns |= {f"{_PRESENT}{name}": pa.array(column) for name, column in named}
        return cls(pa.table(columns))

    @cached_property
    def rows(self) -> pa.Table:
        names = self.table.schema.names
        return self.table.select(
            [name for name in names if not name.startswith((_OLD, _OPERATION, _PRESENT))]
        )

    @cached_property
    def old(self) -> pa.Table:
        return self._part(_OLD)

    @cached_property
    def operations(self) -> Bytes:
        found: Bytes = self.table.column(_OPERATION).to_numpy()
        return found

    @cached_property
    def present(self) -> Bits | None:
        columns = self._part(_PRESENT).columns  # NULL in changes that were joined with partial ones
        found = [pc.fill_null(each, True).to_numpy() for each in columns]
        return np.stack(found, axis=1) if found else None

    def _part(self, mark: str) -> pa.Table:
        names = [name for name in self.table.schema.names if name.startswith(mark)]
        return self.table.select(names).rename_columns([name.removeprefix(mark) for name in names])


def joined(flats: Sequence[Flat]) -> Flat:
    """The changes of all, in sequence."""
    return Flat(pa.concat_tables([each.table for each in flats], promote_options="default"))


def flatten(changes: pa.Table, target: Target, sources: Mapping[str, Source]) -> Flat:
    """Bring rows of one changelog file into the target's shape.

    ``sources`` says for each of the target's columns where these rows have it. Raises
    `RejectedError` where values cannot be carried over.
    """
    operations = operation_numbers(changes)
    images = _Images(changes)
    there = operations != DELETE
    present = images.present("after") if images.partial else None

    def take(name: str) -> Taken:
        has = there if present is None else there & present[:, images.order[name]]
        return *images.take("after", name), has

    columns = shaped(target, sources, changes.num_rows, take)
    columns |= {SEQ: changes.column("_seq"), STAMP: changes.column("_ts")}
    old: dict[str, pa.ChunkedArray] = {}
    for name in target.key:
        before = sources[name].name
        if before is None:
            old[name] = pa.chunked_array([pa.nulls(changes.num_rows, columns[name].type)])
            continue
        values, text = images.take("before", before)
        field, olds = target.columns.field(name), operations != INSERT
        found = carried(values, text, sources[name], field, there=olds, key=True)
        old[name] = found.values
        if found.texts is not None:
            old[raw.beside(name)] = found.texts
    flat = Flat.of(pa.table(columns), pa.table(old), operations, None, target)
    return _with_absent(flat, images, target, sources) if images.partial else flat


def shaped(
    target: Target, sources: Mapping[str, Source], rows: int, take: Callable[[str], Taken]
) -> dict[str, pa.ChunkedArray]:
    """So many rows in the target's columns, with columns of texts, and `UNKNOWN` where it is true.

    ``sources`` says where the rows have each column, and ``take`` takes one that they have.
    """
    columns: dict[str, pa.ChunkedArray] = {}
    unknown = np.zeros(rows, np.bool_)
    for field in target.columns:
        source = sources[field.name]
        if source.name is None:
            values, text = default(source, field.type, rows)
            unknown |= source.unknown is not None
        else:
            values, text, there = take(source.name)
            key = field.name in target.key
            found = carried(values, text, source, field, there=there, key=key)
            values, text = found.values, found.texts
            unknown |= found.unknown
        columns[field.name] = values
        if text is not None:
            columns[raw.beside(field.name)] = text
    if unknown.any():
        columns[UNKNOWN] = unknown_marks(unknown)
    return columns


def unknown_marks(unknown: Bits) -> pa.ChunkedArray:
    """The column `UNKNOWN`: NULL where all is known."""
    return pa.chunked_array([pa.array(unknown, pa.bool_(), mask=~unknown)])


def has_unknown(rows: pa.Table) -> bool:
    """Whether rows have values of which the log does not tell what they are."""
    return UNKNOWN in rows.schema.names and rows.column(UNKNOWN).null_count < rows.num_rows


def operation_numbers(changes: pa.Table) -> Bytes:
    """The numbers of the changes' operations, whatever order the dictionaries have them in."""
    names, found = OPERATIONS.to_pylist(), [np.zeros(0, np.int8)]
    for chunk in changes.column("_op").chunks:
        order = np.array([names.index(text) for text in chunk.dictionary.to_pylist()], np.int8)
        found.append(order[chunk.indices.to_numpy(zero_copy_only=False)])
    return np.concatenate(found)


class _Images:
    """The before and after images of changelog rows, a column at a time."""

    def __init__(self, changes: pa.Table) -> None:
        self._changes = changes
        self._texts = raw.texts(changes.column("_raw"))
        present = changes.column("_present")
        self.partial = present.null_count < changes.num_rows
        fields = changes.schema.field("after").type
        self.order = {field.name: index for index, field in enumerate(fields)}

    def take(self, image: str, name: str) -> tuple[pa.ChunkedArray, pa.ChunkedArray | None]:
        """A column's values in an image, and their texts."""
        column = pc.struct_field(self._changes.column(image), [name])
        text = self._texts.get(f"{image}.{name}")
        return column, None if text is None else pa.chunked_array([text])

    def present(self, image: str) -> Bits:
        """Which of the file's columns each row's image has, a row of bits each."""
        return bits(self._changes.column("_present"), image, len(self.order))


def _with_absent(
    flat: Flat, images: _Images, target: Target, sources: Mapping[str, Source]
) -> Flat:
    """Tell what the rows lack; what only an update's before image has was not changed by it."""
    order = images.order
    after, before = images.present("after"), images.present("before")
    updates = flat.operations == UPDATE
    takes = updates | (flat.operations == DELETE)
    for name in target.key:
        place = order.get(sources[name].name or "")
        if place is None or not before[takes, place].all():
            raise RejectedError(f"the images of its changes lack the key column {name}")
    present = np.full((len(updates), len(target.columns)), True)
    rows = flat.rows
    for index, field in enumerate(target.columns):
        column = sources[field.name].name
        if column is None:
            continue
        has, spare = after[:, order[column]], before[:, order[column]]
        kept = updates & ~has & spare
        present[:, index] = has | kept
        if kept.any():
            values, text = images.take("before", column)
            found = carried(values, text, sources[field.name], field, there=kept)
            text, values = found.texts, found.values
            if (bad := found.unknown & kept).any():
                rows = put(rows, UNKNOWN, bad, unknown_marks(bad))
            rows = put(rows, field.name, kept, values)
            beside = raw.beside(field.name)
            if text is not None or beside in rows.schema.names:
                empty = pa.chunked_array([pa.nulls(rows.num_rows, pa.string())])
                rows = put(rows, beside, kept, empty if text is None else text)
    return Flat.of(rows, flat.old, flat.operations, present, target)


def put(rows: pa.Table, name: str, mask: Bits, values: pa.ChunkedArray) -> pa.Table:
    """Replace a column's values where ``mask`` is true; a column that is missing was NULL."""
    index = rows.schema.get_field_index(name)
    chosen = pa.array(mask)
    if index < 0:
        return rows.append_column(name, pc.if_else(chosen, values, None))
    return rows.set_column(index, name, pc.if_else(chosen, values, rows.column(index)))
