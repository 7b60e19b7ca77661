"""Walk the events of a block: check them, and note for each rows event how it is to be decoded.

What carries no rows is passed over here; what is rare (format descriptions, statements other than
BEGIN and COMMIT, payloads, unknown types) stops the walk for Python, which goes on behind it.
Event layouts: facts sheet sections 1 and 2.
"""

from __future__ import annotations

from typing import Final

from tailrace.columns import layout as k
from tailrace.columns.kernels.crc import crc32
from tailrace.columns.kernels.gtids import mariadb_gtid, mysql_gtid, tagged_gtid
from tailrace.columns.kernels.memory import (
    get,
    helper,
    i64,
    le24,
    le48,
    popcount,
    put,
    put64,
    u8,
    u16,
    u32,
    umulh,
)

_MULTIPLIER: Final = 0x1E3779B97F4A7C15
_DUMMY_TABLE: Final = 0xFFFFFF


@helper
def hash_bytes(p, size):
    """Mix the bytes at ``p`` into 64 bits that are never 0."""
    state = size ^ 0x243F6A8885A308D3
    end = p + size
    while end - p >= 8:
        word = i64(p) ^ state
        state = (word * _MULTIPLIER) ^ umulh(word, _MULTIPLIER)
        p += 8
    last = 0
    while p < end:
        last = (last << 8) | u8(p)
        p += 1
    word = last ^ state
    state = (word * _MULTIPLIER) ^ umulh(word, _MULTIPLIER)
    return state | 1


@helper
def _same_bytes(a, b, size):
    done = 0
    while size - done >= 8:
        if i64(a + done) != i64(b + done):
            return False
        done += 8
    while done < size:
        if u8(a + done) != u8(b + done):
            return False
        done += 1
    return True


@helper
def _known_slot(frame, body, size):
    """Slot of a table map's body (behind id and flags): its word's address, or 0 if not known."""
    mixed = hash_bytes(body, size)
    mask = get(frame, k.KNOWN_MASK)
    place = mixed & mask
    while True:
        entry = get(frame, k.KNOWN) + place * (k.KNOWN_WORDS * 8)
        stored = i64(entry + k.K_SIZE * 8)
        if stored == 0:
            return 0
        if (
            stored == size
            and i64(entry + k.K_HASH * 8) == mixed
            and _same_bytes(i64(entry + k.K_BODY * 8), body, size)
        ):
            return entry + k.K_SLOT * 8
        place = (place + 1) & mask


@helper
def _map_table(frame, table_id, slot):
    """Let ``table_id`` mean ``slot`` until the statement ends; False where the table is full."""
    mask = get(frame, k.IDS_MASK)
    generation = get(frame, k.GENERATION)
    place = (table_id * _MULTIPLIER >> 20) & mask
    for _ in range(mask + 1):
        entry = get(frame, k.IDS) + place * 24
        if i64(entry + 8) != generation or i64(entry) == table_id:
            put64(entry, table_id)
            put64(entry + 8, generation)
            put64(entry + 16, slot)
            return True
        place = (place + 1) & mask
    return False


@helper
def _slot_of(frame, table_id):
    """The slot that ``table_id`` means in this statement, or -2."""
    mask = get(frame, k.IDS_MASK)
    generation = get(frame, k.GENERATION)
    place = (table_id * _MULTIPLIER >> 20) & mask
    for _ in range(mask + 1):
        entry = get(frame, k.IDS) + place * 24
        if i64(entry + 8) != generation:
            return -2
        if i64(entry) == table_id:
            return i64(entry + 16)
        place = (place + 1) & mask
    return -2


@helper
def _length_encoded(p, end):
    """A length-encoded integer: (value, address behind it), or (-1, p) where it does not fit."""
    if p >= end:
        return -1, p
    first = u8(p)
    if first < 251:
        return first, p + 1
    if first == 0xFC and end - p >= 3:
        return u16(p + 1), p + 3
    if first == 0xFD and end - p >= 4:
        return le24(p + 1), p + 4
    if first == 0xFE and end - p >= 9 and i64(p + 1) >= 0:
        return i64(p + 1), p + 9
    return -1, p


