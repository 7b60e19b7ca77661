"""Walk the events of a block: check them, and note for each rows event how it is to be decoded.

Events without rows are skipped here. Rare events (format descriptions, statements other than
BEGIN and COMMIT, payloads, unknown types) stop the walk for Python, which continues after them.
Event layouts: facts sheet sections 1 and 2.
"""

from __future__ import annotations

from typing import Final

from tailrace.columns.frames import event_codes as e
from tailrace.columns.frames import plan as k
from tailrace.columns.kernels.crc import crc32
from tailrace.columns.kernels.event_types import is_rows, operation_of
from tailrace.columns.kernels.gtids import (
    mariadb_gtid,
    mysql_gtid,
    no_transaction,
    tagged_gtid,
)
from tailrace.columns.kernels.memory import (
    get,
    helper,
    i64,
    le48,
    length_encoded,
    popcount,
    put,
    put64,
    u8,
    u16,
    u32,
    umulh,
)
from tailrace.columns.kernels.statements import begin_or_commit, rolls_back_to, sets_savepoint

_MULTIPLIER: Final = 0x1E3779B97F4A7C15
_DUMMY_TABLE: Final = 0xFFFFFF
_HIGH_BITS: Final = -0x7F7F7F7F7F7F7F80
_STATUS_SIZES: Final = 0x0030_0482_2006_4084
"""Bytes of the status variables 0 to 15, four bits each; 0 for those that Python reads."""
_LATER_STATUS_SIZES: Final = 0x11_1281
"""The same for 16 to 21."""


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
def _same_words(a, b, size):
    """Like `_same_bytes`, without its loop over the last bytes; the 8 before them are readable."""
    last = size - 8
    different = i64(a + last) ^ i64(b + last)
    done = 0
    while done < last:
        different |= i64(a + done) ^ i64(b + done)
        done += 8
    return different == 0


@helper
def _known(frame, body, size):
    """The entry of KNOWN with a table map's body (after id and flags), or 0."""
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
            return entry
        place = (place + 1) & mask


@helper
def _map_table(frame, table_id, body, size):
    """Let ``table_id`` mean the slot of this body until the statement ends: DONE, AT_TABLE_MAP if
    the body is not known, DOUBT if the table of ids is full.

    A table mostly keeps its id, so that the body that the id had last is compared first.
    """
    mask = get(frame, k.IDS_MASK)
    generation = get(frame, k.GENERATION)
    place = (table_id * _MULTIPLIER >> 20) & mask
    for _ in range(mask + 1):
        entry = get(frame, k.IDS) + place * (k.ID_WORDS * 8)
        same = get(entry, k.I_ID) == table_id
        if same or get(entry, k.I_GENERATION) != generation:
            known = get(entry, k.I_KNOWN)
            if not (
                same
                and known
                and size >= 8
                and get(known, k.K_SIZE) == size
                and _same_words(get(known, k.K_BODY), body, size)
            ):
                known = _known(frame, body, size)
                if known == 0:
                    return k.AT_TABLE_MAP
            put(entry, k.I_ID, table_id)
            put(entry, k.I_GENERATION, generation)
            put(entry, k.I_SLOT, get(known, k.K_SLOT))
            put(entry, k.I_KNOWN, known)
            put(frame, k.MAPPED, generation)
            return k.DONE
        place = (place + 1) & mask
    return k.DOUBT


@helper
def _slot_of(frame, table_id):
    """The slot of ``table_id`` in this statement, or NO_SLOT."""
    mask = get(frame, k.IDS_MASK)
    generation = get(frame, k.GENERATION)
    place = (table_id * _MULTIPLIER >> 20) & mask
    for _ in range(mask + 1):
        entry = get(frame, k.IDS) + place * (k.ID_WORDS * 8)
        if get(entry, k.I_GENERATION) != generation:
            return k.NO_SLOT
        if get(entry, k.I_ID) == table_id:
            return get(entry, k.I_SLOT)
        place = (place + 1) & mask
    return k.NO_SLOT


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
    """Whether none of the ``width`` bits at ``p`` is set; true as well if there is no bitmap."""
    if p:
        for index in range((width + 7) >> 3):
            if u8(p + index) and (index < width >> 3 or u8(p + index) & ((1 << (width & 7)) - 1)):
                return False
    return True


