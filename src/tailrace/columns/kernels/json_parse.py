"""A JSON text as a tree of values, each of NODE_WORDS words (see `frames.encode`)."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tailrace.columns.frames import encode as f
from tailrace.columns.frames import json_codes as j
from tailrace.columns.frames import text as t
from tailrace.columns.kernels.memory import (
    copy_in,
    get,
    helper,
    i64,
    put,
    put8,
    put32,
    u8,
    u32,
    umulh,
)
from tailrace.columns.kernels.number_text import LEAST, MOST, low_zeros, powers

_EXACT = tuple(10.0**power for power in range(23))
_LONGEST = 19  # the digits that fit into a word


@intrinsic
def _bits_of(typingctx: Any, value: Any) -> Any:
    """A double's bits as a number."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def _leading_zeros(typingctx: Any, value: Any) -> Any:
    """Count the zero bits above the highest set one; the value must not be 0."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


@helper
def double_bits(digits: int, exponent: int) -> int:
    """The double nearest to digits * 10**exponent, as bits; `BY_HAND` if undetermined.

    ``digits`` is an unsigned word. The double is never negative here.
    """
    if digits == 0:
        return 0
    if 0 < digits <= 1 << 53 and -22 <= exponent <= 22:
        value = float(digits)
        if exponent < 0:
            return _bits_of(value / _EXACT[-exponent])
        return _bits_of(value * _EXACT[exponent])
    if exponent < LEAST or exponent > MOST:
        return t.BY_HAND
    zeros = _leading_zeros(digits)
    digits <<= zeros
    power = powers() + ((exponent - LEAST) << 4)
    high = umulh(i64(power + 8), digits)
    low = i64(power + 8) * digits
    carried = low + umulh(i64(power), digits)
    # The sum's carry, from bit 63 of all three.
    high += ((low & ~carried) | ((low ^ ~carried) & umulh(i64(power), digits))) >> 63 & 1
    if carried in (0, -1):  # the power's last bit may be one too high, so the result is unclear
        return t.BY_HAND
    extra = 8 - _leading_zeros(high) + 3  # bits of `high` below the 53 of a double
    mantissa = (high >> extra) + ((high >> (extra - 1)) & 1)
    biased = extra + 3 - zeros + ((exponent * 1741647) >> 19) + 1075
    if mantissa >> 53:
        mantissa >>= 1
        biased += 1
    if biased < 1 or biased > 2046:
        return t.BY_HAND
    return biased << 52 | (mantissa & ((1 << 52) - 1))


@helper
def _is_digit(p: int, end: int) -> int:
    return p < end and 0x30 <= u8(p) <= 0x39


@helper
def _whole(node: int, value: int, negative: int) -> int:
    """Set type, data and size of a whole number; ``value`` is an unsigned word without its sign."""
    if negative and (value < 0 and value != -(1 << 63)):
        return t.BY_HAND
    number = -value if negative else value
    kind, size = 9, 8
    if -0x8000 <= number < 0x8000 and value >= 0:
        kind, size = 5, 2
    elif -0x80000000 <= number < 0x80000000 and value >= 0:
        kind, size = 7, 4
    elif not negative and (value < 0 or value > 0xFFFFFFFF):
        kind = 10
    put(node, f.V_TYPE, kind)
    put(node, f.V_DATA, number)
    put(node, f.V_SIZE, size)
    return 1


@helper
def read_number(p: int, end: int, node: int) -> int:
    """Read the number at ``p`` into a node: returns the address after it, or `BY_HAND`."""
    negative = int(u8(p) == 0x2D)
    p += negative
    start = p
    value = 0
    while _is_digit(p, end):
        value = value * 10 + u8(p) - 0x30
        p += 1
    count = p - start
    if count == 0 or (u8(start) == 0x30 and count > 1) or count > _LONGEST:
        return t.BY_HAND
    if p >= end or (u8(p) != 0x2E and u8(p) | 0x20 != 0x65):
        return p if _whole(node, value, negative) > 0 else t.BY_HAND
    exponent = 0
    if u8(p) == 0x2E:
        p += 1
        behind = p
        while _is_digit(p, end):
            value = value * 10 + u8(p) - 0x30
            p += 1
        exponent = behind - p
        # Leading zeros are not digits of the word.
        at = start
        while at < p and (u8(at) == 0x30 or u8(at) == 0x2E):
            at += 1
        if exponent == 0 or p - at - (at < behind) > _LONGEST:
            return t.BY_HAND
    if p < end and u8(p) | 0x20 == 0x65:
        p += 1
        sign = 1
        if p < end and (u8(p) == 0x2B or u8(p) == 0x2D):
            sign = 0x2C - u8(p)
            p += 1
        if not _is_digit(p, end):
            return t.BY_HAND
        power = 0
        while _is_digit(p, end):
            power = min(power * 10 + u8(p) - 0x30, 100000)
            p += 1
        exponent += sign * power
    bits = double_bits(value, exponent)
    if bits < 0:
        return t.BY_HAND
    put(node, f.V_TYPE, 11)
    put(node, f.V_DATA, bits | negative << 63)
    put(node, f.V_SIZE, 8)
    return p


NODE = f.NODE_WORDS * 8
_MOST_SMALL = 0xFFFF


@intrinsic
def _marks16(typingctx: Any, source: Any) -> Any:
    """A bit for each of 16 bytes that ends a run of plain ones: quote, backslash, control."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.IntType(8), 16)
        value = builder.load(builder.inttoptr(args[0], kind.as_pointer()), align=1)
        low = builder.icmp_unsigned("<", value, ir.Constant(kind, [0x20] * 16))
        quote = builder.icmp_unsigned("==", value, ir.Constant(kind, [0x22] * 16))
        slash = builder.icmp_unsigned("==", value, ir.Constant(kind, [0x5C] * 16))
        marks = builder.or_(low, builder.or_(quote, slash))
        return builder.zext(builder.bitcast(marks, ir.IntType(16)), ir.IntType(64))

    return types.int64(types.int64), codegen


