"""Rows as lines for people (`tailrace.cli.values`), straight from a batch's Arrow buffers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tailrace.columns.kernels.decimal_text import put_decimal128
from tailrace.columns.kernels.digits import low_zeros, put_signed, put_unsigned
from tailrace.columns.kernels.each_row import each_row
from tailrace.columns.kernels.floats import put_float
from tailrace.columns.kernels.json_strings import utf8_width
from tailrace.columns.kernels.memory import (
    get,
    helper,
    i8,
    i16,
    i32,
    i64,
    put,
    put8,
    put16,
    put32,
    put64,
    same_bytes,
    u8,
    u32,
)
from tailrace.columns.kernels.row_json import bit_at, odd_value
from tailrace.columns.kernels.temporal_text import put_moment, put_span
from tailrace.columns.text_frames import (
    ARGUMENT,
    BAD_COLUMN,
    BAD_NUMBER,
    BARE,
    BINARY,
    COLUMN_COUNT,
    COLUMN_WORDS,
    COLUMNS,
    CUT_SHORT,
    DATE,
    DECIMAL,
    DECLARED_JSON,
    DOUBLE_FLOAT,
    FLOAT,
    INDEX,
    INT8,
    INT16,
    INT32,
    INT64,
    JSON,
    KEY,
    KIND,
    MOMENT,
    MORE,
    NOT_NULL,
    NOT_UTF8,
    NULL,
    ODD_END,
    ODD_TEXT_OFFSETS,
    ODD_TEXTS,
    PRESENT,
    R_HEADS,
    R_IMAGES,
    R_KEY,
    R_OP,
    R_TIES,
    TEXT,
    UINT64,
    UNIT,
    VALUE_OFFSETS,
    VALUES,
    VALUES_END,
    VECTOR,
)

_LONGEST = 200
"""Characters of a value that are shown, as `tailrace.cli.values` has it."""


@intrinsic
def _copy16_marking(typingctx: Any, target: Any, source: Any) -> Any:
    r"""Copy 16 bytes; give a bit for each that is a quote, a backslash, ``\n`` or ``\t``."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.IntType(8), 16)
        value = builder.load(builder.inttoptr(args[1], kind.as_pointer()), align=1)
        builder.store(value, builder.inttoptr(args[0], kind.as_pointer()), align=1)
        marks = builder.icmp_unsigned("==", value, ir.Constant(kind, [0x27] * 16))
        for byte in (0x5C, 0x0A, 0x09):
            found = builder.icmp_unsigned("==", value, ir.Constant(kind, [byte] * 16))
            marks = builder.or_(marks, found)
        return builder.zext(builder.bitcast(marks, ir.IntType(16)), ir.IntType(64))

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def _above_ascii16(typingctx: Any, address: Any) -> Any:
    """Give a bit for each of 16 bytes that is above 127."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.IntType(8), 16)
        value = builder.load(builder.inttoptr(args[0], kind.as_pointer()), align=1)
        marks = builder.icmp_signed("<", value, ir.Constant(kind, [0] * 16))
        return builder.zext(builder.bitcast(marks, ir.IntType(16)), ir.IntType(64))

    return types.int64(types.int64), codegen


@helper
def _measure(p, size, end):
    """How many bytes of UTF-8 text are shown, and its characters; -1 where it is not UTF-8."""
    at = chars = 0
    cut = -1
    while at < size:
        if size - at >= 16:
            marks = _above_ascii16(p + at)
        elif end - p - at >= 16:
            marks = _above_ascii16(p + at) & ((1 << (size - at)) - 1)
        else:
            marks = 1
        if marks == 0:
            step = min(size - at, 16)
            if cut < 0 and chars + step > _LONGEST:
                cut = at + _LONGEST - chars
            chars += step
            at += step
            continue
        width = utf8_width(p + at, p + size)
        if width == 0:
            return -1, 0
        if cut < 0 and chars == _LONGEST:
            cut = at
        chars += 1
        at += width
    return (size if cut < 0 else cut), chars


@helper
def _put_marked(out, p, size, end, quoted, limit):
    """Write text with its escapes, or, where it is not ``quoted``, with spaces for line ends."""
    stop = p + size
    while p < stop:
        if out > limit:
            return MORE
        step = stop - p
        if step >= 16:
            step = 16
            marks = _copy16_marking(out, p)
        elif end - p >= 16:
            marks = _copy16_marking(out, p) & ((1 << step) - 1)
        else:
            byte = u8(p)
            put8(out, byte)
            step = 1
            marks = int(byte in (0x27, 0x5C, 0x0A, 0x09))
        if marks == 0:
            out += step
            p += step
            continue
        step = low_zeros(marks)
        out += step
        p += step
        byte = u8(p)
        p += 1
        if quoted == 0:
            put8(out, 0x20 if byte == 0x0A else byte)
            out += 1
            continue
        if byte == 0x0A:
            put16(out, 0x6E5C)
        elif byte == 0x09:
            put16(out, 0x745C)
        else:
            put16(out, byte | byte << 8)
        out += 2
    return out


@helper
def _put_more(out):
    """Write what stands before a count of what is not shown."""
    put32(out, 0x20A680E2)  # …
    return out + 4


@helper
def _put_count(out, count):
    """Write a number with commas between thousands."""
    if count >= 1000:
        if count >= 1000000:
            out = put_unsigned(out, count // 1000000)
            put8(out, 0x2C)
            middle = count // 1000 % 1000
            out += 1
            put8(out, 0x30 + middle // 100)
            put8(out + 1, 0x30 + middle // 10 % 10)
            put8(out + 2, 0x30 + middle % 10)
            out += 3
        else:
            out = put_unsigned(out, count // 1000)
        low = count % 1000
        put8(out, 0x2C)
        put8(out + 1, 0x30 + low // 100)
        put8(out + 2, 0x30 + low // 10 % 10)
        put8(out + 3, 0x30 + low % 10)
        return out + 4
    return put_unsigned(out, count)


@helper
def _put_size(out, count, ties):
    """Write how much is not shown, as sizes are: 12 B, 1.5 kB."""
    out = _put_more(out)
    if count < 1000:
        out = put_unsigned(out, count)
        put16(out, 0x4220)
        out += 2
    else:
        tenths = count // 100
        rest = count - tenths * 100
        if rest > 50 or (rest == 50 and u8(ties + tenths)):
            tenths += 1
        out = put_unsigned(out, tenths // 10)
        put8(out, 0x2E)
        put8(out + 1, 0x30 + tenths % 10)
        put32(out + 2, 0x426B20)
        out += 5
    put64(out, 0x65726F6D20)  # more
    return out + 5


@helper
def _put_characters(out, count):
    """Write how many characters are not shown, if any."""
    if count <= 0:
        return out
    out = _put_count(_put_more(out), count)
    put64(out, 0x7463617261686320)  # charact
    put64(out + 8, 0x65726F6D20737265)  # ers more
    return out + 16


@helper
def _put_text(out, p, size, end, bare, limit):
    """Write text in quotes."""
    cut, chars = _measure(p, size, end)
    if cut < 0:
        return NOT_UTF8
    if bare == 0:
        put8(out, 0x27)
        out += 1
    out = _put_marked(out, p, cut, end, 1, limit)
    if out <= 0 or bare:
        return out
    put8(out, 0x27)
    out += 1
    return _put_characters(out, chars - _LONGEST)


@helper
def _put_document(out, p, size, end, limit):
    """Write a JSON document on one line."""
    cut, chars = _measure(p, size, end)
    if cut < 0:
        return NOT_UTF8
    out = _put_marked(out, p, cut, end, 0, limit)
    return out if out <= 0 else _put_characters(out, chars - _LONGEST)


@helper
def _hex(value):
    return value + 0x30 + 39 * (value > 9)


@helper
def _put_bytes(out, p, size, ties):
    """Write bytes in hexadecimal."""
    if size == 0:
        put16(out, 0x2727)
        return out + 2
    put16(out, 0x7830)
    out += 2
    shown = min(size, _LONGEST // 2)
    for i in range(shown):
        byte = u8(p + i)
        put16(out, _hex(byte >> 4) | _hex(byte & 15) << 8)
        out += 2
    if size > shown:
        if size - shown >= 999950:
            return BAD_NUMBER
        out = _put_size(out, size - shown, ties)
    return out


@helper
def _put_floats(out, column, row, limit):
    """Write a vector."""
    values = get(column, VALUES)
    offsets = get(column, VALUE_OFFSETS)
    first = u32(offsets + 4 * row)
    end = u32(offsets + 4 * row + 4)
    if end < first or values + 4 * end > get(column, VALUES_END):
        return CUT_SHORT
    put8(out, 0x5B)
    out += 1
    shown = min(end - first, _LONGEST // 10)
    for i in range(first, first + shown):
        if out > limit:
            return MORE
        bits = u32(values + 4 * i)
        if bits >> 23 & 0xFF == 0xFF:
            return BAD_NUMBER
        out = put_float(out, bits, 23, -3, 16, 1)
        put8(out, 0x2C)
        out += 1
    out -= shown > 0
    put8(out, 0x5D)
    out += 1
    if end - first > shown:
        out = _put_count(_put_more(out), end - first - shown)
        put64(out, 0x737265626D756E20)  # numbers
        put64(out + 8, 0x65726F6D20)  # more
        out += 13
    return out


@helper
def _put_variable(out, column, row, ties, limit):
    """Write a value of variable length."""
    kind = get(column, KIND)
    if kind == VECTOR:
        return _put_floats(out, column, row, limit)
    safe = get(column, VALUES_END)
    offsets = get(column, VALUE_OFFSETS)
    p = get(column, VALUES) + u32(offsets + 4 * row)
    stop = get(column, VALUES) + u32(offsets + 4 * row + 4)
    if stop < p or stop > safe:
        return CUT_SHORT
    if out > limit - 3 * _LONGEST:
        return MORE
    if kind == BINARY:
        return _put_bytes(out, p, stop - p, ties)
    if kind in (JSON, DECLARED_JSON):
        return _put_document(out, p, stop - p, safe, limit)
    return _put_text(out, p, stop - p, safe, get(column, BARE), limit)


@helper
def _put_fixed(out, column, row):
    """Write a value of fixed size."""
    kind = get(column, KIND)
    p = get(column, VALUES)
    if kind <= INT64:
        if kind == INT32:
            value = i32(p + 4 * row)
        elif kind == INT64:
            value = i64(p + 8 * row)
        else:
            value = i8(p + row) if kind == INT8 else i16(p + 2 * row)
        return put_signed(out, value)
    if kind == UINT64:
        return BAD_NUMBER if i64(p + 16 * row + 8) else put_unsigned(out, i64(p + 16 * row))
    if kind == DOUBLE_FLOAT:
        bits = i64(p + 8 * row)
        return BAD_NUMBER if bits >> 52 & 0x7FF == 0x7FF else put_float(out, bits, 52, -3, 16, 1)
    if kind == FLOAT:
        bits = u32(p + 4 * row)
        return BAD_NUMBER if bits >> 23 & 0xFF == 0xFF else put_float(out, bits, 23, -3, 16, 1)
    argument = get(column, ARGUMENT)
    if kind == DECIMAL:
        return put_decimal128(out, p + 16 * row, argument, get(column, UNIT))
    put8(out, 0x27)
    out += 1
    if kind == DATE:
        out = put_moment(out, i32(p + 4 * row), 0, -1)
    elif kind == MOMENT:
        value = i64(p + 8 * row)
        days = value // 86400000000
        out = put_moment(out, days, value - days * 86400000000, argument)
    else:
        out = put_span(out, i64(p + 8 * row), argument)
    if out > 0:
        put8(out, 0x27)
        out += 1
    return out


@helper
def _put_value(out, column, row, image, ties, limit):
    """Write a value, or NULL."""
    if out > limit:
        return MORE
    valid = get(column, NOT_NULL)
    kind = get(column, KIND)
    if kind != NULL and (valid == 0 or bit_at(valid, get(column, NOT_NULL + 1) + row)):
        if kind >= TEXT:
            return _put_variable(out, column, row, ties, limit)
        return _put_fixed(out, column, row)
    index = odd_value(image, column, row)
    if index < 0:
        put32(out, 0x4C4C554E)
        return out + 4
    offsets = get(image, ODD_TEXT_OFFSETS)
    p = get(image, ODD_TEXTS) + u32(offsets + 4 * index)
    size = u32(offsets + 4 * index + 4) - u32(offsets + 4 * index)
    return _put_text(out, p, size, get(image, ODD_END), 0, limit)


@helper
def _put_name(out, column, limit):
    """Write a column's name."""
    name = get(column, KEY)
    size = get(column, KEY + 1)
    if out + size > limit:
        return MORE
    done = 0
    while done < size:
        put64(out + done, i64(name + done))
        done += 8
    return out + size


