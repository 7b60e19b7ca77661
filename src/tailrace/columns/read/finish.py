"""The bulk work on whole columns after the row kernel has run."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tailrace.columns.charsets import to_utf8, without_surrogates
from tailrace.columns.frames import plan as k
from tailrace.columns.json_text import jsonb_to_text
from tailrace.columns.text_output import BadRow
from tailrace.columns.types import Finish
from tailrace.constants import ColumnType
from tailrace.errors import EventDecodeError, UnsupportedType
from tailrace.values import compressed
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

    What the heads say is found out for all values at once; `uncompress` takes the unusual ones,
    and says what is wrong.
    """
    valid, offsets, data = array.buffers()
    if data is None or data.size == 0:
        return array
    bounds = np.frombuffer(offsets, np.int32, len(array) + 1)
    logged = memoryview(data).cast("B")  # Arrow says that its bytes are signed
    starts, bits, sizes = _heads(np.frombuffer(data, np.uint8), bounds, limit)
    values: list[bytes] = []
    ends, inflate = bounds.tolist(), zlib.decompress
    try:
        for start, end, window, size in zip(starts, ends[1:], bits, sizes.tolist(), strict=True):
            if size < 0:
                values.append(uncompress(logged[ends[len(values)] : end], limit))
                continue
            value = inflate(logged[start:end], window, size + 1)
            if len(value) != size:  # at once: it may be a thousand times as large as its bytes
                raise _wrong(logged, ends, len(values), limit)
            values.append(value)
    except (EventDecodeError, zlib.error):
        raise _wrong(logged, ends, len(values), limit) from None
    bounds = np.zeros(len(array) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=bounds[1:])
    return pa.Array.from_buffers(
        pa.binary(),
        len(array),
        [valid, pa.py_buffer(bounds), pa.py_buffer(b"".join(values))],
        array.null_count,
    )


def _heads(
    data: np.ndarray[Any, np.dtype[np.uint8]],
    bounds: np.ndarray[Any, np.dtype[np.int32]],
    limit: int,
) -> tuple[list[int], list[int], np.ndarray[Any, np.dtype[np.int64]]]:
    """Where each value's deflated bytes start, zlib's window bits for them, and the size that the
    value claims: -1 where it is not a small deflated one.
    """
    ends = bounds[1:]
    heads = data[np.minimum(bounds[:-1], len(data) - 1)].astype(np.int64)
    digits = heads & compressed.SIZE_BYTES
    starts = bounds[:-1] + 1 + digits
    usual = (heads >> 4 == compressed.ZLIB) & (digits > 0) & (digits <= 4) & (starts <= ends)
    usual &= ends - bounds[:-1] < compressed.SMALL
    sizes = np.zeros(len(heads), np.int64)
    for place in range(1, 5):
        at = np.minimum(bounds[:-1] + place, len(data) - 1)
        sizes = np.where(place <= digits, sizes << 8 | data[at], sizes)
    usual &= sizes <= min(limit, compressed.SMALL_MOST)
    bits = np.where(heads & compressed.RAW_DEFLATE, -zlib.MAX_WBITS, zlib.MAX_WBITS)
    return starts.tolist(), bits.tolist(), np.where(usual, sizes, -1)


def _wrong(logged: memoryview, bounds: list[int], row: int, limit: int) -> BadRow:
    """What is wrong with a value that does not uncompress."""
    try:
        uncompress(logged[bounds[row] : bounds[row + 1]], limit)
    except EventDecodeError as error:
        return BadRow(error.message, row)
    raise AssertionError(f"row {row} uncompresses after all")


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
