"""Values of variable length, and names of ENUM and SET, into the bytes of a row.

Functions take the address to write at and may write up to 32 bytes past the address that they
return; they read nothing at or after the given end.
"""

from __future__ import annotations

from tailrace.columns.frames import encode as f
from tailrace.columns.kernels.memory import (
    copy_exactly,
    get,
    helper,
    i64,
    move,
    u8,
)


@helper
def copy_in(target, source, size, end):
    """Copy ``size`` bytes, which end at ``end`` or before; reads no byte at or after ``end``."""
    if end - source >= size + 31:
        move(target, source, size)
        return
    copy_exactly(target, source, size)


@helper
def characters(p, size):
    """The number of characters in UTF-8 text."""
    count = 0
    for index in range(size):
        count += (u8(p + index) & 0xC0) != 0x80
    return count


@helper
def _equal(one, other, size):
    different = 0
    for index in range(size):
        different |= u8(one + index) ^ u8(other + index)
    return different == 0


@helper
def number_of(p, size, names):
    """The number of a name, counted from 1; 0 if there is none. ``names``: see `encode_frames`."""
    mask = i64(names)
    value = f.HASH_START ^ size
    for index in range(size):
        value = (value ^ u8(p + index)) * f.HASH_FACTOR
    at = (value ^ ((value >> 32) & 0xFFFFFFFF)) & mask
    while True:
        entry = names + 8 + at * (f.NAME_WORDS * 8)
        known = get(entry, f.N_SIZE)
        if known < 0:
            return 0
        if known == size and _equal(get(entry, f.N_NAME), p, size):
            return get(entry, f.N_NUMBER)
        at = (at + 1) & mask


@helper
def bits_of(p, size, names):
    """SET's bits from names separated by commas, and whether all names are known."""
    bits = 0
    sound = True
    start = p
    end = p + size
    if size == 0:
        return 0, True
    while True:
        if p == end or u8(p) == 0x2C:
            number = number_of(start, p - start, names)
            if number == 0:
                sound = False
            else:
                bits |= 1 << (number - 1)
            if p == end:
                return bits, sound
            start = p + 1
        p += 1
