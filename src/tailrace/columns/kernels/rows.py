"""Decode the rows of one table straight into the buffers of Arrow arrays, in one pass.

One pass over each row decodes all columns. How a column is decoded is data (its kind), so that one
machine code serves all tables. Every length is checked against the event's end before it is used. A
fixed-size value may be read up to 40 bytes past the end (buffers are padded); the check at the next
column or at the row's end then rejects it.
"""

from __future__ import annotations

from typing import Final

from tailrace.columns.frames import plan as k
from tailrace.columns.kernels.gtids import gtid_text
from tailrace.columns.kernels.image import clear_bit, decode_image, no_image
from tailrace.columns.kernels.memory import (
    get,
    helper,
    prefetch,
    put,
    put8,
    put32,
    put64,
    u8,
    u32,
)

_LINE: Final = 64
"""Bytes of a cache line."""
_FETCHED: Final = 1024
"""The most bytes of an event's rows that are fetched ahead: the processor expects what follows."""


@helper
def _gtid(frame, number, transaction):
    """Index of a transaction's GTID in the batch; -1 if it has none, -2 if there is no room."""
    if get(transaction, k.T_KIND) == k.NO_GTID:
        return -1
    count = get(frame, k.D_GTID_COUNT)
    if get(frame, k.D_GTID_LAST) != number:
        if count >= get(frame, k.D_GTID_CAPACITY):
            return -2
        offsets = get(frame, k.D_GTID_OFFSETS) + count * 4
        texts = get(frame, k.D_GTIDS)
        put32(offsets + 4, gtid_text(transaction, texts + u32(offsets)) - texts)
        count += 1
        put(frame, k.D_GTID_COUNT, count)
        put(frame, k.D_GTID_LAST, number)
    return count - 1


@helper
def _presence(target, row, count, bitmap, image):
    """Write which columns an image has: all if ``bitmap`` is 0, none without an image."""
    size = (count + 7) >> 3
    for index in range(size):
        byte = 0
        if image:
            byte = u8(bitmap + index) if bitmap else 255
        put8(target + row * size + index, byte)


@helper
def _set_kinds(frame, bits, before):
    """Set how JSON columns that are read from an after image are decoded.

    ``bits`` is the address of a bit for each JSON column, set if it is logged as diffs; 0 if none
    is. ``before`` is the bitmap of the columns that the before image has; 0 if it has all.
    """
    for number in range(get(frame, k.D_JSON_COUNT)):
        index = get(get(frame, k.D_JSON), number)
        column = get(frame, k.D_AFTER) + index * (k.COLUMN_WORDS * 8)
        if get(column, k.C_KIND) not in (k.STRING, k.JSON_DIFFS, k.ORPHAN_DIFFS):
            continue
        kind = k.STRING
        if bits and (u8(bits + (number >> 3)) >> (number & 7)) & 1:
            kind = k.JSON_DIFFS
            if before and (u8(before + (index >> 3)) >> (index & 7)) & 1 == 0:
                kind = k.ORPHAN_DIFFS
        put(column, k.C_KIND, kind)


@helper
def _row_with_diffs(frame, entry, start, p, row):
    """Decode the after image of a row of PARTIAL_UPDATE_ROWS; the row begins at ``start``.

    Before the image stand options and, if they say so, a bit for each JSON column.
    """
    end = get(entry, k.E_END)
    after = get(frame, k.D_AFTER)
    bits = 0
    options = p
    if get(entry, k.E_OP) & k.BARE == 0:
        if p >= end or u8(p) > 1:
            return k.BAD_OPTIONS
        bits = p + 1 if u8(p) else 0
        p += 1
        if bits:
            p += (get(frame, k.D_JSON_COUNT) + 7) >> 3
        if p > end:
            return k.ROW_TOO_LONG
    image = p
    if bits:
        _set_kinds(frame, bits, get(entry, k.E_BEFORE))
    p = decode_image(frame, after, get(frame, k.D_COLUMNS), p, end, row, get(entry, k.E_AFTER), 1)
    if bits:
        _set_kinds(frame, 0, 0)
    if p == image and options == start and options < image:
        return k.ROW_TOO_LONG  # bytes of rows that have no columns
    return p


@helper
def _row(frame, entry, p, row):
    """Decode the row at ``p``: returns the address after it, or a reason to stop."""
    count = get(frame, k.D_COLUMNS)
    operation = get(entry, k.E_OP) & 3
    end = get(entry, k.E_END)
    before, after = get(frame, k.D_BEFORE), get(frame, k.D_AFTER)
    start = p
    if operation > 0:
        p = decode_image(frame, before, count, p, end, row, get(entry, k.E_BEFORE), 0)
        if p < 0:
            return p
    elif before:
        clear_bit(get(frame, k.D_BEFORE_VALID), row)
        no_image(before, count, row)
    if get(entry, k.E_OP) & k.DIFFS:
        p = _row_with_diffs(frame, entry, start, p, row)
        if p < 0:
            return p
    elif operation < 2:
        p = decode_image(frame, after, count, p, end, row, get(entry, k.E_AFTER), 1)
        if p < 0:
            return p
    elif after:
        clear_bit(get(frame, k.D_AFTER_VALID), row)
        no_image(after, count, row)
    if get(frame, k.D_BEFORE_PRESENT):
        _presence(get(frame, k.D_BEFORE_PRESENT), row, count, get(entry, k.E_BEFORE), operation > 0)
        _presence(get(frame, k.D_AFTER_PRESENT), row, count, get(entry, k.E_AFTER), operation < 2)
        if get(entry, k.E_BEFORE) == 0 and get(entry, k.E_AFTER) == 0:
            clear_bit(get(frame, k.D_PARTIAL_VALID), row)
    return p