@helper
def _ascii(p, size):
    """Whether all of the bytes are below 128; up to 7 bytes after them are read."""
    while size >= 8:
        if i64(p) & _HIGH_BITS:
            return False
        p += 8
        size -= 8
    return size == 0 or (i64(p) << (8 * (8 - size))) & _HIGH_BITS == 0


@helper
def _sound_status(p, end):
    """Whether status variables are sound for certain: known ones, whole, names in ASCII."""
    while p < end:
        code = u8(p)
        p += 1
        if code in (5, 6):  # names
            size = u8(p)
            if size >= end - p or not _ascii(p + 1, size):
                return False
            p += 1 + size
            continue
        if code < 16:
            size = (_STATUS_SIZES >> (4 * code)) & 15
        elif code < 22:
            size = (_LATER_STATUS_SIZES >> (4 * (code - 16))) & 15
        else:
            size = 3 if code == 128 else (8 if code == 129 else 0)
        if size == 0:
            return False
        p += size
    return p == end


@helper
def _step(frame, p, size, token):
    """Take the grammar's step with an event of ``size`` bytes; DOUBT if there is none."""
    now = get(frame, k.STATE)
    state = now & 0xFF
    after = u8(get(frame, k.STEPS) + state * 16 + token)
    if after == k.NO_STEP:
        return k.DOUBT
    if state == k.OUTSIDE:
        put(frame, k.FIRST_ENTRY, get(frame, k.ENTRY_COUNT))
        put(frame, k.FIRST_CURSOR, p)
        if token > k.T_SINGLE and get(frame, k.HAS_GTIDS):
            no_transaction(frame)
    if after == now:
        return k.DONE
    put(frame, k.STATE, after)
    if after == k.OUTSIDE:
        put(frame, k.SAFE, p + size + get(frame, k.BASE))
    return k.DONE


@helper
def _savepoint(frame, p, text, length):
    """Whether a statement inside a transaction is SAVEPOINT, or ROLLBACK TO what is left out."""
    if length < 11 or not get(frame, k.SAVEPOINTS) or not _ascii(text, length):
        return False
    state = get(frame, k.STATE)
    if sets_savepoint(text, length):
        return state in (k.OPEN, k.IN_PAYLOAD)
    before = get(frame, k.RANGES) + (get(frame, k.RANGE) - 1) * 16
    return (
        state == k.OPEN
        and rolls_back_to(text, length)
        and get(frame, k.RANGE) > 0
        and i64(before + 8) == p + get(frame, k.BASE)
    )


@helper
def _query(frame, p, body, end, size, form):
    """Skip BEGIN and COMMIT; Python handles every other statement."""
    if form & k.DOUBTED:
        return k.AT_EVENT
    if end - body < 13:
        return k.DOUBT
    status_end = body + 13 + u16(body + 11)
    text = status_end + u8(body + 8) + 1
    length = end - text
    if length < 0 or u8(text - 1):
        return k.DOUBT
    token = begin_or_commit(text, length)
    if not token:
        if not _savepoint(frame, p, text, length):
            return k.AT_EVENT
        token = k.T_STATEMENT
    like = get(frame, k.SOUND_QUERY)  # sizes, status variables and database are mostly the same
    if like == 0 or not _same_words(like + 8, body + 8, text - body - 8):
        if get(frame, k.CHECKED) != p and not (
            _sound_status(body + 13, status_end) and _ascii(status_end, text - status_end)
        ):
            return k.DOUBT
        put(frame, k.SOUND_QUERY, body)
    return _step(frame, p, size, token)


