"""Row images as JSON documents, one a row, straight from the columns' Arrow buffers."""

from __future__ import annotations

from tailrace.columns.kernels.decimal_text import put_decimal128
from tailrace.columns.kernels.digits import put_signed, put_unsigned
from tailrace.columns.kernels.each_row import each_row
from tailrace.columns.kernels.floats import put_float
from tailrace.columns.kernels.json_check import is_json
from tailrace.columns.kernels.json_strings import put_base64, put_raw_json, put_string
from tailrace.columns.kernels.memory import (
    get,
    helper,
    i8,
    i16,
    i32,
    i64,
    put,
    put8,
    put16,
    put32,
    put64,
    u8,
    u32,
)
from tailrace.columns.kernels.temporal_text import put_moment, put_span
from tailrace.columns.text_frames import (
    ARGUMENT,
    BAD_COLUMN,
    BAD_NUMBER,
    BINARY,
    COLUMN_COUNT,
    COLUMN_WORDS,
    COLUMNS,
    CUT_SHORT,
    DATE,
    DECIMAL,
    DECLARED_JSON,
    DOUBLE_FLOAT,
    FLOAT,
    INDEX,
    INT8,
    INT32,
    INT64,
    JSON,
    KEY,
    KIND,
    LEVELS,
    MOMENT,
    MORE,
    NAME,
    NOT_NULL,
    NULL,
    ODD,
    ODD_END,
    ODD_KEY_OFFSETS,
    ODD_KEYS,
    ODD_TEXT_OFFSETS,
    ODD_TEXTS,
    PRESENT,
    TEXT,
    UINT64,
    UNIT,
    VALUE_OFFSETS,
    VALUES,
    VALUES_END,
)


@helper
def bit_at(bitmap: int, index: int) -> int:
    return u8(bitmap + (index >> 3)) >> (index & 7) & 1


@helper
def _put_vector(out: int, column: int, row: int, limit: int) -> int:
    """Write a list of floats."""
    values = get(column, VALUES)
    offsets = get(column, VALUE_OFFSETS)
    first = u32(offsets + 4 * row)
    end = u32(offsets + 4 * row + 4)
    if end < first or values + 4 * end > get(column, VALUES_END):
        return CUT_SHORT
    put8(out, 0x5B)
    out += 1
    for i in range(first, end):
        if out > limit:
            return MORE
        bits = u32(values + 4 * i)
        if bits >> 23 & 0xFF == 0xFF:
            return BAD_NUMBER
        out = put_float(out, bits, 23, -3, 16, 1)
        put8(out, 0x2C)
        out += 1
    out -= end > first
    put8(out, 0x5D)
    return out + 1


@helper
def _put_bytes(out: int, column: int, row: int, frame: int, limit: int) -> int:
    """Write a value of variable length: text, JSON, bytes or a vector."""
    kind = get(column, KIND)
    safe = get(column, VALUES_END)
    offsets = get(column, VALUE_OFFSETS)
    p = get(column, VALUES) + u32(offsets + 4 * row)
    stop = get(column, VALUES) + u32(offsets + 4 * row + 4)
    if kind > BINARY:
        return _put_vector(out, column, row, limit)
    if stop < p or stop > safe:
        return CUT_SHORT
    if kind == BINARY:
        put8(out, 0x22)
        out = put_base64(out + 1, p, stop - p, 0, limit)
        if out > 0:
            put8(out, 0x22)
            out += 1
        return out
    if kind == JSON or (kind == DECLARED_JSON and is_json(p, stop, get(frame, LEVELS))):
        return put_raw_json(out, p, stop - p, safe, limit)
    return put_string(out, p, stop - p, safe, limit)