@helper
def _full_bitmap(p, width):
    """Whether all of the ``width`` bits at ``p`` are set."""
    for index in range(width >> 3):
        if u8(p + index) != 255:
            return False
    rest = width & 7
    return rest == 0 or popcount(u8(p + (width >> 3)) & ((1 << rest) - 1)) == rest


@helper
def _empty_bitmap(p, width):
    """Whether none of the ``width`` bits at ``p`` is set; so it is where there is no bitmap."""
    if p:
        for index in range((width + 7) >> 3):
            if u8(p + index) and (index < width >> 3 or u8(p + index) & ((1 << (width & 7)) - 1)):
                return False
    return True


@helper
def _query(frame, p, body, end):
    """Pass over BEGIN and COMMIT; Python looks at every other statement."""
    if end - body < 13:
        return k.BAD_EVENT
    text = body + 13 + u16(body + 11) + u8(body + 8) + 1
    size = end - text
    if size < 0:
        return k.BAD_EVENT
    if size == 5 and u32(text) == k.BEGIN and u8(text + 4) == 78:
        if get(frame, k.HAS_GTIDS) == 0:
            put(frame, k.FIRST_ENTRY, get(frame, k.ENTRY_COUNT))
            put(frame, k.FIRST_CURSOR, p)
        return k.DONE
    if size == 6 and u32(text) == k.COMMIT and u16(text + 4) == 0x5449:
        put(frame, k.SAFE, end + get(frame, k.CHECKSUM_BYTES) + get(frame, k.BASE))
        return k.DONE
    return k.AT_EVENT


@helper
def _rows(frame, p, body, end, kind):
    """Note one rows event, any version (facts sheet 2.3)."""
    version_2 = 30 <= kind <= 32 or kind >= 169
    compressed = kind >= 166
    if end - body < (10 if version_2 else 8):
        return k.BAD_EVENT
    table_id = le48(body)
    flags = u16(body + 6)
    at = body + 8
    if version_2:
        extra = u16(at)
        if extra < 2 or end - at < extra:
            return k.BAD_EVENT
        at += extra
    width, at = _length_encoded(at, end)
    operation = (kind - 23) if kind < 30 else (kind - 30 if kind <= 32 else (kind - 166) % 3)
    images = 2 if operation == 1 else 1
    if width < 0 or (end - at) < images * ((width + 7) >> 3):
        return k.BAD_EVENT
    slot = _slot_of(frame, table_id)
    dummy = table_id == _DUMMY_TABLE and width == 0
    if slot == -2 and not dummy:
        return k.NO_TABLE_MAP
    bitmap = (width + 7) >> 3
    first, second = at, at + bitmap
    at += images * bitmap
    rows, rows_end = at, end
    if slot >= 0 and not dummy and not get(frame, k.MUTED):
        state = get(frame, k.SLOTS) + slot * (k.SLOT_WORDS * 8)
        if i64(state + k.S_COLUMNS * 8) != width:
            return k.WRONG_WIDTH
        if compressed:
            if get(frame, k.COMPRESSED_SIZE) < 0:
                put(frame, k.COMPRESSED_ROWS, rows)
                return k.AT_COMPRESSED
            rows = get(frame, k.COMPRESSED_ROWS)
            rows_end = rows + get(frame, k.COMPRESSED_SIZE)
            put(frame, k.COMPRESSED_SIZE, -1)
        seen = 1 << operation
        before = first if operation > 0 else 0
        after = (second if operation == 1 else first) if operation < 2 else 0
        if before and _full_bitmap(before, width):
            before = 0
        if after and _full_bitmap(after, width):
            after = 0
        if before or after:
            seen |= 8
            # INSERT INTO t () VALUES () with a minimal image: one row, of no columns and no bytes.
            if rows == rows_end and _empty_bitmap(before, width) and _empty_bitmap(after, width):
                operation |= k.BARE
        count = get(frame, k.ENTRY_COUNT)
        entry = get(frame, k.ENTRIES) + count * (k.ENTRY_WORDS * 8)
        put64(entry + k.E_ROWS * 8, rows)
        put64(entry + k.E_END * 8, rows_end)
        put64(entry + k.E_BEFORE * 8, before)
        put64(entry + k.E_AFTER * 8, after)
        put64(entry + k.E_OP * 8, operation)
        fixed = get(frame, k.FIXED_POSITION)
        offset = p + get(frame, k.BASE)
        put64(entry + k.E_POSITION * 8, offset if fixed < 0 else fixed)
        put64(entry + k.E_ROW * 8, 0 if fixed < 0 else offset)
        put64(entry + k.E_TRANSACTION * 8, get(frame, k.TRANSACTION_COUNT) - 1)
        put64(entry + k.E_STAMP * 8, (u32(p + 5) << 32) | u32(p))
        put64(entry + k.E_NEXT * 8, -1)
        tail = i64(state + k.S_TAIL * 8)
        if i64(state + k.S_HEAD * 8) < 0:
            put64(state + k.S_HEAD * 8, count)
        else:
            put64(get(frame, k.ENTRIES) + (tail * k.ENTRY_WORDS + k.E_NEXT) * 8, count)
        put64(state + k.S_TAIL * 8, count)
        put64(state + k.S_BYTES * 8, i64(state + k.S_BYTES * 8) + rows_end - rows)
        put64(state + k.S_SEEN * 8, i64(state + k.S_SEEN * 8) | seen)
        put(frame, k.ENTRY_COUNT, count + 1)
    elif slot == k.IGNORED:
        put(frame, k.SKIPPED_ROWS_EVENTS, get(frame, k.SKIPPED_ROWS_EVENTS) + 1)
    if flags & 1:
        put(frame, k.GENERATION, get(frame, k.GENERATION) + 1)
    return k.DONE