@helper
def _plain_end(p: int, end: int, safe: int) -> int:
    """Where the run of plain bytes from ``p`` on ends: at most ``end``."""
    while p < end:
        if safe - p >= 16:
            marks = _marks16(p) | 1 << 16
            step = low_zeros(marks)
            p += step
            if step < 16:
                return min(p, end)
        else:
            byte = u8(p)
            if byte < 0x20 or byte in (0x22, 0x5C):
                return p
            p += 1
    return end


@helper
def _hex4(p: int) -> int:
    """The value of four hexadecimal digits; -1 if they are not."""
    value = 0
    for index in range(4):
        digit = u8(p + index)
        if 0x30 <= digit <= 0x39:
            digit -= 0x30
        else:
            digit = (digit | 0x20) - 0x57
            if digit < 10 or digit > 15:
                return -1
        value = value << 4 | digit
    return value


@helper
def _put_point(out: int, point: int) -> int:
    """Write a code point as UTF-8."""
    last = 0x80 | (point & 0x3F)
    if point < 0x80:
        put8(out, point)
        return out + 1
    if point < 0x800:
        put32(out, 0xC0 | point >> 6 | last << 8)
        return out + 2
    middle = 0x80 | (point >> 6) & 0x3F
    if point < 0x10000:
        put32(out, 0xE0 | point >> 12 | middle << 8 | last << 16)
        return out + 3
    put32(out, 0xF0 | point >> 18 | (0x80 | (point >> 12) & 0x3F) << 8 | middle << 16 | last << 24)
    return out + 4


@helper
def _letter(byte: int) -> int:
    """The character for the letter after a backslash; -1 if there is no such escape."""
    if byte in (0x22, 0x5C, 0x2F):
        return byte
    if byte == 0x6E:
        return 10
    if byte == 0x74:
        return 9
    if byte == 0x72:
        return 13
    if byte == 0x62:
        return 8
    return 12 if byte == 0x66 else -1