@helper
def _put_value(out: int, column: int, row: int, frame: int, limit: int) -> int:
    """Write a value that is not NULL."""
    kind = get(column, KIND)
    if kind >= TEXT:
        return _put_bytes(out, column, row, frame, limit)
    p = get(column, VALUES)
    if kind <= INT64:
        if kind == INT32:
            value = i32(p + 4 * row)
        elif kind == INT64:
            value = i64(p + 8 * row)
        else:
            value = i8(p + row) if kind == INT8 else i16(p + 2 * row)
        return put_signed(out, value)
    if kind == UINT64:
        if i64(p + 16 * row + 8):
            return BAD_NUMBER
        return put_unsigned(out, i64(p + 16 * row))
    if kind == DOUBLE_FLOAT:
        bits = i64(p + 8 * row)
        if bits >> 52 & 0x7FF == 0x7FF:
            return BAD_NUMBER
        return put_float(out, bits, 52, -3, 16, 1)
    if kind == FLOAT:
        bits = u32(p + 4 * row)
        if bits >> 23 & 0xFF == 0xFF:
            return BAD_NUMBER
        return put_float(out, bits, 23, -3, 16, 1)
    put8(out, 0x22)
    out += 1
    argument = get(column, ARGUMENT)
    if kind == DECIMAL:
        out = put_decimal128(out, p + 16 * row, argument, get(column, UNIT))
    elif kind == DATE:
        out = put_moment(out, i32(p + 4 * row), 0, -1)
    elif kind == MOMENT:
        value = i64(p + 8 * row)
        days = value // 86400000000
        out = put_moment(out, days, value - days * 86400000000, argument)
    else:
        out = put_span(out, i64(p + 8 * row), argument)
    if out > 0:
        put8(out, 0x22)
        out += 1
    return out


@helper
def odd_value(frame: int, column: int, row: int) -> int:
    """Index of the odd value that stands for a NULL of this row and column; -1 if none does."""
    ranges = get(frame, ODD)
    if ranges == 0:
        return -1
    name = get(column, NAME)
    size = get(column, NAME + 1)
    offsets = get(frame, ODD_KEY_OFFSETS)
    for index in range(i64(ranges + 16 * row), i64(ranges + 16 * row + 8)):
        key = get(frame, ODD_KEYS) + u32(offsets + 4 * index)
        if u32(offsets + 4 * index + 4) - u32(offsets + 4 * index) == size:
            same = 0
            while same < size and u8(key + same) == u8(name + same):
                same += 1
            if same == size:
                return index
    return -1


@helper
def _put_null(out: int, column: int, row: int, frame: int, limit: int) -> int:
    """Write ``null``, or the odd value that it stands for."""
    index = odd_value(frame, column, row)
    if index < 0:
        put32(out, 0x6C6C756E)
        return out + 4
    offsets = get(frame, ODD_TEXT_OFFSETS)
    p = get(frame, ODD_TEXTS) + u32(offsets + 4 * index)
    size = u32(offsets + 4 * index + 4) - u32(offsets + 4 * index)
    kind = get(column, KIND)
    if kind == DECLARED_JSON:
        return put_raw_json(out, p, size, get(frame, ODD_END), limit)
    if kind != TEXT:
        return put_string(out, p, size, get(frame, ODD_END), limit)
    put8(out, 0x22)  # `_raw` has the inside of a JSON string
    out = put_raw_json(out + 1, p, size, get(frame, ODD_END), limit)
    if out > 0:
        put8(out, 0x22)
        out += 1
    return out


@helper
def put_image(out: int, row: int, frame: int, limit: int) -> int:
    """Write a row's image as a document; the address behind it, or a code."""
    begin = out
    present = get(frame, PRESENT)
    bitmap = 0
    size = -1
    if present:
        bitmap = i64(present + 16 * row)
        size = i64(present + 16 * row + 8)
    columns = get(frame, COLUMNS)
    for number in range(get(frame, COLUMN_COUNT)):
        column = columns + number * 8 * COLUMN_WORDS
        index = get(column, INDEX)
        if size >= 0 and (index >= 8 * size or bit_at(bitmap, index) == 0):
            continue
        key = get(column, KEY)
        key_size = get(column, KEY + 1)
        if out + key_size > limit:
            return MORE
        done = 0
        while done < key_size:
            put64(out + done, i64(key + done))
            done += 8
        out += key_size
        valid = get(column, NOT_NULL)
        if get(column, KIND) == NULL or (
            valid and bit_at(valid, get(column, NOT_NULL + 1) + row) == 0
        ):
            out = _put_null(out, column, row, frame, limit)
        else:
            out = _put_value(out, column, row, frame, limit)
        if out <= 0:
            put(frame, BAD_COLUMN, number)
            return out
    if out > limit:
        return MORE
    if out == begin:
        put16(out, 0x7D7B)
        return out + 2
    put8(begin, 0x7B)
    put8(out, 0x7D)
    return out + 1


@each_row
def row_json(out: int, row: int, frame: int, limit: int) -> int:
    """Write one row's document; the address behind it, or a code."""
    return put_image(out, row, frame, limit)
