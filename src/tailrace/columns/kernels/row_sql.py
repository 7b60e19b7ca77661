"""Rows as SQL statements (`tailrace.sql.rows`), straight from a batch's Arrow buffers.

The values are as `tailrace.columns.types.stored_plan_of` decodes them: text as its bytes.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tailrace.columns.frames import text as f
from tailrace.columns.frames.sql import (
    ALL_DIGITS,
    AS_BYTES,
    AS_TEXT,
    BINARY_DOCUMENT,
    BINARY_TEXT,
    DOCUMENT,
    ENUM,
    J_END,
    J_EXPRESSIONS,
    J_OFFSETS,
    J_TYPED,
    J_VALUES,
    J_WORDS,
    PADDED,
    PLAIN,
    Q_AS_BYTES,
    Q_AS_KEY,
    Q_ASCII,
    Q_CLOCK,
    Q_ENUM,
    Q_EQUALS,
    Q_LITERAL,
    Q_MEMBERS,
    Q_NAME,
    Q_PREFIX,
    Q_SAME_BYTES,
    Q_WIDTH,
    Q_WORDS,
    S_AFTER,
    S_ASKED,
    S_BEFORE,
    S_COLUMNS,
    S_DELETE,
    S_INSERT,
    S_INSERT_ALL,
    S_KEY,
    S_OP,
    S_PRINTABLE,
    S_UNDO,
    S_UPDATE,
    S_WRITABLE,
    SET,
    SIGNED,
)
from tailrace.columns.kernels.column_value import (
    has_value,
    is_present,
    odd_text,
    odd_value,
    put_number,
    put_time,
    same_odd,
    same_value,
    whole_number,
)
from tailrace.columns.kernels.each_row import each_row
from tailrace.columns.kernels.memory import (
    get,
    helper,
    i64,
    move,
    put,
    put8,
    put16,
    put32,
    put64,
    u8,
    u32,
)
from tailrace.columns.kernels.number_text import put_float, put_signed, put_unsigned
from tailrace.columns.kernels.strings import copying, copying16, utf8_width

_LARGEST_FLOAT = 0x7F7FFFFF
_IS_NULL, _IS_VALUE, _IS_ODD, _IS_ABSENT = 0, 1, 2, 3


_MARKED: Final = (0x27, 0x5C, 0x7F)
_copy_plain = copying(copying16(_MARKED, plain_ascii=True), _MARKED, plain_ascii=True)


@intrinsic
def _widened(typingctx: Any, bits: Any) -> Any:
    """The bits of a float as those of the equal double."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        narrow = builder.bitcast(builder.trunc(args[0], ir.IntType(32)), ir.FloatType())
        return builder.bitcast(builder.fpext(narrow, ir.DoubleType()), ir.IntType(64))

    return types.int64(types.int64), codegen


@helper
def _put(out, text, limit):
    """Write one of the frame's texts, given the address of its two words."""
    size = i64(text + 8)
    if out + size > limit:
        return f.MORE
    move(out, i64(text), size)
    return out + size


@helper
def _put_hexadecimal(out, p, size, zeros, limit):
    """Write bytes, and ``zeros`` zeros after them, as a literal."""
    if out + 2 * (size + zeros) > limit:
        return f.MORE
    put16(out, 0x2758)
    out += 2
    for i in range(size):
        byte = u8(p + i)
        high = byte >> 4
        low = byte & 15
        put16(out, (high + 0x30 + 39 * (high > 9)) | (low + 0x30 + 39 * (low > 9)) << 8)
        out += 2
    for _ in range(zeros):
        put16(out, 0x3030)
        out += 2
    put8(out, 0x27)
    return out + 1


