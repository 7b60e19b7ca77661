"""Rows as lines for people (`tailrace.cli.log.text`), straight from a batch's Arrow buffers."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tailrace.columns.frames import text as f
from tailrace.columns.kernels.column_value import (
    has_value,
    is_present,
    odd_text,
    odd_value,
    put_number,
    put_time,
    put_vector,
    put_words,
    same_odd,
    same_value,
)
from tailrace.columns.kernels.each_row import each_row
from tailrace.columns.kernels.memory import (
    get,
    helper,
    i64,
    put,
    put8,
    put16,
    put32,
    put64,
    u8,
    u32,
)
from tailrace.columns.kernels.number_text import put_unsigned
from tailrace.columns.kernels.strings import copying, copying16, utf8_width

_LONGEST = 200
"""Characters of a value that are shown, as in `tailrace.cli.log.text`."""


_MARKED: Final = (0x27, 0x5C, 0x0A, 0x09)
_copy_plain = copying(copying16(_MARKED, plain_ascii=False), _MARKED, plain_ascii=False)


@intrinsic
def _above_ascii16(typingctx: Any, address: Any) -> Any:
    """A bit for each of 16 bytes that is above 127."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.IntType(8), 16)
        value = builder.load(builder.inttoptr(args[0], kind.as_pointer()), align=1)
        marks = builder.icmp_signed("<", value, ir.Constant(kind, [0] * 16))
        return builder.zext(builder.bitcast(marks, ir.IntType(16)), ir.IntType(64))

    return types.int64(types.int64), codegen


@helper
def _measure(p, size, end):
    """How many bytes of UTF-8 text are shown, and its characters; -1 if it is not UTF-8."""
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
    """Write text with its escapes, or, if not ``quoted``, with spaces for line ends."""
    stop = p + size
    while p < stop:
        if out > limit:
            return f.MORE
        step, marked = _copy_plain(out, p, stop, end)
        out += step
        p += step
        if marked == 0:
            continue
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
    """Write the ellipsis before a count of what is not shown."""
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
    """Write the size of what is not shown, formatted like sizes: 12 B, 1.5 kB."""
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
        return f.NOT_UTF8
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
        return f.NOT_UTF8
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
            return f.BAD_NUMBER
        out = _put_size(out, size - shown, ties)
    return out


@helper
def _put_floats(out, column, row, limit):
    """Write a vector."""
    shown = _LONGEST // 10
    out = put_vector(out, column, row, shown, limit)
    offsets = get(column, f.VALUE_OFFSETS) + 4 * row
    more = u32(offsets + 4) - u32(offsets) - shown
    if out > 0 and more > 0:
        out = _put_count(_put_more(out), more)
        put64(out, 0x737265626D756E20)  # numbers
        put64(out + 8, 0x65726F6D20)  # more
        out += 13
    return out


@helper
def _put_variable(out, column, row, ties, limit):
    """Write a value of variable length."""
    kind = get(column, f.KIND)
    if kind == f.VECTOR:
        return _put_floats(out, column, row, limit)
    safe = get(column, f.VALUES_END)
    offsets = get(column, f.VALUE_OFFSETS)
    p = get(column, f.VALUES) + u32(offsets + 4 * row)
    stop = get(column, f.VALUES) + u32(offsets + 4 * row + 4)
    if stop < p or stop > safe:
        return f.CUT_SHORT
    if out > limit - 3 * _LONGEST:
        return f.MORE
    if kind == f.BINARY:
        return _put_bytes(out, p, stop - p, ties)
    if kind in (f.JSON, f.DECLARED_JSON):
        return _put_document(out, p, stop - p, safe, limit)
    return _put_text(out, p, stop - p, safe, get(column, f.BARE), limit)


@helper
def _put_fixed(out, column, row):
    """Write a value of fixed size."""
    if get(column, f.KIND) <= f.DECIMAL:
        return put_number(out, column, row)
    put8(out, 0x27)
    out = put_time(out + 1, column, row)
    if out > 0:
        put8(out, 0x27)
        out += 1
    return out


@helper
def _put_value(out, column, row, image, ties, limit):
    """Write a value, or NULL."""
    if out > limit:
        return f.MORE
    if has_value(column, row):
        if get(column, f.KIND) >= f.TEXT:
            return _put_variable(out, column, row, ties, limit)
        return _put_fixed(out, column, row)
    index = odd_value(image, column, row)
    if index < 0:
        put32(out, 0x4C4C554E)
        return out + 4
    p, size = odd_text(image, index)
    return _put_text(out, p, size, get(image, f.ODD_END), 0, limit)


