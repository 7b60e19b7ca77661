"""Change records as lines of JSON, one for each row, straight from a batch's Arrow buffers."""

from __future__ import annotations

from tailrace.columns.frames.text import (
    MORE,
    OUT,
    R_BESIDE,
    R_FILE,
    R_GTID,
    R_GTID_VALID,
    R_GTIDS,
    R_HEADS,
    R_IMAGES,
    R_LAST,
    R_OP,
    R_POSITION,
    R_SEQUENCE,
    R_SERVER,
    R_STAMP,
)
from tailrace.columns.kernels.decimal_text import put_decimal128
from tailrace.columns.kernels.digits import put_signed
from tailrace.columns.kernels.each_row import each_row
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
from tailrace.columns.kernels.row_json import put_image


@helper
def _put_text(out: int, p: int, size: int, limit: int) -> int:
    """Write bytes as they are; up to 31 bytes after them are read."""
    if out + size > limit:
        return MORE
    move(out, p, size)
    return out + size


@helper
def _put_gtid(out: int, row: int, frame: int) -> int:
    """Write a row's GTID in quotes, or null."""
    valid = get(frame, R_GTID_VALID)
    if valid and u8(valid + (row >> 3)) >> (row & 7) & 1 == 0:
        put32(out, 0x6C6C756E)
        return out + 4
    offsets = get(frame, R_GTIDS + 1) + 4 * u32(get(frame, R_GTID) + 4 * row)
    first = u32(offsets)
    size = u32(offsets + 4) - first
    put8(out, 0x22)
    move(out + 1, get(frame, R_GTIDS) + first, size)
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
    head = get(frame, R_HEADS) + 16 * u8(get(frame, R_OP) + row)
    out = _put_text(out, i64(head), i64(head + 8), limit)
    if out <= 0:
        return out
    out = put_signed(out, i64(get(frame, R_STAMP) + 8 * row))
    put64(out, 0x646974675F222C)  # ,"_gtid
    put16(out + 7, 0x3A22)
    out = _put_gtid(out + 9, row, frame)
    out = _put_text(out, get(frame, R_FILE), get(frame, R_FILE + 1), limit)
    if out <= 0:
        return out
    out = put_signed(out, i64(get(frame, R_POSITION) + 8 * row))
    put64(out, 0x227165735F222C)  # ,"_seq"
    put16(out + 7, 0x223A)
    out = put_decimal128(out + 9, get(frame, R_SEQUENCE) + 16 * row, 0, 1)
    if out <= 0:
        return out
    sequence_end = out
    put64(out, 0x65735F222C22)  # ","_se
    put64(out + 6, 0x695F72657672)  # rver_i
    put32(out + 12, 0x3A2264)  # d":
    out = put_signed(out + 15, i64(get(frame, R_SERVER) + 8 * row))
    put8(out, 0x2C)
    put(frame, R_LAST, row)
    put(frame, R_LAST + 1, begin - get(frame, OUT))
    put(frame, R_LAST + 2, out + 1 - begin)
    put(frame, R_LAST + 3, sequence_end - begin)
    return out + 1


@helper
def _follows(row: int, frame: int) -> int:
    """Whether a row follows the previous row in the same event, changed in the same way."""
    if row == 0 or get(frame, R_LAST) != row - 1:
        return 0
    sequence = get(frame, R_SEQUENCE) + 16 * row
    return (
        i64(sequence) == i64(sequence - 16) + 1
        and i64(sequence) & 0xFFFFFFFFFFFF != 0
        and i64(sequence + 8) == i64(sequence - 8)
        and u8(get(frame, R_OP) + row) == u8(get(frame, R_OP) + row - 1)
    )


@helper
def _put_next_head(out: int, row: int, frame: int, limit: int) -> int:
    """Write the head of the previous record with the next number as ``_seq``."""
    size = get(frame, R_LAST + 2)
    digit = get(frame, R_LAST + 3) - 1
    if out + size > limit:
        return MORE
    move(out, get(frame, OUT) + get(frame, R_LAST + 1), size)
    while u8(out + digit) == 0x39:
        put8(out + digit, 0x30)
        digit -= 1
    if u8(out + digit) == 0x22:  # all were nines: the number gets one more digit
        return _put_head(out, row, frame, limit)
    put8(out + digit, u8(out + digit) + 1)
    put(frame, R_LAST, row)
    put(frame, R_LAST + 1, out - get(frame, OUT))
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
    offsets = get(frame, R_BESIDE + 1)
    if offsets:
        first = u32(offsets + 4 * row)
        out = _put_text(
            out, get(frame, R_BESIDE) + first, u32(offsets + 4 * row + 4) - first, limit
        )
        if out <= 0:
            return out
    put64(out, 0x65726F66656222)  # "before
    put16(out + 7, 0x3A22)
    out = _put_one(out + 9, row, frame, R_IMAGES, limit)
    if out <= 0:
        return out
    if out > limit:
        return MORE
    put64(out, 0x7265746661222C)  # ,"after
    put16(out + 7, 0x3A22)
    out = _put_one(out + 9, row, frame, R_IMAGES + 3, limit)
    if out <= 0:
        return out
    put16(out, 0x0A7D)
    return out + 2
