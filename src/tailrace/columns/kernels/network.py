"""UUID and MariaDB's INET4 and INET6: from their bytes to text and back.

Those that read text write 16 (or 4) bytes at the given address and return 1, or 0 if the text is
malformed. Stored values lack their trailing zeros.
"""

from __future__ import annotations

from tailrace.columns.kernels.memory import helper, put8, put64, u8
from tailrace.columns.kernels.number_text import put_unsigned


@helper
def hex_digit(value):
    """The hexadecimal digit of 0 to 15."""
    return value + (48 if value < 10 else 87)


@helper
def uuid_text(p, size, target):
    """16 bytes, of which those after the first ``size`` are 0, as 8-4-4-4-12 at ``target``."""
    for index in range(16):
        byte = u8(p + index) if index < size else 0
        put8(target, hex_digit(byte >> 4))
        put8(target + 1, hex_digit(byte & 15))
        target += 2
        if index in (3, 5, 7, 9):
            put8(target, 45)
            target += 1
    return target


@helper
def inet4_text(p, size, target):
    """Four bytes in dotted form; returns the address after it."""
    for index in range(4):
        target = put_unsigned(target, u8(p + index) if index < size else 0)
        if index < 3:
            put8(target, 46)
            target += 1
    return target


@helper
def _group(p, size, index):
    high = u8(p + 2 * index) if 2 * index < size else 0
    low = u8(p + 2 * index + 1) if 2 * index + 1 < size else 0
    return (high << 8) | low


@helper
def inet6_text(p, size, target):
    """16 bytes as MariaDB prints an INET6: its longest run of zero groups, even one, left out."""
    best = best_size = 0
    run = 0
    for index in range(8):
        run = run + 1 if _group(p, size, index) == 0 else 0
        if run > best_size:
            best_size = run
            best = index - run + 1
    mapped = best == 0 and (best_size == 6 or (best_size == 5 and _group(p, size, 5) == 0xFFFF))
    index = 0
    while index < 8:
        if best_size and index == best:
            put8(target, 58)
            put8(target + 1, 58)
            target += 2
            index += best_size
            continue
        if mapped and index == 6:
            return inet4_text(p + 12, size - 12, target)
        value = _group(p, size, index)
        shift = 12
        while shift > 0 and value >> shift == 0:
            shift -= 4
        while shift >= 0:
            put8(target, hex_digit((value >> shift) & 15))
            target += 1
            shift -= 4
        index += 1
        if index < 8 and not (best_size and index == best):
            put8(target, 58)
            target += 1
    return target


@helper
def _hex_value(byte):
    """0 to 15 for a hexadecimal digit; -1 for another character."""
    if 0x30 <= byte <= 0x39:
        return byte - 0x30
    byte |= 0x20
    if 0x61 <= byte <= 0x66:
        return byte - 0x57
    return -1


@helper
def put_uuid(target, p, size):
    """32 hexadecimal digits; hyphens may be anywhere, as in the object path."""
    seen = 0
    value = 0
    for index in range(size):
        byte = u8(p + index)
        if byte == 0x2D:
            continue
        digit = _hex_value(byte)
        if digit < 0 or seen == 32:
            return 0
        value = (value << 4 | digit) & 0xFF
        put8(target + (seen >> 1), value)
        seen += 1
    return seen == 32


@helper
def put_inet4(target, p, size):
    """Four decimal numbers with dots between."""
    end = p + size
    for index in range(4):
        number = digits = 0
        while p < end and 0x30 <= u8(p) <= 0x39 and digits < 4:
            number = number * 10 + u8(p) - 0x30
            digits += 1
            p += 1
        if digits == 0 or digits > 3 or number > 255:
            return 0
        if digits > 1 + (number > 9) + (number > 99):  # a leading zero might mean octal
            return 0
        put8(target + index, number)
        if index < 3:
            if p >= end or u8(p) != 0x2E:
                return 0
            p += 1
    return p == end


@helper
def put_inet6(target, p, size):
    """Up to eight groups of hexadecimal digits, one run of zeros left out, IPv4 at the end."""
    end = p + size
    put64(target, 0)
    put64(target + 8, 0)
    at = 0
    gap = -1
    if size >= 2 and u8(p) == 0x3A:
        if u8(p + 1) != 0x3A:
            return 0
        p += 2
        gap = 0
    while p < end:
        start = p
        value = digits = 0
        while p < end and digits < 5:
            digit = _hex_value(u8(p))
            if digit < 0:
                break
            value = value << 4 | digit
            digits += 1
            p += 1
        if p < end and u8(p) == 0x2E:
            if at > 12 or not put_inet4(target + at, start, end - start):
                return 0
            at += 4
            p = end
            break
        if digits == 0 or digits > 4 or at > 14:
            return 0
        put8(target + at, value >> 8)
        put8(target + at + 1, value)
        at += 2
        if p == end:
            break
        if u8(p) != 0x3A or p + 1 == end:
            return 0
        p += 1
        if u8(p) == 0x3A:
            if gap >= 0:
                return 0
            gap = at
            p += 1
    if gap < 0:
        return at == 16
    if at > 14:
        return 0
    moved = at - gap
    for index in range(moved):
        put8(target + 15 - index, u8(target + at - 1 - index))
    for index in range(gap, 16 - moved):
        put8(target + index, 0)
    return 1
