"""GTID events of both flavours: each begins a transaction (facts sheet 2.5, 2.8)."""

from __future__ import annotations

from typing import Final

from tailrace.columns import layout as k
from tailrace.columns.kernels.memory import (
    get,
    helper,
    i64,
    le24,
    put,
    put64,
    u8,
    u32,
)

_MULTIPLIER: Final = 0x1E3779B97F4A7C15
_DUMMY_TABLE: Final = 0xFFFFFF


@helper
def _varint(p, end):
    """A variable-length integer of ``mysql::serialization``: (value, address behind it) or -1."""
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
def _new_transaction(frame, p, stamp, kind):
    """Append a transaction and return its address."""
    count = get(frame, k.TRANSACTION_COUNT)
    transaction = get(frame, k.TRANSACTIONS) + count * (k.TRANSACTION_WORDS * 8)
    put(frame, k.TRANSACTION_COUNT, count + 1)
    put64(transaction + k.T_STAMP * 8, stamp)
    put64(transaction + k.T_KIND * 8, kind)
    put64(transaction + k.T_TAG_SIZE * 8, 0)
    put(frame, k.FIRST_ENTRY, get(frame, k.ENTRY_COUNT))
    put(frame, k.FIRST_CURSOR, p)
    return transaction


@helper
def mysql_gtid(frame, p, body, end, anonymous):
    """GTID_LOG_EVENT and its anonymous twin (facts sheet 2.5)."""
    if end - body < 25:
        return k.BAD_EVENT
    stamp = u32(p) * 1000000
    stamps = body + 42
    if end - stamps >= 7:
        immediate = u32(stamps) | (le24(stamps + 4) << 32)
        if immediate >> 55:
            if end - stamps < 14:
                return k.BAD_EVENT
            stamp = u32(stamps + 7) | (le24(stamps + 11) << 32)
        else:
            stamp = immediate
    transaction = _new_transaction(frame, p, stamp, k.NO_GTID if anonymous else k.MYSQL_GTID)
    put64(transaction + k.T_UUID * 8, i64(body + 1))
    put64(transaction + k.T_UUID * 8 + 8, i64(body + 9))
    put64(transaction + k.T_NUMBER * 8, i64(body + 17))
    return k.DONE


@helper
def tagged_gtid(frame, p, body, end):
    """GTID_TAGGED_LOG_EVENT: one serialised message (facts sheet 2.5)."""
    version, at = _varint(body, end)
    size, at = _varint(at, end)
    last_field, at = _varint(at, end)
    if version != 1 or size < 0 or size > end - body or last_field < 0 or last_field > 12:
        return k.BAD_EVENT
    end = body + size
    transaction = _new_transaction(frame, p, u32(p) * 1000000, k.MYSQL_GTID)
    while at < end:
        field, at = _varint(at, end)
        if field < 0:
            return k.BAD_EVENT
        if field > 7:
            break
        value = 0
        if field == 1:
            for index in range(16):
                value, at = _varint(at, end)
                if value < 0 or value > 255:
                    return k.BAD_EVENT
                word = transaction + (k.T_UUID + (index >> 3)) * 8
                shift = 8 * (index & 7)
                before = 0 if shift == 0 else i64(word)
                put64(word, before | (value << shift))
        elif field == 3:
            value, at = _varint(at, end)
            if value < 0 or value > 32 or end - at < value:
                return k.BAD_EVENT
            put64(transaction + k.T_TAG_SIZE * 8, value)
            for index in range(4):
                word = 0
                for byte in range(8):
                    if index * 8 + byte < value:
                        word |= u8(at + index * 8 + byte) << (8 * byte)
                put64(transaction + (k.T_TAG + index) * 8, word)
            at += value
        else:
            value, at = _varint(at, end)
            if field == 2:
                put64(transaction + k.T_NUMBER * 8, value >> 1)
            elif field in (6, 7):
                put64(transaction + k.T_STAMP * 8, value)
    return k.DONE


@helper
def mariadb_gtid(frame, p, body, end):
    if end - body < 13:
        return k.BAD_EVENT
    transaction = _new_transaction(frame, p, u32(p) * 1000000, k.MARIADB_GTID)
    put64(transaction + k.T_NUMBER * 8, i64(body))
    put64(transaction + k.T_DOMAIN * 8, u32(body + 8))
    put64(transaction + k.T_SERVER * 8, u32(p + 5))
    return k.DONE
