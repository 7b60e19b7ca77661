"""Deleted rows of a data file: their numbers in it, and what tells where a table keeps them."""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from tailrace.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Mapping

Rows = np.ndarray[Any, np.dtype[np.int64]]
"""Numbers of rows in a file, ascending and each once."""

_MAGIC: Final = 1681511377
NO_ROWS: Final[Rows] = np.zeros(0, np.int64)


class DeletedRows(Protocol):
    """The deleted rows of one data file, where the table's format keeps them.

    It pickles and is small: a task reads the rows of the files that it needs. Two that are equal
    are of the same rows; two that are not may be so, too.
    """

    @property
    def count(self) -> int:
        """How many there are."""

    def read(self) -> Rows:
        """Their numbers. Raises `PipelineError`."""


def deleted_rows(deleted: Mapping[str, DeletedRows], path: str) -> Rows:
    """The deleted rows of a file; none if it has none. Raises `PipelineError`."""
    found = deleted.get(path)
    return NO_ROWS if found is None else found.read()


def joined(*parts: Rows) -> Rows:
    """All rows of any."""
    found = [each for each in parts if len(each)]
    return np.unique(np.concatenate(found)) if len(found) > 1 else found[0] if found else NO_ROWS


def without(rows: pa.Table, first: int, deleted: Rows) -> pa.Table:
    """The live rows, of those of a file from number ``first`` on."""
    low, high = np.searchsorted(deleted, [first, first + rows.num_rows])
    if low == high:
        return rows
    kept = np.full(rows.num_rows, True)
    kept[deleted[low:high] - first] = False
    return rows.filter(pa.array(kept))


def dump(rows: Rows) -> bytes:
    """Row numbers, ascending and each once, as the bytes of one of Delta's deletion vectors."""
    numbers = array("Q", rows.astype(np.uint64).tobytes())
    return struct.pack("<I", _MAGIC) + bytes(BitMap64(numbers).serialize())


def load(data: bytes) -> Rows:
    """The row numbers of a vector's bytes; raises `PipelineError` for anything else."""
    try:
        (magic,) = struct.unpack_from("<I", data)
        if magic != _MAGIC:
            raise PipelineError(f"a deletion vector begins with {magic}, and not with {_MAGIC}")
        found = BitMap64.deserialize(data[4:])
    except (struct.error, ValueError, IndexError) as error:
        raise PipelineError(f"a deletion vector is damaged: {error}") from error
    return np.array(found.to_array()).astype(np.int64)