@helper
def _put_plain(out, p, size, end, ascii_, frame, limit):
    """Write text in quotes; -1 if it cannot be written so unchanged, in UTF-8.

    ``ascii_`` is that of the column (`Q_ASCII`).
    """
    stop = p + size
    printable = get(frame, S_PRINTABLE)
    put8(out, 0x27)
    out += 1
    while p < stop:
        if out > limit:
            return f.MORE
        if ascii_ == 0:
            step, marked = _copy_plain(out, p, stop, end)
            out += step
            p += step
            if marked == 0:
                continue
        byte = u8(p)
        if byte < 0x80:
            if ascii_:
                if u8(ascii_ + byte) == 0:
                    return -1
            elif byte in (0x5C, 0x7F) or (byte < 0x20 and byte not in (9, 10)):
                return -1
            put16(out, byte | byte << 8)
            out += 1 + (byte == 0x27)
            p += 1
            continue
        width = 0 if ascii_ else utf8_width(p, stop)
        if width == 0:
            return -1
        if printable == 0:
            put(frame, S_ASKED, 1)
            return f.NOT_UTF8 - 1
        point = byte & (0x7F >> width)
        put8(out, byte)
        for i in range(1, width):
            point = point << 6 | (u8(p + i) & 0x3F)
            put8(out + i, u8(p + i))
        if u8(printable + (point >> 3)) >> (point & 7) & 1 == 0:
            return -1
        out += width
        p += width
    put8(out, 0x27)
    return out + 1


@helper
def _put_text(out, p, size, end, form, column, frame, limit):
    """Write text: in quotes if possible, otherwise in hexadecimal."""
    begin = out
    is_binary = form in (BINARY_TEXT, BINARY_DOCUMENT)
    if is_binary:
        put64(out, 0x7972616E69625F)  # _binary
        out += 7
    out = _put_plain(out, p, size, end, 0 if is_binary else get(column, Q_ASCII), frame, limit)
    if out != -1:
        return out
    out = begin
    if not is_binary:
        out = _put(out, column + 8 * Q_PREFIX, limit)
        if out <= 0:
            return out
    return _put_hexadecimal(out, p, size, 0, limit)


@helper
def _put_members(out, number, form, column, limit):
    """Write a value of ENUM or SET: by name, or by number."""
    names = get(column, Q_MEMBERS)
    count = get(column, Q_MEMBERS + 1)
    if form == ENUM:
        if number <= 0 or number > count or i64(names + 16 * number - 8) < 0:
            return put_unsigned(out, number)
        put8(out, 0x27)
        out = _put(out + 1, names + 16 * number - 16, limit)
        if out > 0:
            put8(out, 0x27)
            out += 1
        return out
    known = number != 0 and (count >= 64 or (number >> count == 0 and number > 0))
    for bit in range(min(count, 64)):
        if (number >> bit) & 1 and i64(names + 16 * bit + 8) < 0:
            known = False
    if not known:
        return put_unsigned(out, number)
    put8(out, 0x27)
    out += 1
    some = False
    for bit in range(min(count, 64)):
        if (number >> bit) & 1:
            if some:
                put8(out, 0x2C)
                out += 1
            some = True
            out = _put(out, names + 16 * bit, limit)
            if out <= 0:
                return out
    put8(out, 0x27)
    return out + 1


@helper
def _put_double(out, bits, hidden):
    """Write a double or a float, the shortest way; a negative zero keeps its sign."""
    exponents = 0x7FF if hidden == 52 else 0xFF
    if bits >> hidden & exponents == exponents:
        return f.BAD_NUMBER
    if bits == (1 << 31 if hidden == 23 else -0x8000000000000000):
        put32(out, 0x3065302D)  # -0e0
        return out + 4
    return put_float(out, bits, hidden, -3, 16, 1)


@helper
def _put_number(out, values, row, form):
    """Write a number."""
    kind = get(values, f.KIND)
    p = get(values, f.VALUES)
    if kind == f.UINT64 and form == SIGNED and i64(p + 16 * row + 8) == 0:
        return put_signed(out, i64(p + 16 * row))
    if kind <= f.UINT64 or kind == f.DECIMAL:
        return put_number(out, values, row)
    if kind == f.DOUBLE_FLOAT:
        return _put_double(out, i64(p + 8 * row), 52)
    if kind != f.FLOAT:
        return f.BAD_TYPE
    bits = u32(p + 4 * row)
    if form != ALL_DIGITS and bits & 0x7FFFFFFF != _LARGEST_FLOAT:
        return _put_double(out, bits, 23)
    if bits >> 23 & 0xFF == 0xFF:
        return f.BAD_NUMBER
    return _put_double(out, _widened(bits), 52)


