"""Which columns the images of changes have: the ``_present`` field, in bulk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

Bits = np.ndarray[Any, np.dtype[np.bool_]]


def bits(present: pa.ChunkedArray, image: str, columns: int) -> Bits:
    """A row of bits for each change: whether its ``image`` has each of the ``columns``.

    A change without an entry has full images; an entry of no bytes has none of the columns.
    """
    entries = present.combine_chunks()
    if isinstance(entries, pa.ChunkedArray):
        entries = pa.concat_arrays(entries.chunks) if entries.num_chunks else pa.nulls(0)
    partial = entries.is_valid().to_numpy(zero_copy_only=False)
    found = np.full((len(entries), columns), True)
    if not partial.any():
        return found
    bitmaps = pc.struct_field(entries.filter(entries.is_valid()), [image])
    width = (columns + 7) // 8
    data = b"".join((bitmap or b"").ljust(width, b"\0")[:width] for bitmap in bitmaps.to_pylist())
    rows = np.frombuffer(data, np.uint8).reshape(-1, width)
    unpacked = np.unpackbits(rows, axis=1, bitorder="little", count=columns)
    found[partial] = unpacked.astype(np.bool_)
    return found


def unlogged_columns(rows: pa.Table, key: Sequence[str], blobs: Collection[str]) -> set[str]:
    """Columns that some update leaves out though it is not sure that they kept their values.

    MariaDB 11 leaves generated columns out of both images of an update, whatever changed. In an
    update whose before image has more than the key, only those do not count as unchanged, and
    ``blobs``, which NOBLOB leaves out.
    """
    names = [field.name for field in rows.schema.field("after").type]
    chosen = pc.and_(
        pc.equal(rows.column("_op").cast(pa.string()), "update"), rows.column("_present").is_valid()
    )
    updates = rows.filter(chosen)
    if not updates.num_rows:
        return set()
    before = bits(updates.column("_present"), "before", len(names))
    after = bits(updates.column("_present"), "after", len(names))
    ours = np.array([name not in key for name in names])
    more_than_key = before[:, ours].any(axis=1)
    lacking = (~before & ~after)[more_than_key]
    left_out: list[bool] = np.any(lacking, axis=0).tolist()
    return {name for name, out in zip(names, left_out, strict=True) if out and name not in blobs}
