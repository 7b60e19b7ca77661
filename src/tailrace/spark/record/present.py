"""Which columns the images of changes have: the ``_present`` field, in bulk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

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


def unlogged_columns(
    rows: pa.Table, key: Collection[str], lacking: Mapping[str, bool | None]
) -> set[str]:
    """Columns that both images of an update lack though it may have changed them.

    ``lacking`` has those that may be so (`Column.may_be_lacking`). What is None there is only in
    doubt in an update whose before image has more than the key: else the image is a minimal one.
    """
    names = rows.schema.field("after").type.names
    chosen = pc.and_(
        pc.equal(rows.column("_op").cast(pa.string()), "update"), rows.column("_present").is_valid()
    )
    present = rows.column("_present").filter(chosen)
    before = bits(present, "before", len(names))
    logged = before | bits(present, "after", len(names))
    ours = np.array([name not in key for name in names])
    more_than_key = before[:, ours].any(axis=1)
    return {
        name
        for index, name in enumerate(names)
        if name in lacking
        and not logged[slice(None) if lacking[name] else more_than_key, index].all()
    }