@helper
def _put_copied(out, p, size, limit):
    """Write bytes as they are."""
    if out + size > limit:
        return f.MORE
    for i in range(size):
        put8(out + i, u8(p + i))
    return out + size


@helper
def _put_quoted(out, p, size, limit):
    """Write bytes in quotes as they are."""
    put8(out, 0x27)
    out = _put_copied(out + 1, p, size, limit)
    if out > 0:
        put8(out, 0x27)
        out += 1
    return out


@helper
def _put_variable(out, values, row, form, column, documents, frame, limit):
    """Write a value of variable length."""
    safe = get(values, f.VALUES_END)
    offsets = get(values, f.VALUE_OFFSETS) + 4 * row
    p = get(values, f.VALUES) + u32(offsets)
    typed = False
    if form in (DOCUMENT, BINARY_DOCUMENT):
        if u8(get(documents, J_TYPED) + row):
            if form == BINARY_DOCUMENT:
                return f.BAD_TYPE  # it may not be printable
            documents += 8 * J_EXPRESSIONS
            typed = True
        safe = get(documents, J_END)
        offsets = get(documents, J_OFFSETS) + 4 * row
        p = get(documents, J_VALUES) + u32(offsets)
    size = u32(offsets + 4) - u32(offsets)
    if size < 0 or p + size > safe:
        return f.CUT_SHORT
    if form == AS_BYTES:
        return _put_hexadecimal(out, p, size, 0, limit)
    if form == PADDED:
        return _put_hexadecimal(out, p, size, max(get(column, Q_WIDTH) - size, 0), limit)
    if form == PLAIN or typed:
        return _put_copied(out, p, size, limit)
    if form < AS_TEXT:
        return _put_quoted(out, p, size, limit)
    return _put_text(out, p, size, safe, form, column, frame, limit)


@helper
def _put_value(out, values, row, form, column, documents, frame, limit):
    """Write a value that is not NULL."""
    if out > limit:
        return f.MORE
    kind = get(values, f.KIND)
    if kind >= f.TEXT:
        return _put_variable(out, values, row, form, column, documents, frame, limit)
    if form in (ENUM, SET):
        return _put_members(out, whole_number(values, row), form, column, limit)
    if kind <= f.DECIMAL:
        return _put_number(out, values, row, form)
    put8(out, 0x27)
    out = put_time(out + 1, values, row)
    if out > 0:
        put8(out, 0x27)
        out += 1
    return out


@helper
def _state(image, values, row):
    """A column's state in an image: NULL, a value, one that Arrow does not have, or absent."""
    if is_present(image, values, row) == 0:
        return _IS_ABSENT
    if has_value(values, row):
        return _IS_VALUE
    return _IS_NULL if odd_value(image, values, row) < 0 else _IS_ODD


@helper
def _put_odd(out, image, values, row, limit):
    """Write a date or a time that Arrow does not have."""
    p, size = odd_text(image, odd_value(image, values, row))
    if p + size > get(image, f.ODD_END):
        return f.CUT_SHORT
    return _put_quoted(out, p, size, limit)


@helper
def _put_given(out, images, number, row, form, frame, limit):
    """Write a column's value in an image (``images`` are its two words of the frame), or NULL."""
    if out > limit:
        return f.MORE
    image = i64(images)
    values = get(image, f.COLUMNS) + number * 8 * f.COLUMN_WORDS
    state = _state(image, values, row)
    if state == _IS_VALUE:
        column = get(frame, S_COLUMNS) + number * 8 * Q_WORDS
        documents = i64(images + 8) + number * 8 * J_WORDS
        return _put_value(out, values, row, form, column, documents, frame, limit)
    if state == _IS_ODD:
        return _put_odd(out, image, values, row, limit)
    put32(out, 0x4C4C554E)
    return out + 4


