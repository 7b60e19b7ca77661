"""What is done to a whole column before the row kernel writes it: the inverse of `finish`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.columns.types import Finish
from tailrace.columns.write.json import text_to_jsonb
from tailrace.columns.write.text import from_utf8
from tailrace.columns.write.types import Rejected
from tailrace.constants import ColumnType as T
from tailrace.errors import ValueRejected
from tailrace.values.registry import dumper_of
from tailrace.values.schema import Logical

if TYPE_CHECKING:
    from tailrace.columns.types import Plan
    from tailrace.values.schema import Column

_GEOMETRY_HEAD: Final = 9
"""The SRID, WKB's byte order, WKB's type."""


def as_logged(array: pa.Array, column: Column, plan: Plan) -> pa.Array:
    """Convert an array from ``plan.type`` to what the row kernel takes (large types stay large).

    Raises `Rejected` with the row of a value that the column cannot hold.
    """
    if plan.finish is Finish.CHARSET:
        return from_utf8(array, column)
    if plan.finish is Finish.JSONB:
        return text_to_jsonb(array)
    if plan.finish is Finish.VECTOR:
        return _vector(array, column)
    if plan.finish is Finish.DECOMPRESS:
        return _compressed(array, column)
    if column.logical is Logical.GEOMETRY:
        _check_geometries(array)
    return array


def _compressed(array: pa.Array, column: Column) -> pa.Array:
    dump = dumper_of(column)
    values: list[bytes | None] = []
    for row, value in enumerate(array.to_pylist()):
        try:
            values.append(None if value is None else dump(value))
        except ValueRejected as error:
            raise Rejected(str(error), row) from None
    return pa.array(values, pa.large_binary())


def _vector(array: pa.Array, column: Column) -> pa.Array:
    """Lists of finite floats, with the number of dimensions of MariaDB's type."""
    numbers = array.flatten()
    sound = np.isfinite(numbers.to_numpy(zero_copy_only=False))
    if numbers.null_count or not sound.all():
        for row, value in enumerate(array.to_pylist()):
            if value is not None and not np.isfinite(np.array(value, np.float32)).all():
                raise Rejected("a vector holds neither NULL nor NaN nor infinities", row)
    if column.type is T.VARCHAR:
        sizes = pc.list_value_length(array)
        wrong = pc.fill_null(pc.not_equal(sizes, column.metadata // 4), False)
        if (row := wrong.index(True).as_py()) >= 0:
            raise Rejected(f"{sizes[row]} numbers, the VECTOR has {column.metadata // 4}", int(row))
    return array


def _check_geometries(array: pa.Array) -> None:
    sizes = pc.fill_null(pc.binary_length(array), 0).to_numpy()
    some = sizes > 0
    offsets = np.frombuffer(
        array.buffers()[1], np.int64 if pa.types.is_large_binary(array.type) else np.int32
    )[array.offset : array.offset + len(array)]
    wrong = some & (sizes < _GEOMETRY_HEAD)
    there = some & ~wrong
    data = array.buffers()[2]
    if there.any():
        wrong[there] = np.frombuffer(data, np.uint8)[offsets[there] + 4] > 1
    if wrong.any():
        row = int(wrong.argmax())
        raise Rejected(
            f"{sizes[row]} bytes that are no geometry: give 4 bytes of SRID, little-endian, and "
            "WKB",
            row,
        )