@helper
def _unescape(p: int, end: int, out: int, safe: int) -> tuple[int, int]:
    """Copy a string from ``p`` up to its quote: (address after the quote, after the copy)."""
    while True:
        stop = _plain_end(p, end, safe)
        copy_in(out, p, stop - p, safe)
        out += stop - p
        p = stop
        if end - p < 1 or u8(p) < 0x20:
            return t.BY_HAND, out
        if u8(p) == 0x22:
            return p + 1, out
        if end - p < 2:
            return t.BY_HAND, out
        if u8(p + 1) != 0x75:
            byte = _letter(u8(p + 1))
            if byte < 0:
                return t.BY_HAND, out
            put8(out, byte)
            out += 1
            p += 2
            continue
        point = _hex4(p + 2) if end - p >= 6 else -1
        p += 6
        if point >> 10 == 0x36 and end - p >= 6 and u8(p) == 0x5C and u8(p + 1) == 0x75:
            second = _hex4(p + 2)
            if second >> 10 == 0x37:
                point = 0x10000 + ((point & 0x3FF) << 10 | second & 0x3FF)
                p += 6
        if point < 0 or point >> 11 == 0x1B:
            return t.BY_HAND, out
        out = _put_point(out, point)


@helper
def _string(frame: int, p: int, end: int, texts: int) -> tuple[int, int, int, int]:
    """Read the string after the quote at ``p``: (after it, its bytes, their size, texts)."""
    safe = get(frame, t.DATA_END)
    stop = _plain_end(p + 1, end, safe)
    if stop < end and u8(stop) == 0x22:
        return stop + 1, p + 1, stop - p - 1, texts
    behind, out = _unescape(p + 1, end, texts, safe)
    return behind, texts, out - texts, out


@helper
def _blank(p: int, end: int) -> int:
    """The address of the first byte that is not a blank."""
    while p < end and (u8(p) in (0x20, 9, 10, 13)):
        p += 1
    return p


@helper
def _length_size(size: int) -> int:
    """The bytes that a length takes, 7 bits in each."""
    count = 1
    while size > 0x7F:
        size >>= 7
        count += 1
    return count


@helper
def _order(one: int, other: int) -> int:
    """Below 0 if a value's key comes before another's: by size, bytes, order in the text."""
    size = get(one, f.V_KEY_SIZE)
    if size != get(other, f.V_KEY_SIZE):
        return size - get(other, f.V_KEY_SIZE)
    left, right = get(one, f.V_KEY), get(other, f.V_KEY)
    for index in range(size):
        difference = u8(left + index) - u8(right + index)
        if difference:
            return difference
    return 0


@helper
def _copy_node(target: int, source: int) -> None:
    """Copy a value word by word: it was just written so; wider loads would wait for the stores."""
    put(target, 0, get(source, 0))
    put(target, 1, get(source, 1))
    put(target, 2, get(source, 2))
    put(target, 3, get(source, 3))
    put(target, 4, get(source, 4))
    put(target, 5, get(source, 5))
    put(target, 6, get(source, 6))


@helper
def _sort(first: int, count: int, spare: int) -> int:
    """Sort an object's values by key; of equal keys only the last is kept; returns how many remain.

    A Shell sort; ``spare`` is room for one value.
    """
    sound = True
    for index in range(1, count):
        if _order(first + (index - 1) * NODE, first + index * NODE) >= 0:
            sound = False
            break
    if sound:
        return count
    for index in range(count):
        put(first + index * NODE, f.V_PLACE, index)
    gap = 1
    while gap < count:
        gap = gap * 3 + 1
    while gap > 1:
        gap //= 3
        for index in range(gap, count):
            _copy_node(spare, first + index * NODE)
            at = index
            while at >= gap:
                above = first + (at - gap) * NODE
                order = _order(above, spare) or get(above, f.V_PLACE) - get(spare, f.V_PLACE)
                if order < 0:
                    break
                _copy_node(first + at * NODE, above)
                at -= gap
            _copy_node(first + at * NODE, spare)
    kept = 0
    for index in range(count):
        node = first + index * NODE
        if index + 1 < count and _order(node, node + NODE) == 0:
            continue
        _copy_node(first + kept * NODE, node)
        kept += 1
    return kept


