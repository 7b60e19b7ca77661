"""Row images as JSON documents, one for each row, straight from the columns' Arrow buffers."""

from __future__ import annotations

from tailrace.columns.frames.text import (
    BAD_COLUMN,
    BINARY,
    COLUMN_COUNT,
    COLUMN_WORDS,
    COLUMNS,
    CUT_SHORT,
    DECIMAL,
    DECLARED_JSON,
    JSON,
    KEY,
    KIND,
    LEVELS,
    MORE,
    ODD_END,
    TEXT,
    VALUE_OFFSETS,
    VALUES,
    VALUES_END,
)
from tailrace.columns.kernels.column_value import (
    has_value,
    is_present,
    odd_text,
    odd_value,
    put_number,
    put_time,
    put_vector,
    put_words,
)
from tailrace.columns.kernels.each_row import each_row
from tailrace.columns.kernels.json_check import is_json
from tailrace.columns.kernels.json_strings import put_base64, put_raw_json, put_string
from tailrace.columns.kernels.memory import (
    get,
    helper,
    put,
    put8,
    put16,
    put32,
    u32,
)

_EVERY = 1 << 32


@helper
def _put_bytes(out: int, column: int, row: int, frame: int, limit: int) -> int:
    """Write a value of variable length: text, JSON, bytes or a vector."""
    kind = get(column, KIND)
    safe = get(column, VALUES_END)
    offsets = get(column, VALUE_OFFSETS)
    p = get(column, VALUES) + u32(offsets + 4 * row)
    stop = get(column, VALUES) + u32(offsets + 4 * row + 4)
    if kind > BINARY:
        return put_vector(out, column, row, _EVERY, limit)
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
    if kind < DECIMAL:
        return put_number(out, column, row)
    put8(out, 0x22)
    out = put_number(out + 1, column, row) if kind == DECIMAL else put_time(out + 1, column, row)
    if out > 0:
        put8(out, 0x22)
        out += 1
    return out


@helper
def _put_null(out: int, column: int, row: int, frame: int, limit: int) -> int:
    """Write ``null``, or the odd value that is stored instead of it."""
    index = odd_value(frame, column, row)
    if index < 0:
        put32(out, 0x6C6C756E)
        return out + 4
    p, size = odd_text(frame, index)
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
    """Write a row's image as a document; returns the address after it, or a code."""
    begin = out
    columns = get(frame, COLUMNS)
    for number in range(get(frame, COLUMN_COUNT)):
        column = columns + number * 8 * COLUMN_WORDS
        if is_present(frame, column, row) == 0:
            continue
        out = put_words(out, get(column, KEY), get(column, KEY + 1), limit)
        if out > 0:
            if has_value(column, row):
                out = _put_value(out, column, row, frame, limit)
            else:
                out = _put_null(out, column, row, frame, limit)
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
    """Write one row's document; returns the address after it, or a code."""
    return put_image(out, row, frame, limit)