@helper
def _table_map(frame, p, body, end, size, form):
    """Give a table id its slot; Python resolves a table map that is not known yet."""
    fixed = 6 if form & k.SHORT_ID else 8
    if end - body < fixed:
        return k.DOUBT
    table_id = u32(body) if form & k.SHORT_ID else le48(body)
    reason = _map_table(frame, table_id, body + fixed, end - body - fixed)
    if reason == k.DONE and get(frame, k.STATE) != k.OPEN:
        reason = _step(frame, p, size, k.T_ROWS)
    return reason


@helper
def _gtid(frame, p, body, end, size, kind):
    """A transaction begins."""
    sure = get(frame, k.CHECKED) == p
    token = k.T_GTID
    if kind == e.MARIADB_GTID:
        if end - body >= 13:
            token = k.T_SINGLE if u8(body + 12) & 1 else k.T_GROUP
        reason = mariadb_gtid(frame, p, body, end, sure)
    elif kind == e.GTID_TAGGED:
        reason = tagged_gtid(frame, p, body, end, sure)
    else:
        reason = mysql_gtid(frame, p, body, end, kind == e.ANONYMOUS_GTID, sure)
    if reason != k.DONE:
        return reason
    reason = _step(frame, p, size, token)
    if reason == k.DONE and get(frame, k.FIXED_POSITION) < 0:  # events in a payload have its GTID
        put(frame, k.HAS_GTIDS, 1)
        put(frame, k.TRANSACTION_COUNT, get(frame, k.TRANSACTION_COUNT) + 1)
    return reason


@helper
def _sound_extra(at, extra, update):
    """Whether the extra header of a rows event is sound for certain: empty, or a partition's."""
    return extra == 2 or (extra == (7 if update else 5) and u8(at + 2) == 1)


@helper
def _rows(frame, p, body, end, kind, form):
    """Note one rows event, any version (facts sheet 2.3)."""
    at = body + (6 if form & k.SHORT_ID else 8)
    if end < at + (2 if form & k.EXTRA_HEADER else 0):
        return k.DOUBT
    table_id = u32(body) if form & k.SHORT_ID else le48(body)
    flags = u16(at - 2)
    operation = operation_of(kind)
    if form & k.EXTRA_HEADER:
        extra = u16(at)
        if extra < 2 or end - at < extra:
            return k.DOUBT
        if not _sound_extra(at, extra, operation == 1) and get(frame, k.CHECKED) != p:
            return k.DOUBT
        at += extra
    width, at = length_encoded(at, end)
    images = 2 if operation == 1 else 1
    if width < 0 or (end - at) < images * ((width + 7) >> 3):
        return k.DOUBT
    slot = _slot_of(frame, table_id)
    dummy = table_id == _DUMMY_TABLE
    if slot == k.NO_SLOT and not dummy:
        return k.DOUBT
    bitmap = (width + 7) >> 3
    first, second = at, at + bitmap
    at += images * bitmap
    rows, rows_end = at, end
    state = get(frame, k.SLOTS) + slot * (k.SLOT_WORDS * 8)
    if slot >= 0:
        if i64(state + k.S_COLUMNS * 8) != width or (i64(state + k.S_UNKNOWN * 8) and not dummy):
            return k.DOUBT
        if kind >= e.FIRST_COMPRESSED_ROWS and get(frame, k.COMPRESSED_SIZE) < 0:
            steps = get(frame, k.STEPS) + (get(frame, k.STATE) & 0xFF) * 16
            if u8(steps + k.T_ROWS + (flags & 1)) == k.NO_STEP:
                return k.DOUBT  # an error of its place in the log comes before one of its rows
            put(frame, k.COMPRESSED_ROWS, rows)
            return k.AT_COMPRESSED
    elif slot != k.NO_SLOT and (k.IGNORED - slot) & ((1 << k.WIDTH_BITS) - 1) != width:
        return k.DOUBT
    if get(frame, k.STATE) != k.OPEN:  # in OPEN rows change nothing
        reason = _step(frame, p, end - p + get(frame, k.CHECKSUM_BYTES), k.T_ROWS + (flags & 1))
        if reason != k.DONE:
            return reason
    if slot >= 0 and kind >= e.FIRST_COMPRESSED_ROWS:
        rows = get(frame, k.COMPRESSED_ROWS)
        rows_end = rows + get(frame, k.COMPRESSED_SIZE)
        put(frame, k.COMPRESSED_SIZE, -1)
    if slot >= 0 and not dummy and not get(frame, k.MUTED):
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
        if kind == e.PARTIAL_UPDATE_ROWS:
            operation |= k.DIFFS
            seen |= 16
        if flags & 0x12:  # foreign keys are not checked, or the log has what they change
            operation |= k.NO_CASCADES
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
    elif k.NO_SLOT < slot <= k.IGNORED:
        put(frame, k.SKIPPED_ROWS_EVENTS, get(frame, k.SKIPPED_ROWS_EVENTS) + 1)
    if flags & 1:
        put(frame, k.GENERATION, get(frame, k.GENERATION) + 1)
    return k.DONE


