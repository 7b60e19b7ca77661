"""Row images as JSON documents, and change records as lines of JSON, from Arrow's buffers."""

from __future__ import annotations

from tailrace.columns.frames import text as f
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
from tailrace.columns.kernels.memory import (
    get,
    helper,
    i64,
    move,
    put,
    put8,
    put16,
    put32,
    put64,
    u8,
    u32,
)
from tailrace.columns.kernels.number_text import put_decimal128, put_signed
from tailrace.columns.kernels.strings import put_base64, put_raw_json, put_string

_EVERY = 1 << 32


@helper
def _put_bytes(out: int, column: int, row: int, frame: int, limit: int) -> int:
    """Write a value of variable length: text, JSON, bytes or a vector."""
    kind = get(column, f.KIND)
    safe = get(column, f.VALUES_END)
    offsets = get(column, f.VALUE_OFFSETS)
    p = get(column, f.VALUES) + u32(offsets + 4 * row)
    stop = get(column, f.VALUES) + u32(offsets + 4 * row + 4)
    if kind > f.BINARY:
        return put_vector(out, column, row, _EVERY, limit)
    if stop < p or stop > safe:
        return f.CUT_SHORT
    if kind == f.BINARY:
        put8(out, 0x22)
        out = put_base64(out + 1, p, stop - p, 0, limit)
        if out > 0:
            put8(out, 0x22)
            out += 1
        return out
    if kind == f.JSON or (kind == f.DECLARED_JSON and is_json(p, stop, get(frame, f.LEVELS))):
        return put_raw_json(out, p, stop - p, safe, limit)
    return put_string(out, p, stop - p, safe, limit)


@helper
def _put_value(out: int, column: int, row: int, frame: int, limit: int) -> int:
    """Write a value that is not NULL."""
    kind = get(column, f.KIND)
    if kind >= f.TEXT:
        return _put_bytes(out, column, row, frame, limit)
    if kind < f.DECIMAL:
        return put_number(out, column, row)
    put8(out, 0x22)
    out = put_number(out + 1, column, row) if kind == f.DECIMAL else put_time(out + 1, column, row)
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
    kind = get(column, f.KIND)
    if kind == f.DECLARED_JSON:
        return put_raw_json(out, p, size, get(frame, f.ODD_END), limit)
    if kind != f.TEXT:
        return put_string(out, p, size, get(frame, f.ODD_END), limit)
    put8(out, 0x22)  # `_raw` has the inside of a JSON string
    out = put_raw_json(out + 1, p, size, get(frame, f.ODD_END), limit)
    if out > 0:
        put8(out, 0x22)
        out += 1
    return out


@helper
def put_image(out: int, row: int, frame: int, limit: int) -> int:
    """Write a row's image as a document; returns the address after it, or a code."""
    begin = out
    columns = get(frame, f.COLUMNS)
    for number in range(get(frame, f.COLUMN_COUNT)):
        column = columns + number * 8 * f.COLUMN_WORDS
        if is_present(frame, column, row) == 0:
            continue
        out = put_words(out, get(column, f.KEY), get(column, f.KEY + 1), limit)
        if out > 0:
            if has_value(column, row):
                out = _put_value(out, column, row, frame, limit)
            else:
                out = _put_null(out, column, row, frame, limit)
        if out <= 0:
            put(frame, f.BAD_COLUMN, number)
            return out
    if out > limit:
        return f.MORE
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


@helper
def _put_text(out: int, p: int, size: int, limit: int) -> int:
    """Write bytes as they are; up to 31 bytes after them are read."""
    if out + size > limit:
        return f.MORE
    move(out, p, size)
    return out + size


@helper
def _put_gtid(out: int, row: int, frame: int) -> int:
    """Write a row's GTID in quotes, or null."""
    valid = get(frame, f.R_GTID_VALID)
    if valid and u8(valid + (row >> 3)) >> (row & 7) & 1 == 0:
        put32(out, 0x6C6C756E)
        return out + 4
    offsets = get(frame, f.R_GTIDS + 1) + 4 * u32(get(frame, f.R_GTID) + 4 * row)
    first = u32(offsets)
    size = u32(offsets + 4) - first
    put8(out, 0x22)
    move(out + 1, get(frame, f.R_GTIDS) + first, size)
    put8(out + 1 + size, 0x22)
    return out + size + 2


