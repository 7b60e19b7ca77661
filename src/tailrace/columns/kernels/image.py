"""Decode one row image into the buffers of Arrow arrays: a switch on each column's kind."""

from __future__ import annotations

from tailrace.columns.frames import plan as k
from tailrace.columns.kernels.json_diff import most_changed, put_changed
from tailrace.columns.kernels.memory import (
    be32,
    copy32,
    get,
    helper,
    i64,
    le24,
    move,
    prefix,
    put,
    put8,
    put16,
    put32,
    put64,
    u8,
    u16,
    u32,
)
from tailrace.columns.kernels.network import inet4_text, inet6_text, uuid_text
from tailrace.columns.kernels.number_text import put_packed_decimal
from tailrace.columns.kernels.numbers import (
    DAY,
    MOST_MICROSECONDS,
    NO_TIME,
    big_endian,
    date_days,
    decimal128,
    fraction,
    packed_time,
    second_parts,
)

_TIME_ZERO = 839 * 3600
"""Seconds: one more than the longest TIME."""


@helper
def clear_bit(bitmap, row):
    at = bitmap + (row >> 3)
    put8(at, u8(at) & ~(1 << (row & 7)))


@helper
def _no_value(column, row):
    """Write NULL."""
    width = get(column, k.C_WIDTH)
    if width == 0:
        return
    clear_bit(get(column, k.C_VALID), row)
    put(column, k.C_NULLS, 1)
    values = get(column, k.C_VALUES)
    if width < 0:
        offsets = get(column, k.C_OFFSETS) + row * 4
        put32(offsets + 4, u32(offsets))
    elif width == 8:
        put64(values + row * 8, 0)
    elif width == 4:
        put32(values + row * 4, 0)
    elif width == 16:
        put64(values + row * 16, 0)
        put64(values + row * 16 + 8, 0)
    elif width == 2:
        put16(values + row * 2, 0)
    else:
        put8(values + row, 0)


@helper
def no_image(columns, count, row):
    for index in range(count):
        _no_value(columns + index * (k.COLUMN_WORDS * 8), row)


@helper
def _odd(frame, row, place, date, time):
    """Note a value that its column's type cannot hold; False if there is no room."""
    count = get(frame, k.D_ODD_COUNT)
    if count >= get(frame, k.D_ODD_CAPACITY):
        return False
    odd = get(frame, k.D_ODD) + count * (k.ODD_WORDS * 8)
    put(odd, k.O_ROW, row)
    put(odd, k.O_PLACE, place)
    put(odd, k.O_DATE, date)
    put(odd, k.O_TIME, time)
    put(frame, k.D_ODD_COUNT, count + 1)
    return True


@helper
def _date(frame, column, row, place, months, day, time):
    """Write a date, or a k.DATETIME if ``time`` (microseconds of the day) is not negative."""
    found = date_days(months, day, get(column, k.C_TABLE))
    if found == k.NO_DATE:
        _no_value(column, row)
        odd = (months << 5) | day
        return k.ALL_DECODED if _odd(frame, row, place, odd, time) else k.BATCH_FULL
    if time < 0:
        put32(get(column, k.C_VALUES) + row * 4, found)
    else:
        put64(get(column, k.C_VALUES) + row * 8, found * DAY + time)
    return k.ALL_DECODED


