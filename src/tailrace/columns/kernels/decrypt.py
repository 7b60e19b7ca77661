"""MariaDB's encrypted events: their blocks gathered for AES, and put back decrypted."""

from __future__ import annotations

from tailrace.columns.frames import decrypt as f
from tailrace.columns.kernels.memory import (
    bswap64,
    copy16,
    copy32,
    get,
    helper,
    i64,
    put,
    put8,
    put32,
    put64,
    u8,
    u32,
    xor16,
    xor32,
)


@helper
def _count_up(work, high, low, left):
    """Write a text's counter blocks: its initial vector, counted up as a number of 16 bytes."""
    high = bswap64(high)
    low = bswap64(low)
    while left > 0:
        put64(work, bswap64(high))
        put64(work + 8, bswap64(low))
        low += 1
        if low == 0:
            high += 1
        work += 16
        left -= 16
    return work


def gather_events(frame):
    """Take whole events while there is room; each length is replaced by the bytes in its place."""
    p = get(frame, f.IN)
    end = get(frame, f.END)
    offset = get(frame, f.OFFSET)
    work = get(frame, f.WORK)
    limit = work + get(frame, f.CAPACITY)
    vector = get(frame, f.VECTORS)
    size_at = get(frame, f.SIZES)
    most = get(frame, f.MOST)
    counters = get(frame, f.COUNTERS)
    first = i64(get(frame, f.NONCE))
    second = u32(get(frame, f.NONCE) + 8)
    count = 0
    reason = f.DONE
    while end - p >= 19:
        size = u32(p + 9)
        if size < 19 or size > end - p:
            break
        if size + 16 > limit - work or count == most:
            reason = f.FULL if count else f.LARGE
            break
        put64(size_at, size)
        put32(p + 9, u32(p))
        text = p + 4
        left = size - 4
        low = second | offset << 32
        if counters:
            if (left >> 4) + (offset >> 24 & 0xFF) < 255:
                # Only the last byte counts up: the highest of a word.
                while left > 16:
                    put64(work, first)
                    put64(work + 8, low)
                    put64(work + 16, first)
                    put64(work + 24, low + (1 << 56))
                    low += 2 << 56
                    work += 32
                    left -= 32
                if left > 0:
                    put64(work, first)
                    put64(work + 8, low)
                    work += 16
            else:
                work = _count_up(work, first, low, left)
        else:
            put64(vector, first)
            put64(vector + 8, low)
            vector += 16
            while left >= 32:
                copy32(work, text)
                work += 32
                text += 32
                left -= 32
            if left >= 16:
                copy16(work, text)
                work += 16
        size_at += 8
        offset += size
        p += size
        count += 1
    put(frame, f.COUNT, count)
    put(frame, f.USED, work - get(frame, f.WORK))
    put(frame, f.AFTER, p)
    return reason


@helper
def _rest(text, mask, left):
    """The last bytes of an event, 15 at most."""
    if left >= 8:
        put64(text, i64(text) ^ i64(mask))
        text += 8
        mask += 8
        left -= 8
    if left >= 4:
        put32(text, u32(text) ^ u32(mask))
        text += 4
        mask += 4
        left -= 4
    while left > 0:
        put8(text, u8(text) ^ u8(mask))
        text += 1
        mask += 1
        left -= 1


def scatter_events(frame):
    """Put back the decrypted bytes of the events that `gather_events` took, and the lengths."""
    p = get(frame, f.IN)
    work = get(frame, f.WORK)
    vector = get(frame, f.VECTORS)
    mask = get(frame, f.MASKS)
    size_at = get(frame, f.SIZES)
    counters = get(frame, f.COUNTERS)
    count = get(frame, f.COUNT)
    while count > 0:
        size = i64(size_at)
        text = p + 4
        left = size - 4
        if counters:
            while left >= 32:
                xor32(text, text, work)
                text += 32
                work += 32
                left -= 32
            if left >= 16:
                xor16(text, text, work)
                text += 16
                work += 16
                left -= 16
            if left > 0:
                _rest(text, work, left)
                work += 16
        else:
            whole = left & -16
            if left > whole:
                _rest(text + whole, mask, left - whole)
            # From the end: each block is XORed with the one before, which is still encrypted.
            done = whole
            while done >= 48:
                done -= 32
                xor32(text + done, work + done, text + done - 16)
            if done == 32:
                xor16(text + 16, work + 16, text)
            if done:
                xor16(text, work, vector)
            work += whole
            vector += 16
            mask += 16
        put32(p, u32(p + 9))
        put32(p + 9, size)
        p += size
        size_at += 8
        count -= 1
    return f.DONE
