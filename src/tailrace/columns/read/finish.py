"""The bulk work on whole columns after the row kernel has run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from tailrace.columns import native
from tailrace.columns.charsets import to_utf8, without_surrogates
from tailrace.columns.frames import plan as k
from tailrace.columns.frames import text as f
from tailrace.columns.json_text import jsonb_to_text
from tailrace.columns.text_output import BadRow, layout, write
from tailrace.columns.types import Finish
from tailrace.constants import ColumnType
from tailrace.errors import EventDecodeError, UnsupportedType
from tailrace.values.compressed import longest_uncompressed, uncompress
from tailrace.values.geometry import HEADER_SIZE
from tailrace.values.schema import Logical
from tailrace.values.surrogates import has_surrogates

if TYPE_CHECKING:
    from tailrace.columns.types import Plan
    from tailrace.values.schema import Column

_NAMED: Final = frozenset({k.ENUM_NAME, k.SET_NAMES})


def is_finished(plan: Plan, column: Column) -> bool:
    """Whether `finish` leaves all arrays of a column as they are."""
    named = plan.kind in _NAMED and any(map(has_surrogates, column.members or ()))
    return plan.finish is Finish.NOTHING and not named


def finish(
    array: pa.Array, plan: Plan, column: Column, odd: dict[int, str], *, spent: bool = False
) -> pa.Array:
    """Convert an array from ``plan.raw`` to ``plan.type``.

    Text that UTF-8 cannot hold becomes NULL, and goes to ``odd`` by its row, as in ``_raw``.
    With ``spent`` the bytes of the array are not needed afterwards. Raises BadRow, UnsupportedType.
    """
    try:
        if is_finished(plan, column):
            return array
        if plan.kind in _NAMED:
            return without_surrogates(array, odd)
        if plan.finish is Finish.VECTOR:
            return _vector(array)
        if plan.finish is Finish.GEOMETRY:
            return _geometry(array)
        if plan.finish is Finish.JSONB:
            return jsonb_to_text(array)
        if plan.finish is Finish.DECOMPRESS:
            array = _uncompressed(array, longest_uncompressed(column))
            if column.logical is Logical.BINARY:
                return array
        return to_utf8(array, column.charset, odd, spent=spent)
    except UnsupportedType as error:
        raise UnsupportedType(f"column {column.name}: {error.message}") from error


def check_stored(array: pa.Array, column: Column) -> None:
    """Raise LogError if an array, decoded by `stored_plan_of`, has values that the column cannot
    have; also for text that UTF-8 cannot hold, and for members without a name.
    """
    odd: dict[int, str] = {}
    if column.members is not None:
        _check_members(array, len(column.members))
    elif column.logical is Logical.VECTOR:
        _vector(array)
    elif column.logical in {Logical.TEXT, Logical.JSON} and column.type is not ColumnType.JSON:
        to_utf8(array, column.charset, odd)
    if odd:
        raise BadRow("text that UTF-8 cannot hold", min(odd))


def _check_members(array: pa.Array, count: int) -> None:
    width = array.type.bit_width // 8
    words = np.frombuffer(array.buffers()[1], np.uint32 if width == 4 else np.uint64)
    step = max(width // 8, 1)
    numbers = words[array.offset * step : (array.offset + len(array)) * step : step]
    if array.null_count:
        bits = np.unpackbits(np.frombuffer(array.buffers()[0], np.uint8), bitorder="little")
        numbers = numbers[bits[array.offset : array.offset + len(array)] == 1]
    most = count if width == 4 else (1 << min(count, 64)) - 1
    if len(numbers) and int(numbers.max()) > most:
        raise BadRow("a number that no member has", int(np.argmax(numbers)))


def _uncompressed(array: pa.BinaryArray, limit: int) -> pa.BinaryArray:
    """Uncompressed values of MariaDB's compressed columns. Before and after, NULL has no bytes.

    `uncompress` takes the values that the kernel leaves, and says what is wrong.
    """
    _, offsets, data = array.buffers()
    if data is None or data.size == 0:
        return array
    bounds = np.frombuffer(offsets, np.int32)[array.offset :]

    def by_hand(row: int) -> bytes:
        try:
            return uncompress(memoryview(data)[bounds[row] : bounds[row + 1]].cast("B"), limit)
        except EventDecodeError as error:
            raise BadRow(error.message, row) from None

    if not native.is_worth_compiling("uncompressed"):
        return pa.array(
            [by_hand(row) if each.is_valid else None for row, each in enumerate(array)], pa.binary()
        )
    ends, work = np.empty(len(array) + 1, np.int32), np.zeros(f.WORK_BYTES, np.uint8)
    frame = np.zeros(f.INFLATE_WORDS, np.int64)
    frame[f.ROWS], frame[f.OUT_OFFSETS], frame[f.LIMIT] = len(array), ends.ctypes.data, limit
    frame[f.DATA], frame[f.DATA_END], frame[f.OFFSETS] = layout(array)
    frame[f.OUT] = 1  # an address: 0 would be a code
    frame[f.CAPACITY] = 1 << 62
    kernel = native.kernel("uncompressed")
    kernel(frame.ctypes.data)
    size = int(frame[f.USED])
    frame[f.WORK] = work.ctypes.data
    return write(kernel, frame, array, size, "compressed values", by_hand, pa.binary())


def _vector(array: pa.BinaryArray) -> pa.ListArray:
    """Vectors of float32 from their bytes, without copying."""
    valid, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(array) + 1)
    if (bounds % 4).any():
        row = int(np.flatnonzero(bounds % 4)[0]) - 1
        raise BadRow("a vector's size is not a multiple of 4 bytes", row)
    count = int(bounds[-1]) // 4
    values = pa.Array.from_buffers(pa.float32(), count, [None, data])
    return pa.Array.from_buffers(
        pa.list_(pa.float32()),
        len(array),
        [valid, pa.py_buffer(bounds // 4)],
        array.null_count,
        children=[values],
    )


def _geometry(array: pa.BinaryArray) -> pa.BinaryArray:
    """Geometries, after a check of their first bytes (`tailrace.values.geometry`)."""
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(array) + 1)
    sizes = np.diff(bounds)
    rows = np.flatnonzero(sizes)
    bad = sizes[rows] < HEADER_SIZE
    if len(rows):
        values = np.frombuffer(data, np.uint8)
        order = np.minimum(bounds[rows] + 4, len(values) - 1)
        bad |= values[order] > 1
    if bad.any():
        row = int(rows[np.argmax(bad)])
        raise BadRow(f"a GEOMETRY of {sizes[row]} bytes that is no SRID and WKB", row)
    return array