@helper
def _bound(frame, p):
    """Set MUTED; returns where it changes, or LIMIT if that comes first."""
    limit = get(frame, k.LIMIT)
    count = get(frame, k.RANGE_COUNT)
    if count == 0 or get(frame, k.FIXED_POSITION) >= 0:
        return limit
    base = get(frame, k.BASE)
    index = get(frame, k.RANGE)
    ranges = get(frame, k.RANGES)
    while index < count and i64(ranges + index * 16 + 8) <= p + base:
        index += 1
    put(frame, k.RANGE, index)
    put(frame, k.MUTED, 0)
    if index == count:
        return limit
    if i64(ranges + index * 16) > p + base:
        return min(limit, i64(ranges + index * 16) - base)
    put(frame, k.MUTED, 1)
    return min(limit, i64(ranges + index * 16 + 8) - base)


@helper
def _payload(frame, p, size):
    """Take the step with a payload that is uncompressed already; else Python handles it."""
    number = get(frame, k.PAYLOAD)
    count = get(frame, k.PAYLOAD_COUNT)
    events = get(frame, k.PAYLOADS) + 8 * k.P_EVENT
    while number < count and i64(events + number * (k.PAYLOAD_WORDS * 8)) < p:
        number += 1  # Python handled it
    put(frame, k.PAYLOAD, number)
    if (
        number >= count
        or get(frame, k.STATE) != k.AFTER_GTID
        or i64(events + number * (k.PAYLOAD_WORDS * 8)) != p
    ):
        return k.AT_EVENT
    reason = _step(frame, p, size, k.T_PAYLOAD)
    return k.AT_PAYLOAD if reason == k.DONE else reason


@helper
def _enter_payload(frame):
    """Continue with the events inside the payload at the cursor."""
    p = get(frame, k.CURSOR)
    entry = get(frame, k.PAYLOADS) + get(frame, k.PAYLOAD) * (k.PAYLOAD_WORDS * 8)
    put(frame, k.PAYLOAD, get(frame, k.PAYLOAD) + 1)
    put(frame, k.OUTER_CURSOR, p + u32(p + 9))
    put(frame, k.OUTER_END, get(frame, k.END))
    put(frame, k.OUTER_BASE, get(frame, k.BASE))
    put(frame, k.OUTER_LIMIT, get(frame, k.LIMIT))
    put(frame, k.OUTER_CHECKSUM_BYTES, get(frame, k.CHECKSUM_BYTES))
    put(frame, k.OUTER_STATE, get(frame, k.STATE))
    put(frame, k.OUTER_SOUND_QUERY, get(frame, k.SOUND_QUERY))
    put(frame, k.FIXED_POSITION, p + get(frame, k.BASE))
    start = i64(entry + k.P_DATA * 8)
    put(frame, k.CURSOR, start)
    put(frame, k.END, start + i64(entry + k.P_SIZE * 8))
    put(frame, k.LIMIT, start + i64(entry + k.P_SIZE * 8))
    put(frame, k.BASE, -start)
    put(frame, k.CHECKSUM_BYTES, 0)
    put(frame, k.STATE, k.IN_PAYLOAD)
    put(frame, k.CHECKED, 0)
    put(frame, k.SOUND_QUERY, 0)