@helper
def _put_assigned(out, column, row, image, ties, limit):
    """Write `` name=value``."""
    put8(out, 0x20)
    out = _put_name(out + 1, column, limit)
    if out <= 0:
        return out
    put8(out, 0x3D)
    return _put_value(out + 1, column, row, image, ties, limit)


@helper
def _is_present(image, row, column):
    """Whether a row's image has a column."""
    present = get(image, PRESENT)
    if present == 0:
        return 1
    size = i64(present + 16 * row + 8)
    index = get(column, INDEX)
    if size < 0:
        return 1
    return int(index < 8 * size and bit_at(i64(present + 16 * row), index) == 1)


@helper
def _same_number(a, b, exponent, sign):
    """Whether two floats are equal, given their bits."""
    if a == b:
        return int(a & exponent != exponent or a & (exponent & -exponent) - 1 == 0)
    return int((a | b) & ~sign == 0)


@helper
def _same_present(old, new, row):
    """Whether two values of a column that are not NULL are equal."""
    kind = get(old, KIND)
    p, q = get(old, VALUES), get(new, VALUES)
    if kind == DOUBLE_FLOAT:
        return _same_number(
            i64(p + 8 * row), i64(q + 8 * row), 0x7FF0000000000000, -0x8000000000000000
        )
    if kind == FLOAT:
        return _same_number(u32(p + 4 * row), u32(q + 4 * row), 0x7F800000, 0x80000000)
    if kind < TEXT:
        if kind == INT8:
            return int(i8(p + row) == i8(q + row))
        if kind == INT16:
            return int(i16(p + 2 * row) == i16(q + 2 * row))
        if kind in (INT32, DATE):
            return int(i32(p + 4 * row) == i32(q + 4 * row))
        if kind in (UINT64, DECIMAL):
            return same_bytes(p + 16 * row, q + 16 * row, 16)
        return int(i64(p + 8 * row) == i64(q + 8 * row))  # INT64, MOMENT, SPAN
    a, b = get(old, VALUE_OFFSETS) + 4 * row, get(new, VALUE_OFFSETS) + 4 * row
    size = u32(a + 4) - u32(a)
    if size != u32(b + 4) - u32(b):
        return 0
    if kind != VECTOR:
        return same_bytes(p + u32(a), q + u32(b), size)
    for i in range(size):
        x, y = u32(p + 4 * (u32(a) + i)), u32(q + 4 * (u32(b) + i))
        if _same_number(x, y, 0x7F800000, 0x80000000) == 0:
            return 0
    return 1


