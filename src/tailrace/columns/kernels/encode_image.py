"""Write one row image from the values of Arrow arrays: the inverse of `image`.

A row's fixed-size values are known to fit before it begins; each value of variable length is
checked against ``limit``.
"""

from __future__ import annotations

from tailrace.columns.frames import encode as f
from tailrace.columns.frames import plan as k
from tailrace.columns.kernels.encode_values import (
    put_bits,
    put_date,
    put_datetime,
    put_decimal128,
    put_decimal_text,
    put_little_endian,
    put_long,
    put_medium,
    put_old_datetime,
    put_old_time,
    put_old_timestamp,
    put_short,
    put_time,
    put_timestamp,
    put_tiny,
    put_year,
)
from tailrace.columns.kernels.memory import (
    copy_in,
    get,
    helper,
    i8,
    i16,
    i32,
    i64,
    put,
    put8,
    put32,
    put64,
    u8,
    u32,
)
from tailrace.columns.kernels.network import put_inet4, put_inet6, put_uuid


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
    """The number of a name, counted from 1; 0 if there is none. ``names``: see `frames.encode`."""
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


@helper
def _span(column, row):
    """Where a row's value of variable length begins, and its size; -1 for invalid offsets."""
    offsets = get(column, f.OFFSETS)
    if get(column, f.OFFSET_BYTES) == 4:
        start, stop = u32(offsets + row * 4), u32(offsets + row * 4 + 4)
    else:
        start, stop = i64(offsets + row * 8), i64(offsets + row * 8 + 8)
    shift = get(column, f.SHIFT)
    start <<= shift
    stop <<= shift
    if start < 0 or stop < start or stop > get(column, f.VALUES_SIZE):
        return 0, -1
    return get(column, f.VALUES) + start, stop - start


@helper
def _put_text(column, p, source, size, limit):
    """Write length and bytes of a string."""
    trim = get(column, f.TRIM)
    if trim >= 0:
        while size > 0 and u8(source + size - 1) == trim:
            size -= 1
    if size > get(column, f.LIMIT):
        return f.TOO_LONG
    most = get(column, f.CHARACTERS)
    if size > most >= 0 and characters(source, size) > most:
        return f.TOO_LONG
    if size > limit - p:
        return f.MORE
    put32(p, size)
    p += get(column, f.ARGUMENT)
    copy_in(p, source, size, get(column, f.VALUES) + get(column, f.VALUES_SIZE))
    return p + size


@helper
def _put_network(column, kind, p, source, size):
    """Write MariaDB's UUID, INET4 and INET6 without their trailing zeros."""
    most = 16
    if kind == k.UUID:
        sound = put_uuid(p + 1, source, size)
    elif kind == k.INET6:
        sound = put_inet6(p + 1, source, size)
    else:
        sound = put_inet4(p + 1, source, size)
        most = 4
    if not sound:
        return f.MALFORMED
    while most > 0 and u8(p + most) == 0:
        most -= 1
    put8(p, most)
    return p + 1 + most


@helper
def _put_spelled(frame, column, kind, p, row):
    """Write a value that Arrow has as text or bytes."""
    source, size = _span(column, row)
    if size < 0:
        return f.OUTSIDE
    argument = get(column, f.ARGUMENT)
    if kind == k.ENUM_NAME:
        number = number_of(source, size, get(column, f.TABLE))
        if number == 0 and size > 0:
            return f.NO_SUCH_NAME
        return put_little_endian(p, number, argument & 255)
    if kind == k.SET_NAMES:
        bits, sound = bits_of(source, size, get(column, f.TABLE))
        return put_little_endian(p, bits, argument & 255) if sound else f.NO_SUCH_NAME
    if kind == k.DECIMAL_TEXT:
        behind = put_decimal_text(p, source, size, argument, get(frame, f.SCRATCH))
        if behind > 0 and u8(p) & 0x80 == 0 and get(column, f.UNSIGNED):
            return f.OUT_OF_RANGE
        return behind
    return _put_network(column, kind, p, source, size)


@helper
def _put_small(column, kind, argument, p, row):
    """Write an integer of up to 32 bits, or a type stored as one."""
    values = get(column, f.VALUES)
    if kind == k.INT8:
        put8(p, i8(values + row))
        return p + 1
    if kind == k.UINT8:
        return put_tiny(p, i16(values + row * 2), 0, 0xFF)
    if kind == k.INT16:
        return put_short(p, i16(values + row * 2), -0x8000, 0x7FFF)
    if kind == k.YEAR:
        return put_year(p, i16(values + row * 2))
    value = i32(values + row * 4)
    if kind == k.UINT16:
        return put_short(p, value, 0, 0xFFFF)
    if kind == k.INT24:
        return put_medium(p, value, -0x800000, 0x7FFFFF)
    if kind == k.UINT24:
        return put_medium(p, value, 0, 0xFFFFFF)
    if kind == k.DATE:
        return put_date(p, value)
    # k.LE_BYTES: an ENUM's index
    if value < 0 or value >> (8 * argument):
        return f.OUT_OF_RANGE
    return put_little_endian(p, value, argument)


