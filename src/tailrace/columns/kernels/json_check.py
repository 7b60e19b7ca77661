"""Is a text JSON? As Python's parser sees it, which takes what RFC 8259 allows and no more."""

from __future__ import annotations

from tailrace.columns.kernels.memory import helper, put8, u8
from tailrace.columns.text_frames import DEPTH

_MOST_DIGITS = 4300  # of a whole number: what Python converts by default

# What may stand behind a backslash beside u: bits by the byte's lowest six, below 64 and above.
_LOW_ESCAPES = 1 << 0x22 | 1 << 0x2F
_HIGH_ESCAPES = sum(1 << (byte & 63) for byte in b"\\bfnrt")

# What may come next.
_VALUE = 0
_VALUE_OR_END = 1
_MORE = 2
_KEY = 4
_KEY_OR_END = 5


@helper
def _behind_space(p: int, stop: int) -> int:
    while p < stop and (u8(p) == 0x20 or u8(p) == 0x0A or u8(p) == 0x0D or u8(p) == 0x09):
        p += 1
    return p


@helper
def _behind_string(p: int, stop: int) -> int:
    """The address behind a string whose first byte is at ``p``; 0 if it is none."""
    while p < stop:
        byte = u8(p)
        p += 1
        if byte == 0x22:
            return p
        if byte < 0x20:
            return 0
        if byte == 0x5C:
            if p == stop:
                return 0
            byte = u8(p)
            p += 1
            if byte == 0x75:
                if stop - p < 4:
                    return 0
                for i in range(4):
                    digit = u8(p + i)
                    letter = digit | 0x20
                    if not (0x30 <= digit <= 0x39 or 0x61 <= letter <= 0x66):
                        return 0
                p += 4
            elif byte > 0x7F or not (
                (_LOW_ESCAPES if byte < 0x40 else _HIGH_ESCAPES) >> (byte & 63) & 1
            ):
                return 0
    return 0


@helper
def _behind_digits(p: int, stop: int) -> int:
    while p < stop and 0x30 <= u8(p) <= 0x39:
        p += 1
    return p


@helper
def _behind_number(p: int, stop: int) -> int:
    """The address behind a number; 0 if there is none, or one that Python refuses to convert."""
    if u8(p) == 0x2D:
        p += 1
    end = _behind_digits(p, stop)
    if end == p or (u8(p) == 0x30 and end > p + 1):
        return 0
    whole = end - p
    p = end
    if p < stop and u8(p) == 0x2E:
        end = _behind_digits(p + 1, stop)
        if end == p + 1:
            return 0
        p = end
        whole = 0
    if p < stop and u8(p) | 0x20 == 0x65:
        p += 1
        if p < stop and (u8(p) == 0x2B or u8(p) == 0x2D):
            p += 1
        end = _behind_digits(p, stop)
        if end == p:
            return 0
        p = end
        whole = 0
    return 0 if whole > _MOST_DIGITS else p


@helper
def _behind_word(p: int, stop: int) -> int:
    """The address behind ``null``, ``true`` or ``false``; 0 if it is none of them."""
    size = 5 if u8(p) == 0x66 else 4
    if stop - p < size:
        return 0
    word = 0
    for i in range(size):
        word = word << 8 | u8(p + i)
    wanted = 0x66616C7365 if size == 5 else 0x6E756C6C if u8(p) == 0x6E else 0x74727565
    return p + size if word == wanted else 0


@helper
def is_json(p: int, stop: int, levels: int) -> int:
    """1 for JSON of at most DEPTH levels; ``levels`` is the address of as many bytes."""
    depth = 0
    state = _VALUE
    while True:
        p = _behind_space(p, stop)
        if p == stop:
            return depth == 0 and state == _MORE
        byte = u8(p)
        if state == _MORE:
            if depth == 0:
                return 0
            inside = u8(levels + depth - 1)
            p += 1
            if byte == 0x2C:
                state = _KEY if inside == 0x7D else _VALUE
            elif byte == inside:
                depth -= 1
            else:
                return 0
            continue
        if (state == _KEY_OR_END and byte == 0x7D) or (state == _VALUE_OR_END and byte == 0x5D):
            depth -= 1
            state = _MORE
            p += 1
        elif state & _KEY:
            p = _behind_string(p + 1, stop) if byte == 0x22 else 0
            if p == 0:
                return 0
            p = _behind_space(p, stop)
            if p == stop or u8(p) != 0x3A:
                return 0
            p += 1
            state = _VALUE
        elif byte & 0xDF == 0x5B:  # { or [
            if depth == DEPTH:
                return 0
            put8(levels + depth, byte + 2)
            depth += 1
            state = _KEY_OR_END if byte == 0x7B else _VALUE_OR_END
            p += 1
        else:
            if byte == 0x22:
                p = _behind_string(p + 1, stop)
            elif byte == 0x2D or 0x30 <= byte <= 0x39:
                p = _behind_number(p, stop)
            else:
                p = _behind_word(p, stop)
            if p == 0:
                return 0
            state = _MORE