def plan_events(frame):
    """Walk from the cursor on; return why it stopped (see `tailrace.columns.layout`)."""
    end_of_block = get(frame, k.END)
    limit = get(frame, k.LIMIT)
    tail = get(frame, k.CHECKSUM_BYTES)
    verify = get(frame, k.VERIFY) and tail
    tables = get(frame, k.CRC_TABLES)
    p = get(frame, k.CURSOR)
    while p < limit:
        put(frame, k.CURSOR, p)
        if end_of_block - p < 19:
            return k.DONE
        size = u32(p + 9)
        if size < 19 + tail or size > 0x40000000:
            return k.BAD_LENGTH
        if end_of_block - p < size:
            return k.DONE
        if get(frame, k.ENTRY_COUNT) >= get(frame, k.ENTRY_CAPACITY) or get(
            frame, k.TRANSACTION_COUNT
        ) >= get(frame, k.TRANSACTION_CAPACITY):
            return k.FULL
        kind = u8(p + 4)
        if kind == 15:
            return k.AT_EVENT
        end = p + size - tail
        if verify and crc32(p, size - 4, tables) != u32(end):
            return k.BAD_CHECKSUM
        body = p + 19
        reason = k.DONE
        if 30 <= kind <= 32 or 23 <= kind <= 25 or 166 <= kind <= 171:
            reason = _rows(frame, p, body, end, kind)
        elif kind == 19:
            if end - body < 8:
                return k.BAD_EVENT
            place = _known_slot(frame, body + 8, end - body - 8)
            if place == 0:
                return k.AT_TABLE_MAP
            if not _map_table(frame, le48(body), i64(place)):
                return k.BAD_EVENT
        elif kind == 16:
            put(frame, k.SAFE, p + size + get(frame, k.BASE))
        elif kind == 2:
            reason = _query(frame, p, body, end)
        elif kind in (33, 34):
            put(frame, k.HAS_GTIDS, 1)
            reason = mysql_gtid(frame, p, body, end, kind == 34)
        elif kind == 42:
            reason = tagged_gtid(frame, p, body, end)
        elif kind == 162:
            reason = mariadb_gtid(frame, p, body, end)
        elif kind == 39:
            return k.AT_PARTIAL
        elif kind not in (29, 160):
            return k.AT_EVENT
        if reason != k.DONE:
            return reason
        p += size
    put(frame, k.CURSOR, p)
    return k.DONE