@helper
def _same(old, new, row, before, after):
    """Whether an update left a column's value as it was."""
    if get(old, KIND) == NULL:
        return 1
    valid, other = get(old, NOT_NULL), get(new, NOT_NULL)
    one = valid == 0 or bit_at(valid, get(old, NOT_NULL + 1) + row)
    two = other == 0 or bit_at(other, get(new, NOT_NULL + 1) + row)
    if one and two:
        return _same_present(old, new, row)
    if one or two:
        return 0
    a, b = odd_value(before, old, row), odd_value(after, new, row)
    if a < 0 or b < 0:
        return int(a < 0 and b < 0)
    a = get(before, ODD_TEXT_OFFSETS) + 4 * a
    b = get(after, ODD_TEXT_OFFSETS) + 4 * b
    size = u32(a + 4) - u32(a)
    if size != u32(b + 4) - u32(b):
        return 0
    return same_bytes(get(before, ODD_TEXTS) + u32(a), get(after, ODD_TEXTS) + u32(b), size)


@helper
def _put_image(out, row, image, key, count, ties, limit):
    """Write the columns that an image has: all, or of ``count`` whose numbers stand at ``key``."""
    columns = get(image, COLUMNS)
    for place in range(count if key else get(image, COLUMN_COUNT)):
        number = i64(key + 8 * place) if key else place
        column = columns + number * 8 * COLUMN_WORDS
        if _is_present(image, row, column) == 0:
            continue
        out = _put_assigned(out, column, row, image, ties, limit)
        if out <= 0:
            put(image, BAD_COLUMN, number)
            return out
    return out


