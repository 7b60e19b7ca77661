"""Values that no typed column can hold (zero dates), as a separate column of texts.

A changelog keeps them in ``_raw``, a map from ``after.born`` to ``0000-00-00``. While rows are
folded, each column that has any gets a column of such texts, which goes where its own goes; in the
current state they are a map from the column's name to the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.spark.record.present import Bits

MAP: Final = pa.map_(pa.string(), pa.string())
_MARK: Final = "\0raw."


def beside(column: str) -> str:
    """The name of the column of texts that belongs to ``column``."""
    return f"{_MARK}{column}"


def owner(name: str) -> str | None:
    """The column that a column of texts belongs to; None for any other column."""
    return name.removeprefix(_MARK) if name.startswith(_MARK) else None


def texts(raw: pa.ChunkedArray) -> dict[str, pa.Array]:
    """Take a map column apart: for each key in it, the texts of all rows (NULL where none)."""
    if raw.null_count == len(raw):
        return {}
    array = raw.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0)
    sizes = np.diff(array.offsets.to_numpy())
    rows = np.repeat(np.arange(len(array)), sizes * array.is_valid().to_numpy(zero_copy_only=False))
    flat = array.drop_null()
    keys, values = flat.keys, flat.items
    begin, end = flat.offsets[0].as_py(), flat.offsets[len(flat)].as_py()
    keys, values = keys.slice(begin, end - begin), values.slice(begin, end - begin)
    found: dict[str, pa.Array] = {}
    for key in pc.unique(keys).to_pylist():
        chosen = pc.indices_nonzero(pc.equal(keys, key))
        places = np.full(len(array), -1, np.int64)
        places[rows[chosen.to_numpy()]] = chosen.to_numpy()
        found[key] = values.take(pa.array(places, mask=places < 0))
    return found


def changed(changes: pa.Table, column: str) -> Bits:
    """Which changes have a value in the after image that differs from the before image's.

    A value that an image lacks counts as NULL.
    """
    found, none = texts(changes.column("_raw")), pa.nulls(changes.num_rows, pa.string())
    images = ("before", "after")
    values = [pc.struct_field(changes.column(image), [column]) for image in images]
    same = np.full(changes.num_rows, True)
    for old, new in (values, [found.get(f"{image}.{column}", none) for image in images]):
        equal = pc.fill_null(pc.equal(old, new), False)
        equal = pc.or_(equal, pc.and_(pc.is_null(old), pc.is_null(new)))
        same &= equal.to_numpy(zero_copy_only=False)
    return ~same


def as_map(rows: int, columns: Mapping[str, pa.ChunkedArray]) -> pa.Array:
    """Put a map column together from columns of texts, by the key of each; NULL for empty maps."""
    if not columns:
        return pa.nulls(rows, MAP)
    names = pa.array(list(columns), pa.string())
    parts = [pa.chunked_array(column).combine_chunks() for column in columns.values()]
    there = np.stack([part.is_valid().to_numpy(zero_copy_only=False) for part in parts])
    row, which = np.nonzero(there.T)
    values = pa.concat_arrays([part.cast(pa.string()) for part in parts])
    sizes = there.sum(axis=0)
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    masked = pa.array(offsets, mask=np.append(sizes == 0, [False]))
    keys = names.take(pa.array(which))
    return pa.MapArray.from_arrays(masked, keys, values.take(pa.array(which * rows + row)))
