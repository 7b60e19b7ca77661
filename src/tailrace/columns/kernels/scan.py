"""Walk the headers of a log: where transactions begin and end, where it can be split, and which
events Python has to handle.
"""

from __future__ import annotations

from tailrace.columns.frames import event_codes as e
from tailrace.columns.frames import plan as k
from tailrace.columns.frames import scan as f
from tailrace.columns.kernels.event_types import is_rows
from tailrace.columns.kernels.memory import get, helper, put, put64, u8, u16, u32
from tailrace.columns.kernels.payloads import frames_at
from tailrace.columns.kernels.statements import begin_or_commit, rolls_back_to, sets_savepoint


@helper
def _note_begin(frame, offset):
    """A transaction begins; False if its bound is wanted and there is no room."""
    put(frame, f.BEGAN, offset)
    put(frame, f.STATEMENT_ENDED, 0)
    if offset - get(frame, f.LAST) >= get(frame, f.BOUND_TARGET):
        count = get(frame, f.BOUND_COUNT)
        if count >= get(frame, f.BOUND_CAPACITY):
            return False
        put64(get(frame, f.BOUNDS) + count * 8, offset)
        put(frame, f.BOUND_COUNT, count + 1)
        put(frame, f.LAST, offset)
    return True


@helper
def _step(frame, p, size, token):
    """Take the grammar's step with an event.

    AT_EVENT if it has none, FULL if a bound is wanted and there is no room.
    """
    state = get(frame, f.STATE) & 0xFF
    after = u8(get(frame, f.STEPS) + state * 16 + token)
    if after == k.NO_STEP:
        return f.AT_EVENT
    offset = p + get(frame, f.BASE)
    if state == k.OUTSIDE or (k.T_GTID <= token <= k.T_SINGLE):
        put(frame, f.SAFE, offset)
        if not _note_begin(frame, offset):
            return f.FULL
    put(frame, f.STATE, after)
    if after == k.OUTSIDE:
        put(frame, f.SAFE, offset + size)
        if get(frame, f.FIRST_END) < 0:
            put(frame, f.FIRST_END, offset + size)
    return f.DONE


@helper
def _note_statement(frame, offset):
    """A statement's rows begin inside a transaction; False as for `_note_begin`."""
    began = get(frame, f.BEGAN)
    if offset - max(get(frame, f.LAST), began) >= get(frame, f.INNER_TARGET):
        count = get(frame, f.INNER_COUNT)
        if count >= get(frame, f.INNER_CAPACITY):
            return False
        entry = get(frame, f.INNER) + count * (f.INNER_WORDS * 8)
        put64(entry, offset)
        put64(entry + 8, began)
        put(frame, f.INNER_COUNT, count + 1)
        put(frame, f.LAST, offset)
    put(frame, f.STATEMENT_ENDED, 0)
    return True


@helper
def _note_payload(frame, p, size):
    """Take the step with a transaction payload; returns the same as `_step`."""
    offset = p + get(frame, f.BASE)
    capacity = get(frame, f.PAYLOAD_CAPACITY)
    count = get(frame, f.PAYLOAD_COUNT)
    if capacity and count >= capacity:
        return f.FULL
    reason = _step(frame, p, size, k.T_PAYLOAD)
    if reason == f.DONE and capacity:
        entry = get(frame, f.PAYLOADS) + count * (k.PAYLOAD_WORDS * 8)
        put64(entry, offset)
        put64(entry + 8, size)
        put64(entry + 16, get(frame, f.BEGAN))
        frames, _ = frames_at(p, p + size - get(frame, f.CHECKSUM_BYTES))
        put64(entry + 24, frames - p if frames else 0)
        put(frame, f.PAYLOAD_COUNT, count + 1)
    return reason


@helper
def _note_savepoint(frame, p, text, length):
    """Note a statement inside a transaction that sets a savepoint or rolls back to one.

    DONE; FULL as for `_note_begin`; AT_EVENT for other statements and where none are asked for.
    """
    capacity = get(frame, f.SAVEPOINT_CAPACITY)
    if not capacity or get(frame, f.STATE) != k.OPEN:
        return f.AT_EVENT
    if not (sets_savepoint(text, length) or rolls_back_to(text, length)):
        return f.AT_EVENT
    count = get(frame, f.SAVEPOINT_COUNT)
    if count >= capacity:
        return f.FULL
    entry = get(frame, f.SAVEPOINTS) + count * (f.SAVEPOINT_WORDS * 8)
    put64(entry, p + get(frame, f.BASE))
    put64(entry + 8, get(frame, f.BEGAN))
    put64(entry + 16, text)
    put64(entry + 24, length)
    put(frame, f.SAVEPOINT_COUNT, count + 1)
    return f.DONE


@helper
def _statement(frame, p, size, tail):
    """Take the step of BEGIN and COMMIT, note savepoints; Python handles every other statement."""
    if size < 32 + tail:
        return f.AT_EVENT
    text = p + 32 + u16(p + 30) + u8(p + 27) + 1
    length = p + size - tail - text
    if length < 0:
        return f.AT_EVENT
    token = begin_or_commit(text, length)
    if token:
        return _step(frame, p, size, token)
    return _note_savepoint(frame, p, text, length)


def scan_events(frame):
    """Walk from the cursor on; returns why it stopped (see `tailrace.columns.frames.scan`)."""
    end_of_block = get(frame, f.END)
    base = get(frame, f.BASE)
    tail = get(frame, f.CHECKSUM_BYTES)
    types = get(frame, f.TYPES)
    p = get(frame, f.CURSOR)
    while end_of_block - p >= 19:
        put(frame, f.CURSOR, p)
        size = u32(p + 9)
        if size < 19 + tail or size > 0x40000000:
            return f.BAD_LENGTH
        if end_of_block - p < size:
            return f.DONE
        kind = u8(p + 4)
        form = u8(types + kind)
        token = form & 15
        if kind in (e.TABLE_MAP, e.ROWS_QUERY, e.ANNOTATE_ROWS):
            if get(frame, f.STATEMENT_ENDED) and not _note_statement(frame, p + base):
                return f.FULL
        elif is_rows(kind):
            token = k.T_ROWS
            if size >= 27 + tail and u8(p + (23 if form & k.SHORT_ID else 25)) & 1:
                put(frame, f.STATEMENT_ENDED, 1)
                token = k.T_ROWS_END
        elif kind == e.MARIADB_GTID:
            token = k.T_SINGLE if size >= 32 + tail and u8(p + 31) & 1 else k.T_GROUP
        elif kind == e.TRANSACTION_PAYLOAD:
            token = 0
            reason = _note_payload(frame, p, size)
            if reason != f.DONE:
                return reason
        elif kind == e.QUERY:
            token = 0
            reason = _statement(frame, p, size, tail)
            if reason != f.DONE:
                return reason
        elif kind in (
            e.FORMAT_DESCRIPTION,
            e.XA_PREPARE,
            e.START_ENCRYPTION,
            e.QUERY_COMPRESSED,
        ):
            return f.AT_EVENT
        elif kind == e.ROTATE:
            put(frame, f.STATE, get(frame, f.STATE) | k.ROTATED)
        quiet = token >= k.T_ROWS and get(frame, f.STATE) == k.OPEN  # then rows change nothing
        if token and not quiet:
            reason = _step(frame, p, size, token)
            if reason != f.DONE:
                return reason
        p += size
    put(frame, f.CURSOR, p)
    return f.DONE
