"""Values of the change record's ``_raw``, which are kept apart from their column, for writing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from tailrace.columns.frames import encode as f
from tailrace.columns.frames import plan as k
from tailrace.columns.write.types import Rejected
from tailrace.values.registry import dumper_of
from tailrace.values.schema import Logical
from tailrace.values.surrogates import unescaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from tailrace.columns.write.columns import ColumnWriter

Array = np.ndarray[Any, Any]
_IMAGES: Final = ("before", "after")


class OddValues(NamedTuple):
    """The values in ``_raw`` of a piece's rows.

    ``fixed`` are values of up to eight bytes, ODD_WORDS words each, in the order of rows and
    columns; ``texts`` those of text columns, by image and index of the column, then by row.
    """

    fixed: Array
    texts: dict[tuple[int, int], dict[int, bytes]]


def odd_values(
    raw: pa.Array | pa.ChunkedArray | None,
    columns: Sequence[Sequence[tuple[int, ColumnWriter]]],
    given: Sequence[bool],
) -> OddValues:
    """The values of a piece of ``_raw``.

    ``columns`` are those of both images, ``given`` says which images exist. Raises
    `Rejected` for a name that is not a column's, and for text that the column cannot hold.
    """
    if raw is None or raw.null_count == len(raw):
        return OddValues(np.zeros((0, f.ODD_WORDS), np.int64), {})
    known = {
        f"{_IMAGES[image]}.{writer.column.name}": (image, place, writer)
        for image, each in enumerate(columns)
        for place, (_, writer) in enumerate(each)
    }
    found: list[tuple[int, int, int]] = []
    texts: dict[tuple[int, int], dict[int, bytes]] = {}
    for row in raw.is_valid().to_numpy(zero_copy_only=False).nonzero()[0].tolist():
        for name, text in raw[row].as_py():
            if name not in known:
                image = name.partition(".")[0]
                if image in _IMAGES and not given[_IMAGES.index(image)]:
                    continue
                raise Rejected(
                    f"`_raw` has a value of {name!r}, which is not a column of the image", row
                )
            image, place, writer = known[name]
            data = _bytes_of(writer, text, row)
            if _is_text(writer):
                texts.setdefault((image, place), {})[row] = data
            else:
                word = int.from_bytes(data.ljust(8, b"\0"), "little", signed=True)
                found.append((row, image << 32 | place, word))
    return OddValues(np.array(sorted(found), np.int64).reshape(-1, f.ODD_WORDS), texts)


def _is_text(writer: ColumnWriter) -> bool:
    return writer.column.logical in {Logical.TEXT, Logical.JSON} and writer.plan.kind == k.STRING


def _bytes_of(writer: ColumnWriter, text: str, row: int) -> bytes:
    named = writer.plan.kind in {k.ENUM_NAME, k.SET_NAMES}
    if not _is_text(writer) and not 1 <= int(writer.words[f.SIZE]) <= 8:
        raise Rejected("a column of this type has no values in `_raw`", row)
    try:
        value = unescaped(text) if named or _is_text(writer) else text
        return dumper_of(writer.column)(value)
    except ValueError as error:
        raise Rejected(str(error), row) from None
