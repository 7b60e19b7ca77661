"""One value of an Arrow column, read with the words of `tailrace.columns.frames.text`: whether a
row has it, and numbers, times and vectors as text.

Functions that write take the address to write at and return the address after what they wrote, or a
code <= 0. The caller writes the quotes.
"""

from __future__ import annotations

from tailrace.columns.frames import text as f
from tailrace.columns.kernels.memory import (
    get,
    helper,
    i8,
    i16,
    i32,
    i64,
    put8,
    put64,
    same_bytes,
    u8,
    u32,
)
from tailrace.columns.kernels.number_text import put_decimal128, put_float, put_signed, put_unsigned
from tailrace.columns.kernels.temporal_text import put_moment, put_span

_DAY = 86_400_000_000


@helper
def _bit_at(bitmap: int, index: int) -> int:
    return u8(bitmap + (index >> 3)) >> (index & 7) & 1


@helper
def is_present(image: int, column: int, row: int) -> int:
    """Whether a row's image has a column."""
    present = get(image, f.PRESENT)
    if present == 0:
        return 1
    size = i64(present + 16 * row + 8)
    if size < 0:
        return 1
    index = get(column, f.INDEX)
    return int(index < 8 * size and _bit_at(i64(present + 16 * row), index) == 1)


@helper
def has_value(column: int, row: int) -> int:
    """Whether Arrow has a value there, rather than NULL."""
    if get(column, f.KIND) == f.NULL:
        return 0
    valid = get(column, f.NOT_NULL)
    return int(valid == 0 or _bit_at(valid, get(column, f.NOT_NULL + 1) + row) == 1)


@helper
def odd_value(image: int, column: int, row: int) -> int:
    """Index of the odd value for a NULL of this row and column; -1 if there is none."""
    ranges = get(image, f.ODD)
    if ranges == 0:
        return -1
    name = get(column, f.NAME)
    size = get(column, f.NAME + 1)
    offsets = get(image, f.ODD_KEY_OFFSETS)
    for index in range(i64(ranges + 16 * row), i64(ranges + 16 * row + 8)):
        start = u32(offsets + 4 * index)
        if u32(offsets + 4 * index + 4) - start != size:
            continue
        if same_bytes(get(image, f.ODD_KEYS) + start, name, size):
            return index
    return -1


@helper
def odd_text(image: int, index: int) -> tuple[int, int]:
    """Address and size of an odd value's text."""
    offsets = get(image, f.ODD_TEXT_OFFSETS) + 4 * index
    return get(image, f.ODD_TEXTS) + u32(offsets), u32(offsets + 4) - u32(offsets)


@helper
def same_odd(before: int, after: int, old: int, new: int) -> int:
    """Whether two odd values, by their indices in two images, have the same text."""
    p, size = odd_text(before, old)
    q, other = odd_text(after, new)
    return int(size == other and same_bytes(p, q, size) == 1)


@helper
def same_value(old: int, new: int, row: int) -> int:
    """Whether a column of two images has the same bytes in a row; neither is NULL."""
    kind = get(old, f.KIND)
    p, q = get(old, f.VALUES), get(new, f.VALUES)
    if kind >= f.TEXT:
        a, b = get(old, f.VALUE_OFFSETS) + 4 * row, get(new, f.VALUE_OFFSETS) + 4 * row
        size = u32(a + 4) - u32(a)
        if size != u32(b + 4) - u32(b):
            return 0
        return same_bytes(p + u32(a), q + u32(b), size)
    if kind == f.INT8:
        return int(i8(p + row) == i8(q + row))
    if kind == f.INT16:
        return int(i16(p + 2 * row) == i16(q + 2 * row))
    if kind in (f.INT32, f.DATE, f.FLOAT):
        return int(i32(p + 4 * row) == i32(q + 4 * row))
    if kind in (f.UINT64, f.DECIMAL):
        return same_bytes(p + 16 * row, q + 16 * row, 16)
    return int(i64(p + 8 * row) == i64(q + 8 * row))  # INT64, DOUBLE_FLOAT, MOMENT, SPAN


@helper
def whole_number(column: int, row: int) -> int:
    """The value of an integer column; for an unsigned one the low 64 bits."""
    kind = get(column, f.KIND)
    p = get(column, f.VALUES)
    if kind == f.INT64:
        return i64(p + 8 * row)
    if kind == f.UINT64:
        return i64(p + 16 * row)
    if kind == f.INT32:
        return i32(p + 4 * row)
    return i8(p + row) if kind == f.INT8 else i16(p + 2 * row)


@helper
def _put_single(out: int, bits: int) -> int:
    if bits >> 23 & 0xFF == 0xFF:
        return f.BAD_NUMBER
    return put_float(out, bits, 23, -3, 16, 1)


@helper
def put_number(out: int, column: int, row: int) -> int:
    """Write a number of a kind up to DECIMAL."""
    kind = get(column, f.KIND)
    if kind <= f.INT64:
        return put_signed(out, whole_number(column, row))
    p = get(column, f.VALUES)
    if kind == f.UINT64:
        if i64(p + 16 * row + 8):
            return f.BAD_NUMBER
        return put_unsigned(out, i64(p + 16 * row))
    if kind == f.DOUBLE_FLOAT:
        bits = i64(p + 8 * row)
        if bits >> 52 & 0x7FF == 0x7FF:
            return f.BAD_NUMBER
        return put_float(out, bits, 52, -3, 16, 1)
    if kind == f.FLOAT:
        return _put_single(out, u32(p + 4 * row))
    return put_decimal128(out, p + 16 * row, get(column, f.ARGUMENT), get(column, f.UNIT))


@helper
def put_time(out: int, column: int, row: int) -> int:
    """Write a date, a moment or a span."""
    kind = get(column, f.KIND)
    p = get(column, f.VALUES)
    if kind == f.DATE:
        return put_moment(out, i32(p + 4 * row), 0, -1)
    value = i64(p + 8 * row)
    if kind == f.MOMENT:
        days = value // _DAY
        return put_moment(out, days, value - days * _DAY, get(column, f.ARGUMENT))
    return put_span(out, value, get(column, f.ARGUMENT))


@helper
def put_vector(out: int, column: int, row: int, most: int, limit: int) -> int:
    """Write the first ``most`` floats of a list, in brackets."""
    values = get(column, f.VALUES)
    offsets = get(column, f.VALUE_OFFSETS)
    first = u32(offsets + 4 * row)
    end = u32(offsets + 4 * row + 4)
    if end < first or values + 4 * end > get(column, f.VALUES_END):
        return f.CUT_SHORT
    put8(out, 0x5B)
    out += 1
    end = min(end, first + most)
    for i in range(first, end):
        if out > limit:
            return f.MORE
        out = _put_single(out, u32(values + 4 * i))
        if out <= 0:
            return out
        put8(out, 0x2C)
        out += 1
    out -= end > first
    put8(out, 0x5D)
    return out + 1


@helper
def put_words(out: int, p: int, size: int, limit: int) -> int:
    """Write a name or a heading as it is; up to seven bytes after it are read."""
    if out + size > limit:
        return f.MORE
    done = 0
    while done < size:
        put64(out + done, i64(p + done))
        done += 8
    return out + size
