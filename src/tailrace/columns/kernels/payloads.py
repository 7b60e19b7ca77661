"""Find transaction payloads ahead of the walk, so that they are uncompressed together."""

from __future__ import annotations

from tailrace.columns.frames import event_codes as e
from tailrace.columns.frames import plan as k
from tailrace.columns.kernels.memory import get, helper, length_encoded, put64, u8, u32


@helper
def frames_at(p, end):
    """Where the zstd frames of a payload event begin, and their uncompressed size.

    Zeros for what current servers do not write. The fields before the frames are: type, length,
    value; type 1 is the size of the frames, 2 the compression, 3 the uncompressed size, 0 ends
    them.
    """
    at = p + 19
    zstd = False
    stored = -1
    plain = 0
    while at < end:
        kind, at = length_encoded(at, end)
        if kind == 0:
            return (at, plain) if zstd and stored == end - at else (0, 0)
        size, at = length_encoded(at, end)
        if kind < 0 or kind > 3 or size < 0 or size > end - at:
            return 0, 0
        value, after = length_encoded(at, at + size)
        if value < 0 or after != at + size:
            return 0, 0
        if kind == 1:
            stored = value
        elif kind == 2:
            zstd = size == 1 and value == 0
        else:
            plain = value
        at += size
    return 0, 0


def find_payloads(frame):
    """List the small payloads from the cursor of a plan's frame on; returns how many there are.

    The list ends where it is full, where the payloads have PAYLOAD_BYTES together, or before a
    payload that is larger or unusual.
    """
    end_of_block = get(frame, k.END)
    limit = get(frame, k.LIMIT)
    tail = get(frame, k.CHECKSUM_BYTES)
    out = get(frame, k.PAYLOADS)
    p = get(frame, k.CURSOR)
    count = 0
    room = k.PAYLOAD_BYTES
    while p < limit and end_of_block - p >= 19 and count < k.PAYLOAD_CAPACITY:
        size = u32(p + 9)
        kind = u8(p + 4)
        if size < 19 + tail or size > end_of_block - p or kind == e.FORMAT_DESCRIPTION:
            break
        if kind == e.TRANSACTION_PAYLOAD:
            end = p + size - tail
            frames, plain = frames_at(p, end)
            if plain <= 0 or plain > k.SMALL_PAYLOAD or plain > room:
                break
            room -= plain
            put64(out, p)
            put64(out + 8, frames)
            put64(out + 16, end - frames)
            put64(out + 24, plain)
            out += k.PAYLOAD_WORDS * 8
            count += 1
        p += size
    return count