@helper
def _put_change(out, row, before, after, ties, limit):
    """Write what an update changed."""
    put8(out, 0x20)
    out += 1
    olds, news = get(before, COLUMNS), get(after, COLUMNS)
    changed = 0
    for number in range(get(after, COLUMN_COUNT)):
        old = olds + number * 8 * COLUMN_WORDS
        new = news + number * 8 * COLUMN_WORDS
        if _is_present(after, row, new) == 0:
            continue
        was = _is_present(before, row, old)
        if was and _same(old, new, row, before, after):
            continue
        if changed:
            put8(out, 0x2C)
            out += 1
        changed = 1
        put8(out, 0x20)
        out = _put_name(out + 1, new, limit)
        if out <= 0:
            return out
        put16(out, 0x203A)
        out += 2
        if was:
            out = _put_value(out, old, row, before, ties, limit)
            if out <= 0:
                return out
        else:
            put8(out, 0x3F)
            out += 1
        put64(out, 0x209286E220)  # →
        out = _put_value(out + 5, new, row, after, ties, limit)
        if out <= 0:
            return out
    if changed == 0:
        put64(out, 0x616863206F6E2820)  # (no cha
        put32(out + 8, 0x2965676E)  # nge)
        out += 12
    return out


@each_row
def row_text(out: int, row: int, frame: int, limit: int) -> int:
    """Write one row's line; the address behind it, or a code."""
    op = u8(get(frame, R_OP) + row)
    ties = get(frame, R_TIES)
    head = get(frame, R_HEADS) + 16 * op
    size = i64(head + 8)
    if out + size > limit:
        return MORE
    done = 0
    while done < size:
        put64(out + done, i64(i64(head) + done))
        done += 8
    out += size
    before, after = get(frame, R_IMAGES), get(frame, R_IMAGES + 3)
    image = after if op == 0 else before
    key = get(frame, R_KEY) if op == 1 else 0
    out = _put_image(out, row, image, key, get(frame, R_KEY + 1), ties, limit)
    if out > 0 and op == 1:
        out = _put_change(out, row, before, after, ties, limit)
    if out <= 0:
        return out
    if out > limit:
        return MORE
    put8(out, 0x0A)
    return out + 1