@helper
def _temporal(frame, column, kind, argument, p, row, place):
    """Decode a date or time type other than k.DATETIME; its size or a reason to stop."""
    out = get(column, k.C_VALUES) + row * 8
    if kind in (k.TIMESTAMP, k.OLD_TIMESTAMP):
        if kind == k.TIMESTAMP:
            seconds, part = be32(p), fraction(p + 4, argument)
            if part > MOST_MICROSECONDS:
                return k.BAD_VALUE
        elif argument == 0:
            seconds, part = u32(p), 0
        else:
            seconds, part = be32(p), big_endian(p + 4, (argument + 1) >> 1)
            parts = second_parts(argument)
            if part >= parts:
                return k.BAD_VALUE
            part *= 1_000_000 // parts
        if seconds == 0 and part == 0:
            _no_value(column, row)
            if not _odd(frame, row, place, 0, 0):
                return k.BATCH_FULL
        else:
            put64(out, seconds * 1_000_000 + part)
        return 4 + ((argument + 1) >> 1)
    if kind == k.TIME:
        found = packed_time(p, argument)
        if found == NO_TIME:
            return k.BAD_VALUE
        put64(out, found)
        return 3 + ((argument + 1) >> 1)
    if kind == k.DATE:
        value = le24(p)
        month = (value >> 5) & 15
        if month > 12 or value >> 9 > 9999:
            return k.BAD_VALUE
        reason = _date(frame, column, row, place, (value >> 9) * 13 + month, value & 31, -1)
        return 3 if reason == k.ALL_DECODED else reason
    if argument:  # MariaDB's old types with a fraction: big-endian, a number of their units
        parts = second_parts(argument)
        unit = 1_000_000 // parts
        longer = (argument > 2) + (argument > 5)
        if kind == k.OLD_TIME:
            value = big_endian(p, 4 + longer) - _TIME_ZERO * parts
            if not -_TIME_ZERO * parts < value < _TIME_ZERO * parts:
                return k.BAD_VALUE
            put64(out, value * unit)
            return 4 + longer
        value = big_endian(p, 6 + longer)
        days = value // (86_400 * parts)
        if value < 0 or days // (32 * 13) > 9999:
            return k.BAD_VALUE
        time = (value - days * 86_400 * parts) * unit
        reason = _date(frame, column, row, place, days >> 5, days & 31, time)
        return 6 + longer if reason == k.ALL_DECODED else reason
    if kind == k.OLD_DATETIME:
        value = i64(p)
        clock, value = value % 1_000_000, value // 1_000_000
        month = value // 100 % 100
        hour, minute, second = clock // 10000, clock // 100 % 100, clock % 100
        if value < 0 or value // 10000 > 9999 or month > 12 or value % 100 > 31:
            return k.BAD_VALUE
        if hour > 23 or minute > 59 or second > 59:
            return k.BAD_VALUE
        time = hour * 3600 + minute * 60 + second
        months = (value // 10000) * 13 + month
        reason = _date(frame, column, row, place, months, value % 100, time * 1_000_000)
        return 8 if reason == k.ALL_DECODED else reason
    # k.OLD_TIME: a number hhmmss
    value = le24(p)
    value -= (value >> 23) << 24
    sign = -1 if value < 0 else 1
    value *= sign
    hour, minute, second = value // 10000, value // 100 % 100, value % 100
    if hour > 838 or minute > 59 or second > 59:
        return k.BAD_VALUE
    seconds = hour * 3600 + minute * 60 + second
    put64(out, sign * seconds * 1_000_000)
    return 3


@helper
def _set_text(target, bits, names):
    """Write the names of a SET's bits, separated by commas; returns the address after them.

    ``names`` is the address of the table that `tailrace.columns.read.table_columns` builds: for
    each four bits in turn, by their value, the address and size of their names, with a comma after
    each name.
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
def _made_text(column, kind, argument, p, end, target, room):
    """Write text that is not copied: (bytes read, bytes written), or a reason to stop first."""
    if kind == k.DECIMAL_TEXT:
        if room < 68:
            return k.BATCH_FULL, 0
        size, scale = (argument >> 16) & 255, (argument >> 8) & 255
        behind = put_packed_decimal(target, p, size, (argument & 255) + scale, scale)
        if behind < 0:
            return k.BAD_VALUE, 0
        return size, behind - target
    names = get(column, k.C_TABLE)
    if kind == k.SET_NAMES:
        bits = 0
        for index in range(argument & 255):
            bits |= u8(p + index) << (8 * index)
        count = argument >> 8
        if count < 64 and bits >> count:
            return k.BAD_VALUE, 0
        if get(names, 0) > room:
            return k.BATCH_FULL, 0
        return argument & 255, _set_text(target, bits, names + 8) - target
    # k.UUID, k.INET4, INET6: a prefix byte, then bytes without their trailing zeros.
    size = u8(p)
    most = 4 if kind == k.INET4 else 16
    if size > most:
        return k.BAD_VALUE, 0
    if size + 1 > end - p:
        return k.ROW_TOO_LONG, 0
    if room < 48:
        return k.BATCH_FULL, 0
    if kind == k.UUID:
        behind = uuid_text(p + 1, size, target)
    elif kind == k.INET4:
        behind = inet4_text(p + 1, size, target)
    else:
        behind = inet6_text(p + 1, size, target)
    return size + 1, behind - target


@helper
def _claimed(p, size):
    """The uncompressed size that a compressed value states (`rows.compressed`)."""
    bytes_ = u8(p) & 7
    if u8(p) == 0 or size <= bytes_ or bytes_ > 4:
        return size
    return big_endian(p + 1, bytes_) if bytes_ else size


@helper
def _spread_nulls(p, end, present, count, target):
    """Write one bit for each column, set if absent or NULL; returns the size of the null bitmap.

    The bitmap at ``p`` has bits only for the columns that are ``present``.
    """
    seen = 0
    for byte in range((count + 7) >> 3):
        put8(target + byte, 0)
    for index in range(count):
        empty = 1
        if (u8(present + (index >> 3)) >> (index & 7)) & 1:
            if p + (seen >> 3) < end:
                empty = (u8(p + (seen >> 3)) >> (seen & 7)) & 1
            seen += 1
        at = target + (index >> 3)
        put8(at, u8(at) | (empty << (index & 7)))
    return (seen + 7) >> 3


@helper
def _changed(frame, index, row, diffs, size, target, room):
    """Write the document that JSON diffs make of the before image's: its size.

    BATCH_FULL (with D_NEEDED) if there may be no room, otherwise -1 if Python has to do it.
    """
    column = get(frame, k.D_BEFORE) + index * (k.COLUMN_WORDS * 8)
    if (u8(get(column, k.C_VALID) + (row >> 3)) >> (row & 7)) & 1 == 0:
        return -1
    offsets = get(column, k.C_OFFSETS) + row * 4
    base = u32(offsets)
    length = u32(offsets + 4) - base
    needed = most_changed(length, size)
    if needed > k.MOST_TEXT:
        return -1
    if needed > room:
        put(frame, k.D_NEEDED, needed)
        return k.BATCH_FULL
    document = get(column, k.C_VALUES) + base
    return put_changed(target, document, length, diffs, size, get(frame, k.D_PATH))


@helper
def decode_image(frame, columns, count, p, end, row, present, image):
    """Decode one row image at ``p``: returns the address after it, or a reason to stop."""
    bits = p
    if present:
        bits = get(frame, k.D_SCRATCH)
        p += _spread_nulls(p, end, present, count, bits)
    else:
        p += (count + 7) >> 3
    if p > end:
        return k.ROW_TOO_LONG
    for index in range(count):
        column = columns + index * (k.COLUMN_WORDS * 8)
        if (u8(bits + (index >> 3)) >> (index & 7)) & 1:
            _no_value(column, row)
            continue
        if p > end:
            return k.ROW_TOO_LONG
        kind = get(column, k.C_KIND)
        argument = get(column, k.C_ARGUMENT)
        values = get(column, k.C_VALUES)
        if kind == k.STRING:
            size = prefix(p, argument)
            p += argument
            if size > end - p:
                return k.ROW_TOO_LONG
            offsets = get(column, k.C_OFFSETS) + row * 4
            used = u32(offsets)
            if size > get(column, k.C_ROOM) - used:
                put(frame, k.D_BAD_COLUMN, index)
                put(frame, k.D_NEEDED, size)
                return k.BATCH_FULL
            target = values + used
            copy32(target, p)
            if size > 32:
                move(target + 32, p + 32, size - 32)
            put32(offsets + 4, used + size)
            p += size
        elif kind == k.INT32:
            put32(values + row * 4, u32(p))
            p += 4
        elif kind == k.INT64:
            put64(values + row * 8, i64(p))
            p += 8
        elif kind == k.UINT32:
            put64(values + row * 8, u32(p))
            p += 4
        elif kind == k.UINT64:
            put64(values + row * 16, i64(p))
            put64(values + row * 16 + 8, 0)
            p += 8
        elif kind == k.INT8:
            put8(values + row, u8(p))
            p += 1
        elif kind == k.UINT8:
            put16(values + row * 2, u8(p))
            p += 1
        elif kind == k.INT16:
            put16(values + row * 2, u16(p))
            p += 2
        elif kind == k.UINT16:
            put32(values + row * 4, u16(p))
            p += 2
        elif kind == k.INT24:
            value = le24(p)
            put32(values + row * 4, value - ((value >> 23) << 24))
            p += 3
        elif kind == k.UINT24:
            put32(values + row * 4, le24(p))
            p += 3
        elif kind == k.FLOAT32:
            put32(values + row * 4, u32(p))
            p += 4
        elif kind == k.YEAR:
            year = u8(p)
            put16(values + row * 2, year + 1900 if year else 0)
            p += 1
        elif kind == k.DECIMAL:
            low, high, sound = decimal128(p, argument, get(column, k.C_TABLE))
            if not sound:
                put(frame, k.D_BAD_COLUMN, index)
                return k.BAD_VALUE
            put64(values + row * 16, low)
            put64(values + row * 16 + 8, high)
            p += (argument >> 16) & 255
        elif kind == k.DATETIME:
            value = big_endian(p, 5) - 0x8000000000
            time = (((value >> 12) & 31) * 60 + ((value >> 6) & 63)) * 60 + (value & 63)
            part = fraction(p + 5, argument)
            time = time * 1_000_000 + part
            place = (image << 32) | index
            if (
                value < 0
                or value >> 22 >= 130_000  # year 10000
                or (value >> 12) & 31 > 23
                or (value >> 6) & 63 > 59
                or value & 63 > 59
                or part > MOST_MICROSECONDS
            ):
                put(frame, k.D_BAD_COLUMN, index)
                return k.BAD_VALUE
            reason = _date(frame, column, row, place, value >> 22, (value >> 17) & 31, time)
            if reason != k.ALL_DECODED:
                return reason
            p += 5 + ((argument + 1) >> 1)
        elif kind == k.TIMESTAMP and be32(p) != 0:
            part = fraction(p + 4, argument)
            if part > MOST_MICROSECONDS:
                put(frame, k.D_BAD_COLUMN, index)
                return k.BAD_VALUE
            put64(values + row * 8, be32(p) * 1_000_000 + part)
            p += 4 + ((argument + 1) >> 1)
        elif kind == k.ENUM_NAME:
            number = u8(p) if argument & 255 == 1 else u16(p)
            offsets = get(column, k.C_OFFSETS) + row * 4
            used = u32(offsets)
            if number > argument >> 8:
                put(frame, k.D_BAD_COLUMN, index)
                return k.BAD_VALUE
            if number > 0:
                name = get(column, k.C_TABLE) + (number - 1) * 16
                size = i64(name + 8)
                if size > get(column, k.C_ROOM) - used:
                    return k.BATCH_FULL
                copy32(values + used, i64(name))
                if size > 32:
                    move(values + used + 32, i64(name) + 32, size - 32)
                used += size
            put32(offsets + 4, used)
            p += argument & 255
        elif k.DATE <= kind <= k.TIME or k.OLD_DATETIME <= kind <= k.OLD_TIME:
            place = (image << 32) | index
            size = _temporal(frame, column, kind, argument, p, row, place)
            if size < 0:
                put(frame, k.D_BAD_COLUMN, index)
                return size
            p += size
        elif kind == k.BITS:
            put64(values + row * 8, big_endian(p, argument))
            p += argument
        elif kind == k.BITS64:
            put64(values + row * 16, big_endian(p, 8))
            put64(values + row * 16 + 8, 0)
            p += 8
        elif kind == k.LE_BYTES:
            put32(values + row * 4, u8(p) if argument == 1 else u16(p))
            p += argument
        elif kind == k.LE_BYTES64:
            value = 0
            for byte in range(argument):
                value |= u8(p + byte) << (8 * byte)
            put64(values + row * 8, value)
            p += argument
        elif kind == k.SKIP_FIXED:
            p += argument
        elif kind == k.SKIP_VARIABLE:
            size = prefix(p, argument)
            p += argument
            if size > end - p:
                return k.ROW_TOO_LONG
            p += size
        elif kind == k.NOTHING:
            _no_value(column, row)
        else:
            offsets = get(column, k.C_OFFSETS) + row * 4
            used = u32(offsets)
            room = get(column, k.C_ROOM) - used
            if kind == k.IN_PLACE:
                size = prefix(p, argument)
                p += argument
                if size > end - p:
                    return k.ROW_TOO_LONG
                if size > room:
                    put(frame, k.D_BAD_COLUMN, index)
                    put(frame, k.D_NEEDED, size)
                    return k.BATCH_FULL
                put(column, k.C_VALUES, p)
                p += size
                used += size
            elif kind == k.COMPRESSED:
                size = prefix(p, argument)
                p += argument
                if size > end - p:
                    return k.ROW_TOO_LONG
                if size > room:
                    put(frame, k.D_BAD_COLUMN, index)
                    put(frame, k.D_NEEDED, size)
                    return k.BATCH_FULL
                claimed = get(frame, k.D_CLAIMED) + _claimed(p, size)
                if row > 0 and claimed > get(frame, k.D_MOST_CLAIMED):
                    return k.BATCH_FULL
                put(frame, k.D_CLAIMED, claimed)
                move(values + used, p, size)
                p += size
                used += size
            elif kind == k.PADDED:
                size = prefix(p, argument & 255)
                width = argument >> 8
                p += argument & 255
                if size > end - p or size > width:
                    return k.ROW_TOO_LONG
                if width > room:
                    return k.BATCH_FULL
                move(values + used, p, size)
                for byte in range(size, width):
                    put8(values + used + byte, 0)
                p += size
                used += width
            elif kind == k.ORPHAN_DIFFS:
                put(frame, k.D_BAD_COLUMN, index)
                return k.NO_DOCUMENT
            elif kind == k.JSON_DIFFS:
                size = u32(p)
                p += 4
                if size > end - p:
                    return k.ROW_TOO_LONG
                written = _changed(frame, index, row, p, size, values + used, room)
                if written == k.BATCH_FULL:
                    put(frame, k.D_BAD_COLUMN, index)
                    return k.BATCH_FULL
                if written < 0:
                    written = 0
                    if not _odd(frame, row, (image << 32) | index, p, k.BY_HAND):
                        return k.BATCH_FULL
                p += size
                used += written
            else:
                size, written = _made_text(column, kind, argument, p, end, values + used, room)
                if size < 0:
                    put(frame, k.D_BAD_COLUMN, index)
                    return size
                p += size
                used += written
            put32(offsets + 4, used)
    if p > end:
        return k.ROW_TOO_LONG
    return p
