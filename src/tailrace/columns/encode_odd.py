"""Values that stand beside their column: the change record's ``_raw``, on the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tailrace.columns import encode_frames as f
from tailrace.columns.encode_types import Refused
from tailrace.errors import ValueRefused
from tailrace.rows.dumpers import dumper_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from tailrace.columns.encode_columns import ColumnWriter

Array = np.ndarray[Any, Any]
_IMAGES: Final = ("before", "after")


def odd_values(
    raw: pa.Array | pa.ChunkedArray | None,
    columns: Sequence[Sequence[tuple[int, ColumnWriter]]],
    given: Sequence[bool],
) -> Array:
    """The values of a piece of ``_raw``, ODD_WORDS words each, in the order of rows and columns.

    ``columns`` are those of both images, ``given`` tells which images there are. Raises
    `Refused` for a name that is no column's, and for text that the column does not hold.
    """
    if raw is None or raw.null_count == len(raw):
        return np.zeros((0, f.ODD_WORDS), np.int64)
    known = {
        f"{_IMAGES[image]}.{writer.column.name}": (image, place, writer)
        for image, each in enumerate(columns)
        for place, (_, writer) in enumerate(each)
    }
    found: list[tuple[int, int, int]] = []
    for row in raw.is_valid().to_numpy(zero_copy_only=False).nonzero()[0].tolist():
        for name, text in raw[row].as_py():
            if name not in known:
                image = name.partition(".")[0]
                if image in _IMAGES and not given[_IMAGES.index(image)]:
                    continue
                raise Refused(f"a value beside {name!r}, which is no column of the image", row)
            image, place, writer = known[name]
            found.append((row, image << 32 | place, _bytes_of(writer, text, row)))
    return np.array(sorted(found), np.int64).reshape(-1, f.ODD_WORDS)


def _bytes_of(writer: ColumnWriter, text: str, row: int) -> int:
    size = int(writer.words[f.SIZE])
    if not 1 <= size <= 8:
        raise Refused("no value of its type stands beside the column", row)
    try:
        data = dumper_of(writer.column)(text)
    except ValueRefused as error:
        raise Refused(str(error), row) from None
    return int.from_bytes(data.ljust(8, b"\0"), "little", signed=True)