@helper
def _put_literal(out, images, number, row, frame, limit):
    """Write a column's value in the form for a row."""
    column = get(frame, S_COLUMNS) + number * 8 * Q_WORDS
    if get(column, Q_ENUM):
        image = i64(images)
        values = get(image, f.COLUMNS) + number * 8 * f.COLUMN_WORDS
        if _state(image, values, row) == _IS_VALUE and whole_number(values, row) == 0:
            return f.BAD_TYPE  # it needs another sql_mode
    return _put_given(out, images, number, row, get(column, Q_LITERAL), frame, limit)


@helper
def _column_state(images, number, row):
    image = i64(images)
    return _state(image, get(image, f.COLUMNS) + number * 8 * f.COLUMN_WORDS, row)


@helper
def _put_comma(out):
    put16(out, 0x202C)
    return out + 2


@helper
def _put_insert(out, images, row, whole, frame, limit):
    """Write the row of an image; if ``whole``, all of its columns must be in it."""
    columns = get(frame, S_COLUMNS)
    writable = get(frame, S_WRITABLE)
    count = get(frame, S_WRITABLE + 1)
    all_there = True
    if get(i64(images), f.PRESENT):
        for place in range(count):
            if _column_state(images, i64(writable + 8 * place), row) == _IS_ABSENT:
                all_there = False
    if all_there:
        out = _put(out, frame + 8 * S_INSERT_ALL, limit)
        if out <= 0:
            return out
    elif whole:
        return f.BAD_TYPE
    else:
        out = _put(out, frame + 8 * S_INSERT, limit)
        if out <= 0:
            return out
        some = False
        for place in range(count):
            number = i64(writable + 8 * place)
            if _column_state(images, number, row) != _IS_ABSENT:
                if some:
                    out = _put_comma(out)
                some = True
                out = _put(out, columns + 8 * (number * Q_WORDS + Q_NAME), limit)
                if out <= 0:
                    return out
        put64(out, 0x5345554C41562029)  # ) VALUES
        put16(out + 8, 0x2820)
        out += 10
    some = False
    for place in range(count):
        number = i64(writable + 8 * place)
        if not all_there and _column_state(images, number, row) == _IS_ABSENT:
            continue
        if some:
            out = _put_comma(out)
        some = True
        out = _put_literal(out, images, number, row, frame, limit)
        if out <= 0:
            return out
    put8(out, 0x29)
    return out + 1


@helper
def _put_condition(out, images, number, row, by_bytes, frame, limit):
    """Write the condition that a column has its value in an image."""
    if out > limit:
        return f.MORE
    column = get(frame, S_COLUMNS) + number * 8 * Q_WORDS
    if _column_state(images, number, row) == _IS_NULL:
        out = _put(out, column + 8 * Q_NAME, limit)
        if out > 0:
            put64(out, 0x4C554E20534920)  # IS NUL
            put8(out + 7, 0x4C)
            out += 8
        return out
    out = _put(out, column + 8 * (Q_SAME_BYTES if by_bytes else Q_EQUALS), limit)
    if out <= 0:
        return out
    form = get(column, Q_AS_BYTES if by_bytes else Q_AS_KEY)
    return _put_given(out, images, number, row, form, frame, limit)


@helper
def _put_and(out):
    put64(out, 0x20444E4120)
    return out + 5


@helper
def _put_where(out, first, second, row, whole, frame, limit):
    """Write the condition that finds a row: each column's value in the first image with it."""
    key = get(frame, S_KEY)
    count = get(frame, S_KEY + 1)
    writable = get(frame, S_WRITABLE)
    places = count or get(frame, S_WRITABLE + 1)
    some = False
    for place in range(places):
        by_bytes = 1
        number = i64(writable + 8 * place)
        if count:
            number = i64(key + 16 * place)
            by_bytes = i64(key + 16 * place + 8)
        images = first
        state = _column_state(first, number, row)
        if state == _IS_ABSENT and second:
            images = second
            state = _column_state(second, number, row)
        if state == _IS_ABSENT:
            if count or whole:
                return f.BAD_TYPE
            continue
        if count and by_bytes and state == _IS_NULL:
            continue  # it is already in the condition on the key
        if some:
            out = _put_and(out)
        some = True
        out = _put_condition(out, images, number, row, by_bytes, frame, limit)
        if out <= 0:
            return out
    if not some:
        return f.BAD_TYPE
    if count == 0:
        put64(out, 0x312054494D494C20)  # LIMIT 1
        out += 8
    return out