@helper
def _stop(frame, index, p, number, row, reason):
    """Note where to resume, and why it stopped."""
    put(frame, k.D_ENTRY, index)
    put(frame, k.D_ROW, p)
    put(frame, k.D_NUMBER, number)
    put(frame, k.D_ROWS, row)
    return reason


@helper
def _left(frame):
    """The bytes of rows from the frame's current row on."""
    index = get(frame, k.D_ENTRY)
    p = get(frame, k.D_ROW)
    left = 0
    while index >= 0:
        entry = get(frame, k.D_ENTRIES) + index * (k.ENTRY_WORDS * 8)
        left += get(entry, k.E_END) - (p or get(entry, k.E_ROWS))
        p = 0
        index = get(entry, k.E_NEXT)
    return left


def decode_rows(frame):
    """Decode from the frame's current row until the batch is full or all entries are done."""
    reason = _decode_rows(frame)
    put(frame, k.D_LEFT, _left(frame) if reason == k.BATCH_FULL else 0)
    return reason


@helper
def _fetch(frame, index, next_index):
    """Fetch the rows of an entry into the cache, and the entry ``next_index`` after it.

    A table's rows are spread over the log, so that the processor does not expect them.
    """
    if index >= 0:
        entry = get(frame, k.D_ENTRIES) + index * (k.ENTRY_WORDS * 8)
        at = get(entry, k.E_ROWS)
        end = min(get(entry, k.E_END), at + _FETCHED)
        while at < end:
            prefetch(at)
            at += _LINE
    if next_index >= 0:
        prefetch(get(frame, k.D_ENTRIES) + next_index * (k.ENTRY_WORDS * 8))


@helper
def _next(frame, index):
    if index < 0:
        return index
    return get(get(frame, k.D_ENTRIES) + index * (k.ENTRY_WORDS * 8), k.E_NEXT)


@helper
def _decode_rows(frame):
    index = get(frame, k.D_ENTRY)
    ahead = _next(frame, index)
    further = _next(frame, ahead)
    row = get(frame, k.D_ROWS)
    capacity = get(frame, k.D_CAPACITY)
    while index >= 0:
        entry = get(frame, k.D_ENTRIES) + index * (k.ENTRY_WORDS * 8)
        p = get(frame, k.D_ROW)
        number = get(frame, k.D_NUMBER)
        if p == 0:
            p = get(entry, k.E_ROWS)
            number = get(entry, k.E_ROW)
        which = get(entry, k.E_TRANSACTION)
        transaction = get(frame, k.D_TRANSACTIONS) + which * (k.TRANSACTION_WORDS * 8)
        position = get(entry, k.E_POSITION)
        stamp = get(transaction, k.T_STAMP)
        if stamp < 0:
            stamp = (get(entry, k.E_STAMP) & 0xFFFFFFFF) * 1_000_000
        server = (get(entry, k.E_STAMP) >> 32) & 0xFFFFFFFF
        _fetch(frame, further, _next(frame, further))
        further = _next(frame, further)
        high = (get(frame, k.D_FILE_NUMBER) << 28) | (position >> 16)
        low = (position & 0xFFFF) << 48
        operation = get(entry, k.E_OP) & 3
        end = get(entry, k.E_END)
        bare = get(entry, k.E_OP) & k.BARE
        gtid = _gtid(frame, which, transaction)
        while p < end or bare:
            if row >= capacity or gtid == -2:
                return _stop(frame, index, p, number, row, k.BATCH_FULL)
            odd = get(frame, k.D_ODD_COUNT)
            behind = _row(frame, entry, p, row)
            if behind < 0:
                put(frame, k.D_ODD_COUNT, odd)
                return _stop(frame, index, p, number, row, behind)
            if behind == p and not bare:
                return _stop(frame, index, p, number, row, k.ROW_TOO_LONG)
            p = behind
            bare = 0
            if gtid < 0:
                clear_bit(get(frame, k.D_GTID_NULL), row)
            put32(get(frame, k.D_GTID) + row * 4, max(gtid, 0))
            put8(get(frame, k.D_OP) + row, operation)
            put64(get(frame, k.D_STAMP) + row * 8, stamp)
            put64(get(frame, k.D_POSITION) + row * 8, position)
            put64(get(frame, k.D_SEQUENCE) + row * 16, low | number)
            put64(get(frame, k.D_SEQUENCE) + row * 16 + 8, high)
            put64(get(frame, k.D_SERVER) + row * 8, server)
            row += 1
            number += 1
        index = get(entry, k.E_NEXT)
        put(frame, k.D_ENTRY, index)
        put(frame, k.D_ROW, 0)
        put(frame, k.D_ROWS, row)
    return k.ALL_DECODED
