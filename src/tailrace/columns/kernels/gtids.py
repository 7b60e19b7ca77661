"""GTID events of both flavours: each begins a transaction (facts sheet 2.5, 2.8)."""

from __future__ import annotations

from typing import Final

from tailrace.columns.frames import plan as k
from tailrace.columns.kernels.memory import (
    copy32,
    get,
    helper,
    i64,
    le24,
    length_encoded,
    put,
    put8,
    put64,
    u8,
    u32,
)
from tailrace.columns.kernels.network import uuid_text
from tailrace.columns.kernels.number_text import put_unsigned

_LAST_NUMBER: Final = 0x7FFFFFFFFFFFFFFE
_COMMIT_ID: Final = 0x02
_XA: Final = 0x40 | 0x80
"""Flags of MariaDB's GTID event: a commit id follows, and the name of an XA transaction."""


@helper
def _varint(p, end):
    """A variable-length integer of ``mysql::serialization``: (value, address after it) or -1."""
    if p >= end:
        return -1, p
    first = u8(p)
    size = 1
    while size < 9 and (first >> (size - 1)) & 1:
        size += 1
    if end - p < size:
        return -1, p
    if size == 9:
        return i64(p + 1), p + 9
    if size == 8:
        return (i64(p) >> 8) & 0xFFFFFFFFFFFFFF, p + 8
    value = 0
    for index in range(size):
        value |= u8(p + index) << (8 * index)
    return value >> size, p + size


@helper
def _new_transaction(frame, stamp, kind):
    """Fill in the next transaction and return its address; the caller then adds it to the count."""
    count = get(frame, k.TRANSACTION_COUNT)
    transaction = get(frame, k.TRANSACTIONS) + count * (k.TRANSACTION_WORDS * 8)
    put64(transaction + k.T_STAMP * 8, stamp)
    put64(transaction + k.T_KIND * 8, kind)
    put64(transaction + k.T_TAG_SIZE * 8, 0)
    event = get(frame, k.CURSOR)
    put64(transaction + k.T_START * 8, event + get(frame, k.BASE))
    put64(transaction + k.T_SECONDS * 8, u32(event))
    return transaction


@helper
def no_transaction(frame):
    """A transaction without a GTID begins; its time is that of its events' headers."""
    _new_transaction(frame, -1, k.NO_GTID)
    put(frame, k.TRANSACTION_COUNT, get(frame, k.TRANSACTION_COUNT) + 1)


@helper
def _sound_mysql_gtid(body, end, anonymous):
    """Whether a GTID event of MySQL is sound for certain."""
    number = i64(body + 17)
    if not anonymous and (number < 1 or number > _LAST_NUMBER):
        return False
    at = body + 42
    if end - at < 7:
        return end == at
    at += 14 if u8(at + 6) >> 7 else 7
    if at < end:
        length, at = length_encoded(at, end)
        if length < 0:
            return False
    if at < end:
        if end - at < 4:
            return False
        at += 8 if u32(at) >> 31 else 4
    return at == end or at + 8 == end


@helper
def mysql_gtid(frame, p, body, end, anonymous, sure):
    """GTID_LOG_EVENT and its anonymous twin (facts sheet 2.5)."""
    if end - body < 25 or not (sure or _sound_mysql_gtid(body, end, anonymous)):
        return k.DOUBT
    stamp = u32(p) * 1000000
    stamps = body + 42
    if end - stamps >= 7:
        immediate = u32(stamps) | (le24(stamps + 4) << 32)
        if immediate >> 55:
            if end - stamps < 14:
                return k.DOUBT
            stamp = u32(stamps + 7) | (le24(stamps + 11) << 32)
            if stamp == 0:
                stamp = immediate & 0x7FFFFFFFFFFFFF
        else:
            stamp = immediate
    transaction = _new_transaction(frame, stamp, k.NO_GTID if anonymous else k.MYSQL_GTID)
    put64(transaction + k.T_UUID * 8, i64(body + 1))
    put64(transaction + k.T_UUID * 8 + 8, i64(body + 9))
    put64(transaction + k.T_NUMBER * 8, i64(body + 17))
    return k.DONE