@helper
def _put_large(column, kind, argument, p, row):
    """Write a value of the rarer kinds that Arrow has in 64 or 128 bits."""
    values = get(column, f.VALUES)
    if kind in (k.BITS64, k.UINT64):
        if i64(values + row * 16 + 8):
            return f.OUT_OF_RANGE
        value = i64(values + row * 16)
        return put_bits(p, value, argument) if kind == k.BITS64 else put_little_endian(p, value, 8)
    value = i64(values + row * 8)
    if kind == k.TIME:
        return put_time(p, value, argument)
    if kind == k.BITS:
        return put_bits(p, value, argument)
    if kind == k.OLD_DATETIME:
        return put_old_datetime(p, value)
    if kind == k.OLD_TIMESTAMP:
        return put_old_timestamp(p, value)
    if kind == k.OLD_TIME:
        return put_old_time(p, value)
    # k.LE_BYTES64: a SET's bits
    if value < 0 or value >> (8 * argument):
        return f.OUT_OF_RANGE
    return put_little_endian(p, value, argument)


@helper
def _put_missing(frame, column, p, row, image, index):
    """Write an odd value: returns the address after it, ``p`` for NULL, or a code."""
    at = get(frame, f.ODD_AT)
    if at < get(frame, f.ODD_COUNT):
        odd = get(frame, f.ODD) + at * (f.ODD_WORDS * 8)
        if get(odd, f.O_ROW) == row and get(odd, f.O_PLACE) == (image << 32 | index):
            put64(p, get(odd, f.O_BYTES))
            put(frame, f.ODD_AT, at + 1)
            return p + get(column, f.SIZE)
    return p if get(column, f.NULLABLE) else f.NOT_NULL


@helper
def _stop(frame, image, index, code):
    put(frame, f.BAD_IMAGE, image)
    put(frame, f.BAD_COLUMN, index)
    return code


@helper
def encode_image(frame, columns, count, p, limit, row, image):
    """Write one row image at ``p``: returns the address after it, or a code below 0."""
    powers = get(frame, f.POWERS)
    nulls = p
    p += (count + 7) >> 3
    empty = 0
    for index in range(count):
        column = columns + index * (f.COLUMN_WORDS * 8)
        if index & 7 == 0 and index:
            put8(nulls, empty)
            nulls += 1
            empty = 0
        valid = get(column, f.VALID)
        if valid:
            bit = get(column, f.VALID_BIT) + row
            if (u8(valid + (bit >> 3)) >> (bit & 7)) & 1 == 0:
                behind = _put_missing(frame, column, p, row, image, index)
                if behind < 0:
                    return _stop(frame, image, index, behind)
                if behind == p:
                    empty |= 1 << (index & 7)
                p = behind
                continue
        kind = get(column, f.KIND)
        if kind == k.INT32:
            put32(p, u32(get(column, f.VALUES) + row * 4))
            p += 4
            continue
        if kind == k.INT64:
            put64(p, i64(get(column, f.VALUES) + row * 8))
            p += 8
            continue
        if kind == f.FLOAT64:
            value = i64(get(column, f.VALUES) + row * 8)
            broken = (value >> 52) & 0x7FF == 0x7FF
            if broken or (value < 0 and value << 1 and get(column, f.UNSIGNED)):
                return _stop(frame, image, index, f.OUT_OF_RANGE)
            put64(p, value)
            p += 8
            continue
        argument = get(column, f.ARGUMENT)
        if kind == k.STRING:
            source, size = _span(column, row)
            behind = _put_text(column, p, source, size, limit) if size >= 0 else f.OUTSIDE
        elif k.STRING < kind <= k.SET_NAMES or k.UUID <= kind <= k.INET6 or kind == k.DECIMAL_TEXT:
            behind = _put_spelled(frame, column, kind, p, row)
        elif kind == k.DECIMAL:
            source = get(column, f.VALUES) + row * 16
            behind = put_decimal128(p, source, argument, powers)
            if i64(source + 8) < 0 and get(column, f.UNSIGNED):
                behind = f.OUT_OF_RANGE
        elif kind == k.DATETIME:
            behind = put_datetime(p, i64(get(column, f.VALUES) + row * 8), argument)
        elif kind == k.TIMESTAMP:
            behind = put_timestamp(p, i64(get(column, f.VALUES) + row * 8), argument)
        elif kind == k.UINT32:
            behind = put_long(p, i64(get(column, f.VALUES) + row * 8), 0, 0xFFFFFFFF)
        elif kind == k.FLOAT32:
            value = i32(get(column, f.VALUES) + row * 4)
            put32(p, value)
            behind = p + 4
            broken = (value >> 23) & 0xFF == 0xFF
            if broken or (value < 0 and value & 0x7FFFFFFF and get(column, f.UNSIGNED)):
                behind = f.OUT_OF_RANGE
        elif kind <= k.UINT24 or kind in (k.YEAR, k.DATE, k.LE_BYTES):
            behind = _put_small(column, kind, argument, p, row)
        else:
            behind = _put_large(column, kind, argument, p, row)
        if behind < 0:
            return _stop(frame, image, index, behind)
        p = behind
    if count & 7:
        empty |= get(frame, f.FILLER) << (count & 7)
    if count:
        put8(nulls, empty)
    return p