@helper
def _put_one(out: int, row: int, frame: int, word: int, limit: int) -> int:
    """Write an image, or null."""
    image = get(frame, word)
    valid = get(frame, word + 1)
    bit = get(frame, word + 2) + row
    if image == 0 or (valid and u8(valid + (bit >> 3)) >> (bit & 7) & 1 == 0):
        put32(out, 0x6C6C756E)
        return out + 4
    return put_image(out, row, image, limit)


@helper
def _put_head(out: int, row: int, frame: int, limit: int) -> int:
    """Write the start of a record, up to the text before the images."""
    begin = out
    head = get(frame, f.R_HEADS) + 16 * u8(get(frame, f.R_OP) + row)
    out = _put_text(out, i64(head), i64(head + 8), limit)
    if out <= 0:
        return out
    out = put_signed(out, i64(get(frame, f.R_STAMP) + 8 * row))
    put64(out, 0x646974675F222C)  # ,"_gtid
    put16(out + 7, 0x3A22)
    out = _put_gtid(out + 9, row, frame)
    out = _put_text(out, get(frame, f.R_FILE), get(frame, f.R_FILE + 1), limit)
    if out <= 0:
        return out
    out = put_signed(out, i64(get(frame, f.R_POSITION) + 8 * row))
    put64(out, 0x227165735F222C)  # ,"_seq"
    put16(out + 7, 0x223A)
    out = put_decimal128(out + 9, get(frame, f.R_SEQUENCE) + 16 * row, 0, 1)
    if out <= 0:
        return out
    sequence_end = out
    put64(out, 0x65735F222C22)  # ","_se
    put64(out + 6, 0x695F72657672)  # rver_i
    put32(out + 12, 0x3A2264)  # d":
    out = put_signed(out + 15, i64(get(frame, f.R_SERVER) + 8 * row))
    put8(out, 0x2C)
    put(frame, f.R_LAST, row)
    put(frame, f.R_LAST + 1, begin - get(frame, f.OUT))
    put(frame, f.R_LAST + 2, out + 1 - begin)
    put(frame, f.R_LAST + 3, sequence_end - begin)
    return out + 1


@helper
def _follows(row: int, frame: int) -> int:
    """Whether a row follows the previous row in the same event, changed in the same way."""
    if row == 0 or get(frame, f.R_LAST) != row - 1:
        return 0
    sequence = get(frame, f.R_SEQUENCE) + 16 * row
    return (
        i64(sequence) == i64(sequence - 16) + 1
        and i64(sequence) & 0xFFFFFFFFFFFF != 0
        and i64(sequence + 8) == i64(sequence - 8)
        and u8(get(frame, f.R_OP) + row) == u8(get(frame, f.R_OP) + row - 1)
    )


@helper
def _put_next_head(out: int, row: int, frame: int, limit: int) -> int:
    """Write the head of the previous record with the next number as ``_seq``."""
    size = get(frame, f.R_LAST + 2)
    digit = get(frame, f.R_LAST + 3) - 1
    if out + size > limit:
        return f.MORE
    move(out, get(frame, f.OUT) + get(frame, f.R_LAST + 1), size)
    while u8(out + digit) == 0x39:
        put8(out + digit, 0x30)
        digit -= 1
    if u8(out + digit) == 0x22:  # all were nines: the number gets one more digit
        return _put_head(out, row, frame, limit)
    put8(out + digit, u8(out + digit) + 1)
    put(frame, f.R_LAST, row)
    put(frame, f.R_LAST + 1, out - get(frame, f.OUT))
    return out + size


@each_row
def record_json(out: int, row: int, frame: int, limit: int) -> int:
    """Write one row's record and the line's end; returns the address after it, or a code."""
    if _follows(row, frame):
        out = _put_next_head(out, row, frame, limit)
    else:
        out = _put_head(out, row, frame, limit)
    if out <= 0:
        return out
    offsets = get(frame, f.R_BESIDE + 1)
    if offsets:
        first = u32(offsets + 4 * row)
        out = _put_text(
            out, get(frame, f.R_BESIDE) + first, u32(offsets + 4 * row + 4) - first, limit
        )
        if out <= 0:
            return out
    put64(out, 0x65726F66656222)  # "before
    put16(out + 7, 0x3A22)
    out = _put_one(out + 9, row, frame, f.R_IMAGES, limit)
    if out <= 0:
        return out
    if out > limit:
        return f.MORE
    put64(out, 0x7265746661222C)  # ,"after
    put16(out + 7, 0x3A22)
    out = _put_one(out + 9, row, frame, f.R_IMAGES + 3, limit)
    if out <= 0:
        return out
    put16(out, 0x0A7D)
    return out + 2