@helper
def _put_assigned(out, column, row, image, ties, limit):
    """Write `` name=value``."""
    put8(out, 0x20)
    out = put_words(out + 1, get(column, f.KEY), get(column, f.KEY + 1), limit)
    if out <= 0:
        return out
    put8(out, 0x3D)
    return _put_value(out + 1, column, row, image, ties, limit)


@helper
def _same_number(a, b, exponent, sign):
    """Whether two floats are equal, given their bits."""
    if a == b:
        return int(a & exponent != exponent or a & (exponent & -exponent) - 1 == 0)
    return int((a | b) & ~sign == 0)


@helper
def _same_present(old, new, row):
    """Whether two values of a column that are not NULL are equal."""
    kind = get(old, f.KIND)
    p, q = get(old, f.VALUES), get(new, f.VALUES)
    if kind == f.DOUBLE_FLOAT:
        return _same_number(
            i64(p + 8 * row), i64(q + 8 * row), 0x7FF0000000000000, -0x8000000000000000
        )
    if kind == f.FLOAT:
        return _same_number(u32(p + 4 * row), u32(q + 4 * row), 0x7F800000, 0x80000000)
    if kind != f.VECTOR:
        return same_value(old, new, row)
    a, b = get(old, f.VALUE_OFFSETS) + 4 * row, get(new, f.VALUE_OFFSETS) + 4 * row
    size = u32(a + 4) - u32(a)
    if size != u32(b + 4) - u32(b):
        return 0
    for i in range(size):
        x, y = u32(p + 4 * (u32(a) + i)), u32(q + 4 * (u32(b) + i))
        if _same_number(x, y, 0x7F800000, 0x80000000) == 0:
            return 0
    return 1


@helper
def _same(old, new, row, before, after):
    """Whether an update left a column's value unchanged."""
    if get(old, f.KIND) == f.NULL:
        return 1
    one, two = has_value(old, row), has_value(new, row)
    if one and two:
        return _same_present(old, new, row)
    if one or two:
        return 0
    a, b = odd_value(before, old, row), odd_value(after, new, row)
    if a < 0 or b < 0:
        return int(a < 0 and b < 0)
    return same_odd(before, after, a, b)


@helper
def _put_image(out, row, image, key, count, ties, limit):
    """Write the columns of an image: all, or ``count`` of them, whose numbers are at ``key``."""
    columns = get(image, f.COLUMNS)
    for place in range(count if key else get(image, f.COLUMN_COUNT)):
        number = i64(key + 8 * place) if key else place
        column = columns + number * 8 * f.COLUMN_WORDS
        if is_present(image, column, row) == 0:
            continue
        out = _put_assigned(out, column, row, image, ties, limit)
        if out <= 0:
            put(image, f.BAD_COLUMN, number)
            return out
    return out


@helper
def _put_change(out, row, before, after, ties, limit):
    """Write what an update changed."""
    put8(out, 0x20)
    out += 1
    olds, news = get(before, f.COLUMNS), get(after, f.COLUMNS)
    changed = 0
    for number in range(get(after, f.COLUMN_COUNT)):
        old = olds + number * 8 * f.COLUMN_WORDS
        new = news + number * 8 * f.COLUMN_WORDS
        if is_present(after, new, row) == 0:
            continue
        was = is_present(before, old, row)
        if was and _same(old, new, row, before, after):
            continue
        if changed:
            put8(out, 0x2C)
            out += 1
        changed = 1
        put8(out, 0x20)
        out = put_words(out + 1, get(new, f.KEY), get(new, f.KEY + 1), limit)
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
    """Write one row's line; returns the address after it, or a code."""
    op = u8(get(frame, f.R_OP) + row)
    ties = get(frame, f.R_TIES)
    head = get(frame, f.R_HEADS) + 16 * op
    out = put_words(out, i64(head), i64(head + 8), limit)
    if out <= 0:
        return out
    before, after = get(frame, f.R_IMAGES), get(frame, f.R_IMAGES + 3)
    image = after if op == 0 else before
    key = get(frame, f.R_KEY) if op == 1 else 0
    out = _put_image(out, row, image, key, get(frame, f.R_KEY + 1), ties, limit)
    if out > 0 and op == 1:
        out = _put_change(out, row, before, after, ties, limit)
    if out <= 0:
        return out
    if out > limit:
        return f.MORE
    put8(out, 0x0A)
    return out + 1