@helper
def _leave_payload(frame):
    """Continue with the event after the payload."""
    put(frame, k.CURSOR, get(frame, k.OUTER_CURSOR))
    put(frame, k.END, get(frame, k.OUTER_END))
    put(frame, k.BASE, get(frame, k.OUTER_BASE))
    put(frame, k.LIMIT, get(frame, k.OUTER_LIMIT))
    put(frame, k.CHECKSUM_BYTES, get(frame, k.OUTER_CHECKSUM_BYTES))
    put(frame, k.STATE, get(frame, k.OUTER_STATE))
    put(frame, k.SOUND_QUERY, get(frame, k.OUTER_SOUND_QUERY))
    put(frame, k.FIXED_POSITION, -1)
    put(frame, k.OUTER_CURSOR, 0)


@helper
def _walk(frame):
    """Walk up to LIMIT, the next payload or the bound of a range; returns why it stopped."""
    end_of_block = get(frame, k.END)
    tail = get(frame, k.CHECKSUM_BYTES)
    verify = get(frame, k.VERIFY) and tail
    tables = get(frame, k.CRC_TABLES)
    verified, verified_end = get(frame, k.VERIFIED), get(frame, k.VERIFIED + 1)
    types = get(frame, k.TYPES)
    p = get(frame, k.CURSOR)
    bound = _bound(frame, p)
    while p < bound:
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
        if kind == e.FORMAT_DESCRIPTION:
            return k.AT_EVENT
        end = p + size - tail
        if (
            verify
            and (p < verified or p >= verified_end)
            and crc32(p, size - 4, tables) != u32(end)
        ):
            return k.BAD_CHECKSUM
        body = p + 19
        form = u8(types + kind)
        if form & k.DOUBTED and get(frame, k.CHECKED) != p:
            return k.DOUBT
        if is_rows(kind):
            reason = _rows(frame, p, body, end, kind, form)
        elif kind == e.TABLE_MAP:
            reason = _table_map(frame, p, body, end, size, form)
        elif kind == e.XID:
            if end - body != 8 and get(frame, k.CHECKED) != p:
                return k.DOUBT
            reason = _step(frame, p, size, k.T_COMMIT)
        elif kind == e.QUERY:
            reason = _query(frame, p, body, end, size, form)
        elif kind in (e.GTID, e.ANONYMOUS_GTID, e.GTID_TAGGED, e.MARIADB_GTID):
            reason = _gtid(frame, p, body, end, size, kind)
        elif kind == e.TRANSACTION_PAYLOAD:
            reason = _payload(frame, p, size)
        elif kind in (e.ROWS_QUERY, e.ANNOTATE_ROWS):
            if end == body and kind == e.ROWS_QUERY:
                return k.DOUBT
            reason = _step(frame, p, size, k.T_ROWS)
        else:
            return k.AT_EVENT
        if reason != k.DONE:
            return reason
        p += size
    put(frame, k.CURSOR, p)
    return k.DONE if p >= get(frame, k.LIMIT) else k.AT_BOUND


def plan_events(frame):
    """Walk from the cursor on; returns why it stopped (see `tailrace.columns.frames.plan`)."""
    while True:
        reason = _walk(frame)
        if reason == k.AT_PAYLOAD:
            _enter_payload(frame)
        elif (
            reason == k.DONE
            and get(frame, k.OUTER_CURSOR)
            and get(frame, k.CURSOR) == get(frame, k.END)
        ):
            _leave_payload(frame)
        elif reason != k.AT_BOUND:
            return reason
