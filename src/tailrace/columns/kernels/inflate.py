"""Deflated bytes (RFC 1951) as what they were: MariaDB's compressed columns and rows events.

Such values have some hundred bytes, so that a call of zlib takes longer than its work. Whatever is
not a sound stream of exactly the expected size is `BY_HAND`: then zlib decides, and has the error.

A symbol is found by the stream's next bits in a table; where its code is longer than the table's
index, by counting up the codes of each length, as they are numbered in order.
"""

from __future__ import annotations

from typing import Final

from tailrace.columns.frames import text as f
from tailrace.columns.kernels.each_row import each_row
from tailrace.columns.kernels.memory import (
    be32,
    copy16,
    copy_exactly,
    get,
    helper,
    put8,
    put16,
    u8,
    u16,
    u32,
)

_LONGEST: Final = 15
"""Bits of the longest code."""
_INDEX: Final = 10
"""Bits of a table's index."""
_END_OF_BLOCK: Final = 256
_LITERALS: Final = 288
"""Symbols of literals and lengths in the fixed code; the last two are never used."""
_DISTANCES: Final = 30
_BEST_RATIO: Final = 1032
"""The most bytes that deflate makes of one."""
_ORDER: Final = 0x22CAA324E804A30
"""The symbols of the code for lengths of codes in their order, five bits each: the first twelve."""
_ORDER_REST: Final = 0x3C2E1346C
_ADLER: Final = 65521
_ADLER_STEP: Final = 5552
"""After so many bytes at most, the sums of Adler-32 must be reduced."""

# A code: a table of symbol << 4 | length, 0 where the code is longer; the number of codes of each
# length; the symbols in the order of their codes. All have 16 bits.
_COUNTS: Final = 2 << _INDEX
_SYMBOLS: Final = _COUNTS + 2 * (_LONGEST + 1)
_CODE_BYTES: Final = _SYMBOLS + 2 * _LITERALS

# The working memory: the codes of a block for literals and for distances, the fixed ones, the
# lengths of a code's symbols, places in the list of symbols, and whether the fixed ones are made.
_FIXED: Final = 2 * _CODE_BYTES
_LENGTHS: Final = 4 * _CODE_BYTES
_PLACES: Final = _LENGTHS + 320
_MADE: Final = f.WORK_BYTES - 1


@helper
def _make_code(code: int, lengths: int, count: int, places: int) -> int:
    """Make the code whose symbols have these lengths; 0 if it lacks some bits, or has too many."""
    for length in range(_LONGEST + 1):
        put16(code + _COUNTS + 2 * length, 0)
    for symbol in range(count):
        at = code + _COUNTS + 2 * u8(lengths + symbol)
        put16(at, u16(at) + 1)
    left = 1
    place = 0
    for length in range(1, _LONGEST + 1):
        codes = u16(code + _COUNTS + 2 * length)
        left = 2 * left - codes
        put16(places + 2 * length, place)
        place += codes
        if left < 0:
            return 0
    if left:
        return 0
    for symbol in range(count):
        length = u8(lengths + symbol)
        if length:
            place = u16(places + 2 * length)
            put16(places + 2 * length, place + 1)
            put16(code + _SYMBOLS + 2 * place, symbol)
    for index in range(1 << _INDEX):
        put16(code + 2 * index, 0)
    place = 0
    number = 0  # the code, its first bit lowest, as in the stream
    for length in range(1, _INDEX + 1):
        for _ in range(u16(code + _COUNTS + 2 * length)):
            entry = u16(code + _SYMBOLS + 2 * place) << 4 | length
            for index in range(number, 1 << _INDEX, 1 << length):
                put16(code + 2 * index, entry)
            place += 1
            bit = 1 << (length - 1)
            while number & bit:
                bit >>= 1
            number = (number & (bit - 1)) | bit if bit else 0
    return 1


@helper
def _make_fixed(work: int) -> None:
    """Make the fixed codes, once."""
    if u8(work + _MADE):
        return
    lengths = work + _LENGTHS
    for symbol in range(_LITERALS):
        longer = (symbol > 143) - 2 * (symbol > 255) + (symbol > 279)
        put8(lengths + symbol, 8 + longer)
    _make_code(work + _FIXED, lengths, _LITERALS, work + _PLACES)
    for symbol in range(32):
        put8(lengths + symbol, 5)
    _make_code(work + _FIXED + _CODE_BYTES, lengths, 32, work + _PLACES)
    put8(work + _MADE, 1)