@helper
def _differs(before, after, number, row):
    """Whether an update changed a column."""
    old_image, new_image = i64(before), i64(after)
    old = get(old_image, f.COLUMNS) + number * 8 * f.COLUMN_WORDS
    new = get(new_image, f.COLUMNS) + number * 8 * f.COLUMN_WORDS
    was, is_ = _state(old_image, old, row), _state(new_image, new, row)
    if is_ == _IS_ABSENT:
        return 0
    if was != is_:
        return 1
    if is_ == _IS_NULL:
        return 0
    if is_ == _IS_ODD:
        a, b = odd_value(old_image, old, row), odd_value(new_image, new, row)
        return 1 - same_odd(old_image, new_image, a, b)
    return 1 - same_value(old, new, row)


@helper
def _put_update(out, row, frame, limit):
    """Write what an update changed, or nothing."""
    begin = out
    before, after = frame + 8 * S_BEFORE, frame + 8 * S_AFTER
    undo = get(frame, S_UNDO)
    columns = get(frame, S_COLUMNS)
    writable = get(frame, S_WRITABLE)
    count = get(frame, S_WRITABLE + 1)
    given = before if undo else after
    out = _put(out, frame + 8 * S_UPDATE, limit)
    if out <= 0:
        return out
    some = False
    clocks = 0
    for place in range(count):
        number = i64(writable + 8 * place)
        if _differs(before, after, number, row) == 0:
            clocks += get(columns + number * 8 * Q_WORDS, Q_CLOCK)
            continue
        if _column_state(given, number, row) == _IS_ABSENT:
            return f.BAD_TYPE
        if some:
            out = _put_comma(out)
        some = True
        out = _put(out, columns + 8 * (number * Q_WORDS + Q_NAME), limit)
        if out <= 0:
            return out
        put32(out, 0x203D20)
        out = _put_literal(out + 3, given, number, row, frame, limit)
        if out <= 0:
            return out
    if not some:
        return begin
    if clocks:
        for place in range(count):
            number = i64(writable + 8 * place)
            column = columns + number * 8 * Q_WORDS
            if get(column, Q_CLOCK) == 0 or _differs(before, after, number, row):
                continue
            out = _put(_put_comma(out), column + 8 * Q_NAME, limit)
            if out <= 0:
                return out
            put32(out, 0x203D20)
            out = _put(out + 3, column + 8 * Q_NAME, limit)
            if out <= 0:
                return out
    put64(out, 0x20455245485720)  # WHERE
    out += 7
    if undo:
        return _put_where(out, after, before, row, 1, frame, limit)
    return _put_where(out, before, 0, row, 0, frame, limit)


@each_row
def row_sql(out: int, row: int, frame: int, limit: int) -> int:
    """Write one row's statement, if it needs one; returns the address after it, or a code."""
    begin = out
    op = u8(get(frame, S_OP) + row)
    undo = get(frame, S_UNDO)
    if out > limit:
        return f.MORE
    if op == 1:
        out = _put_update(out, row, frame, limit)
    else:
        images = frame + 8 * (S_AFTER if op == 0 else S_BEFORE)
        if (op == 0) != (undo == 1):
            out = _put_insert(out, images, row, undo, frame, limit)
        else:
            out = _put(out, frame + 8 * S_DELETE, limit)
            if out > 0:
                out = _put_where(out, images, 0, row, undo, frame, limit)
    if out <= 0 or out == begin:
        return out
    if out > limit:
        return f.MORE
    put16(out, 0x0A3B)
    return out + 2