@helper
def _sound_tag(p, size):
    """Whether a tag is in its plain form: lower case letters, digits and _, not starting with a
    digit.
    """
    for index in range(size):
        byte = u8(p + index)
        letter = (byte >= 97 and byte <= 122) or byte == 95
        if not letter and (index == 0 or byte < 48 or byte > 57):
            return False
    return True


@helper
def tagged_gtid(frame, p, body, end, sure):
    """GTID_TAGGED_LOG_EVENT: one serialised message (facts sheet 2.5)."""
    version, at = _varint(body, end)
    size, at = _varint(at, end)
    last_field, at = _varint(at, end)
    if version != 1 or size != end - body or last_field < 0 or last_field > 12:
        return k.DOUBT
    transaction = _new_transaction(frame, u32(p) * 1000000, k.MYSQL_GTID)
    seen = 0
    while at < end:
        start = at
        field, at = _varint(at, end)
        if at == start:
            return k.DOUBT
        if field < 0 or field > 11:  # a newer server's, of up to 64 bits
            if not sure:
                return k.DOUBT
            break
        if seen >> field:
            return k.DOUBT
        seen |= 1 << field
        value = 0
        if field == 1:
            for index in range(16):
                value, at = _varint(at, end)
                if value < 0 or value > 255:
                    return k.DOUBT
                word = transaction + (k.T_UUID + (index >> 3)) * 8
                shift = 8 * (index & 7)
                before = 0 if shift == 0 else i64(word)
                put64(word, before | (value << shift))
        elif field == 3:
            value, at = _varint(at, end)
            if value < 0 or value > 32 or end - at < value or not _sound_tag(at, value):
                return k.DOUBT
            put64(transaction + k.T_TAG_SIZE * 8, value)
            for index in range(4):
                word = 0
                for byte in range(8):
                    if index * 8 + byte < value:
                        word |= u8(at + index * 8 + byte) << (8 * byte)
                put64(transaction + (k.T_TAG + index) * 8, word)
            at += value
        else:
            before = at
            value, at = _varint(at, end)
            if value < 0 and (at == before or not sure):
                return k.DOUBT
            if field == 2:
                number = value >> 1
                if value & 1 or number < 1 or number > _LAST_NUMBER:
                    return k.DOUBT
                put64(transaction + k.T_NUMBER * 8, number)
            elif field == 6 or (field == 7 and value != 0):
                put64(transaction + k.T_STAMP * 8, value)
    return k.DONE if seen & 6 == 6 else k.DOUBT


@helper
def mariadb_gtid(frame, p, body, end, sure):
    """MariaDB's GTID event: fixed fields, optional ones, zeros (facts sheet 2.8)."""
    if end - body < 13:
        return k.DOUBT
    if not sure:
        flags = u8(body + 12)
        at = body + (21 if flags & _COMMIT_ID else 13)
        if flags & _XA:
            if end - at < 6 or u8(at + 4) > 64 or u8(at + 5) > 64:
                return k.DOUBT
            at += 6 + u8(at + 4) + u8(at + 5)
        if at < end:
            extra = u8(at)
            at += 1
            if extra & ~0x10:
                return k.DOUBT
            at += 4 if extra & 0x10 else 0
        if end - at > 16:
            return k.DOUBT
        while at < end:
            if u8(at):
                return k.DOUBT
            at += 1
        if at > end:
            return k.DOUBT
    transaction = _new_transaction(frame, u32(p) * 1000000, k.MARIADB_GTID)
    put64(transaction + k.T_NUMBER * 8, i64(body))
    put64(transaction + k.T_DOMAIN * 8, u32(body + 8))
    put64(transaction + k.T_SERVER * 8, u32(p + 5))
    return k.DONE


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