@helper
def _four(p: int, end: int) -> int:
    """The next four bytes as a number; zeros after the end."""
    if end - p >= 4:
        return u32(p)
    word = 0
    for index in range(end - p):
        word |= u8(p + index) << (8 * index)
    return word


@helper
def _symbol(code: int, bits: int) -> int:
    """The symbol whose code comes first in ``bits``, and its length: symbol << 4 | length."""
    entry = u16(code + 2 * (bits & ((1 << _INDEX) - 1)))
    if entry:
        return entry
    number = first = place = 0
    for length in range(1, _LONGEST + 1):
        number |= bits & 1
        bits >>= 1
        codes = u16(code + _COUNTS + 2 * length)
        if number < first + codes:
            return u16(code + _SYMBOLS + 2 * (place + number - first)) << 4 | length
        place += codes
        first = (first + codes) << 1
        number <<= 1
    return 0


@helper
def _read_codes(p: int, end: int, bits: int, held: int, work: int) -> tuple[int, int, int]:
    """Read a block's own codes: the stream's state after them, or `BY_HAND` as the address."""
    lengths = work + _LENGTHS
    literals = 257 + (bits & 31)
    distances = 1 + (bits >> 5 & 31)
    count = 4 + (bits >> 10 & 15)
    bits >>= 14
    held -= 14
    if literals > 286 or distances > _DISTANCES:
        return f.BY_HAND, 0, 0
    for index in range(19):
        if held < 32:
            bits |= _four(p, end) << held
            p += 4
            held += 32
        symbol = (_ORDER >> (5 * index) if index < 12 else _ORDER_REST >> (5 * index - 60)) & 31
        put8(lengths + symbol, bits & 7 if index < count else 0)
        if index < count:
            bits >>= 3
            held -= 3
    if not _make_code(work, lengths, 19, work + _PLACES):
        return f.BY_HAND, 0, 0
    done = 0
    while done < literals + distances:
        if held < 32:
            bits |= _four(p, end) << held
            p += 4
            held += 32
        symbol = _symbol(work, bits)
        bits >>= symbol & 15
        held -= symbol & 15
        symbol >>= 4
        length = times = 1
        if symbol < 16:
            length = symbol
        elif symbol == 16:
            if done == 0:
                return f.BY_HAND, 0, 0
            length = u8(lengths + done - 1)
            times = 3 + (bits & 3)
            bits >>= 2
            held -= 2
        else:
            length = 0
            extra = 3 if symbol == 17 else 7
            times = (3 if symbol == 17 else 11) + (bits & ((1 << extra) - 1))
            bits >>= extra
            held -= extra
        if done + times > literals + distances:
            return f.BY_HAND, 0, 0
        for _ in range(times):
            put8(lengths + done, length)
            done += 1
    if (
        u8(lengths + _END_OF_BLOCK) == 0
        or not _make_code(work, lengths, literals, work + _PLACES)
        or not _make_code(work + _CODE_BYTES, lengths + literals, distances, work + _PLACES)
    ):
        return f.BY_HAND, 0, 0
    return p, bits, held


@helper
def _repeat(out: int, distance: int, length: int) -> None:
    """Write ``length`` bytes that repeat what stands ``distance`` before; up to 15 bytes more."""
    while distance < 16 and distance < length:
        copy16(out, out - distance)
        out += distance
        length -= distance
        distance *= 2
    while length > 0:
        copy16(out, out - distance)
        out += 16
        length -= 16