@helper
def _close(node: int, top: int, heap: int, kind: int) -> int:
    """Make a container of the values after ``node`` up to ``top``; moves them to the heap.

    Returns the heap's end. ``kind`` is 0 for an object, 2 for an array.
    """
    first = node + NODE
    count = (top - first) // NODE
    if kind == j.OBJECT and count > 1:
        count = _sort(first, count, top)
    sizes = keys = longs = large = 0
    for index in range(count):
        child = first + index * NODE
        type_ = get(child, f.V_TYPE)
        size = get(child, f.V_SIZE)
        keys += get(child, f.V_KEY_SIZE)
        if type_ == j.INT32:
            longs += 4
        elif type_ in (j.LARGE_OBJECT, j.LARGE_ARRAY):
            large = 1
        if type_ not in (j.LITERAL, j.INT16):
            sizes += size
        _copy_node(heap + index * NODE, child)
    total = 4 + 3 * count + sizes
    if kind == j.OBJECT:
        total += 4 * count + keys
    if total > _MOST_SMALL or large:
        large = 1
        total = 8 + 5 * count + sizes - longs
        if kind == j.OBJECT:
            total += 6 * count + keys
    put(node, f.V_TYPE, kind + large)
    put(node, f.V_DATA, heap)
    put(node, f.V_COUNT, count)
    put(node, f.V_SIZE, total)
    return heap + count * NODE


@helper
def _literal(p: int, end: int, node: int) -> int:
    """Read null, true or false."""
    value = -1
    size = 4
    if end - p >= 4:
        word = u32(p)
        if word == 0x6C6C756E:
            value = 0
        elif word == 0x65757274:
            value = 1
        elif word == 0x736C6166 and end - p >= 5 and u8(p + 4) == 0x65:
            value = 2
            size = 5
    if value < 0:
        return t.BY_HAND
    put(node, f.V_TYPE, 4)
    put(node, f.V_DATA, value)
    put(node, f.V_SIZE, 1)
    return p + size


@helper
def parse(frame: int, p: int, end: int) -> int:
    """Parse a text, its root at NODES: 1, or `BY_HAND` if a kernel cannot read it as JSON."""
    node = get(frame, f.NODES)
    heap = get(frame, f.HEAP)
    texts = get(frame, f.TEXTS)
    levels = get(frame, f.LEVELS)
    depth = kind = 0
    opened = False
    put(node, f.V_KEY_SIZE, 0)
    while True:
        p = _blank(p, end)
        if p >= end:
            return t.BY_HAND
        byte = u8(p)
        opened = byte in (0x7B, 0x5B)
        if opened:
            if depth == t.DEPTH:
                return t.BY_HAND
            put(levels, depth, node << 1 | (byte == 0x5B))
            depth += 1
            kind = 2 * (byte == 0x5B)
            node += NODE
            p += 1
        elif byte == 0x22:
            p, data, size, texts = _string(frame, p, end, texts)
            put(node, f.V_TYPE, 12)
            put(node, f.V_DATA, data)
            put(node, f.V_COUNT, size)
            put(node, f.V_SIZE, size + _length_size(size))
        elif byte == 0x2D or 0x30 <= byte <= 0x39:
            p = read_number(p, end, node)
        else:
            p = _literal(p, end, node)
        if p < 0:
            return t.BY_HAND
        if not opened:
            node += NODE
        while True:
            p = _blank(p, end)
            if depth == 0:
                return 1 if p == end else t.BY_HAND
            if p >= end:
                return t.BY_HAND
            byte = u8(p)
            if byte == 0x7D - 0x20 * (kind >> 1):
                depth -= 1
                container = get(levels, depth) >> 1
                heap = _close(container, node, heap, kind)
                node = container + NODE
                if depth:
                    kind = 2 * (get(levels, depth - 1) & 1)
                opened = False
                p += 1
                continue
            if not opened:
                if byte != 0x2C:
                    return t.BY_HAND
                p = _blank(p + 1, end)
            if kind == j.OBJECT:
                if p >= end or u8(p) != 0x22:
                    return t.BY_HAND
                p, data, size, texts = _string(frame, p, end, texts)
                if p < 0 or size > _MOST_SMALL:
                    return t.BY_HAND
                put(node, f.V_KEY, data)
                put(node, f.V_KEY_SIZE, size)
                p = _blank(p, end)
                if p >= end or u8(p) != 0x3A:
                    return t.BY_HAND
                p += 1
            else:
                put(node, f.V_KEY_SIZE, 0)
            break
