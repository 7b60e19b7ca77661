"""Values that become text in the row kernel: GTIDs, UUIDs, addresses, SET's names."""

from __future__ import annotations

from tailrace.columns.frames import plan as k
from tailrace.columns.kernels.digits import put_unsigned
from tailrace.columns.kernels.memory import copy32, get, helper, i64, move, put8, u8


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
def set_text(target, bits, names):
    """Write the names of a SET's bits, separated by commas; returns the address after them.

    ``names`` is the address of what `tailrace.columns.read.table_columns` puts together: for each
    four bits in turn, by their value, address and size of their names, with a comma after each.
    """
    out = target
    while bits:
        name = names + (bits & 15) * 16
        size = i64(name + 8)
        copy32(out, i64(name))
        if size > 32:
            move(out + 32, i64(name) + 32, size - 32)
        out += size
        names += 256
        bits = (bits >> 4) & 0xFFFFFFFFFFFFFFF
    if out == target:
        return out
    out -= 1
    if u8(target) == 44:  # as in SELECT, there is no comma after empty names at the beginning
        commas = 0
        while target + commas < out and u8(target + commas) == 44:
            commas += 1
        out -= commas
        move(target, target + commas, out - target)
    return out


@helper
def gtid_text(transaction, target):
    """Write a transaction's GTID as the servers print it; returns the address after it."""
    if get(transaction, k.T_KIND) == k.MARIADB_GTID:
        target = put_unsigned(target, get(transaction, k.T_DOMAIN))
        put8(target, 45)
        target = put_unsigned(target + 1, get(transaction, k.T_SERVER))
        put8(target, 45)
    else:
        target = uuid_text(transaction + k.T_UUID * 8, 16, target)
        size = get(transaction, k.T_TAG_SIZE)
        put8(target, 58)
        if size > 0:
            copy32(target + 1, transaction + k.T_TAG * 8)
            target += size + 1
            put8(target, 58)
    return put_unsigned(target + 1, get(transaction, k.T_NUMBER))