@helper
def inflate(p: int, end: int, out: int, size: int, work: int) -> int:
    """Write the ``size`` bytes of a stream to ``out``, and up to 15 more.

    Returns the address after the stream, or `BY_HAND`. ``work`` is the address of WORK_BYTES, zeros
    at first.
    """
    start = out
    stop = out + size
    bits = held = is_last = 0
    while not is_last:
        if held < 32:
            bits |= _four(p, end) << held
            p += 4
            held += 32
        is_last = bits & 1
        kind = bits >> 1 & 3
        bits >>= 3
        held -= 3
        if kind == 0:
            p -= held >> 3
            bits = held = 0
            if end - p < 4:
                return f.BY_HAND
            length = u16(p)
            if length + u16(p + 2) != 0xFFFF or length > end - p - 4 or length > stop - out:
                return f.BY_HAND
            copy_exactly(out, p + 4, length)
            out += length
            p += 4 + length
            continue
        codes = work
        if kind == 1:
            _make_fixed(work)
            codes = work + _FIXED
        elif kind == 2:
            p, bits, held = _read_codes(p, end, bits, held, work)
        if kind == 3 or p < 0:
            return f.BY_HAND
        while True:
            if held < 32:
                bits |= _four(p, end) << held
                p += 4
                held += 32
            symbol = _symbol(codes, bits)
            bits >>= symbol & 15
            held -= symbol & 15
            symbol >>= 4
            if symbol < _END_OF_BLOCK:
                if out >= stop:
                    return f.BY_HAND
                put8(out, symbol)
                out += 1
                continue
            if symbol == _END_OF_BLOCK:
                break
            symbol -= _END_OF_BLOCK + 1
            if symbol > 28:
                return f.BY_HAND
            extra = (symbol >> 2) - 1 if 8 <= symbol < 28 else 0
            length = 3 + symbol if symbol < 8 else 3 + ((4 + (symbol & 3)) << extra)
            length = 258 if symbol == 28 else length + (bits & ((1 << extra) - 1))
            bits >>= extra
            held -= extra
            if held < 32:
                bits |= _four(p, end) << held
                p += 4
                held += 32
            symbol = _symbol(codes + _CODE_BYTES, bits)
            bits >>= symbol & 15
            held -= symbol & 15
            symbol >>= 4
            extra = (symbol >> 1) - 1 if symbol > 3 else 0
            distance = 1 + symbol if symbol < 4 else 1 + ((2 + (symbol & 1)) << extra)
            distance += bits & ((1 << extra) - 1)
            bits >>= extra
            held -= extra
            if symbol >= _DISTANCES or distance > out - start or length > stop - out:
                return f.BY_HAND
            _repeat(out, distance, length)
            out += length
    p -= held >> 3
    return p if p <= end and out == stop else f.BY_HAND


@helper
def _adler32(p: int, size: int) -> int:
    low = 1
    high = 0
    while size > 0:
        step = min(size, _ADLER_STEP)
        for index in range(step):
            low += u8(p + index)
            high += low
        low %= _ADLER
        high %= _ADLER
        p += step
        size -= step
    return high << 16 | low


@helper
def inflate_zlib(p: int, end: int, out: int, size: int, work: int) -> int:
    """As `inflate`, of a stream in zlib's format, whose checksum is verified."""
    if end - p < 6 or u8(p) & 0x8F != 8 or u8(p + 1) & 0x20 or (u8(p) << 8 | u8(p + 1)) % 31:
        return f.BY_HAND
    p = inflate(p + 2, end, out, size, work)
    if p < 0 or end - p < 4 or be32(p) != _adler32(out, size):
        return f.BY_HAND
    return p + 4


def inflate_rows(begin: int, end: int, out: int, room: int, work: int) -> int:
    """Write the rows of MariaDB's compressed rows event (`events.compression`): their size.

    `BY_HAND` if they are more than ``room`` bytes, or unusual.
    """
    count = u8(begin) & 7
    if u8(begin) & 0xF8 != 0x80 or not 1 <= count <= 4 or end - begin <= count:
        return f.BY_HAND
    size = 0
    for index in range(1, count + 1):
        size = size << 8 | u8(begin + index)
    if size > room:
        return f.BY_HAND
    return size if inflate_zlib(begin + 1 + count, end, out, size, work) == end else f.BY_HAND


@each_row
def uncompressed(out: int, row: int, frame: int, limit: int) -> int:
    """Write one value of a compressed column; without WORK nothing, but its size counts."""
    offsets = get(frame, f.OFFSETS) + 4 * row
    p = get(frame, f.DATA) + u32(offsets)
    stop = get(frame, f.DATA) + u32(offsets + 4)
    if stop < p or stop > get(frame, f.DATA_END):
        return f.CUT_SHORT
    if p == stop:
        return out
    head = u8(p)
    work = get(frame, f.WORK)
    p += 1
    size = 0
    if head == 0:
        size = stop - p
    else:
        count = head & 7
        if head & 0xF0 != 0x80 or not 1 <= count <= 4 or stop - p < count:
            return f.BY_HAND if work else out
        for _ in range(count):
            size = size << 8 | u8(p)
            p += 1
        if size > get(frame, f.LIMIT) or size > _BEST_RATIO * (stop - p):
            return f.BY_HAND if work else out
    if work == 0:
        return out + size
    if out + size > limit:
        return f.MORE
    if head == 0:
        copy_exactly(out, p, size)
    elif head & 8:
        p = inflate(p, stop, out, size, work)
    else:
        p = inflate_zlib(p, stop, out, size, work)
    return out + size if p > 0 else f.BY_HAND
