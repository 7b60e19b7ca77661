"""Partial JSON updates: diffs applied to a document, both in MySQL's binary JSON.

Facts sheet sections 2.4 (diffs) and 3.2 (documents); `tailrace.values.json_diff` does the same with
objects. The document is copied, and each diff changes the copy: a new value is put after the last
byte of the container that holds it, what follows moves up, and the containers on the path get their
sizes and offsets corrected. Bytes that are no longer used stay as a gap, as the server leaves them.

What is rare is left to Python, which also has the errors: a diff that does not fit, paths with
escapes or ``last``, a small container that becomes a large one, objects whose keys are not in
order, and so many diffs that it takes too long to look through the containers for each (DIFF_WORK).

The text kernel finds what is damaged in the document before and in the one after. So only a value
that a later diff of the row drops or changes needs a check here: scalars have it at once, and
Python takes the row if it was a container or an opaque value (UNCHECKED).
"""

from __future__ import annotations

from tailrace.columns.frames import json_codes as j
from tailrace.columns.frames import plan as k
from tailrace.columns.kernels.memory import (
    behind_json_length,
    copy_exactly,
    get,
    helper,
    i16,
    i32,
    i64,
    json_length,
    length_encoded,
    move,
    put,
    put8,
    put16,
    put32,
    put64,
    same_bytes,
    u8,
    u16,
    u32,
)
from tailrace.columns.kernels.strings import utf8_width

_REPLACE = 0
_INSERT = 1
_REMOVE = 2
_SLACK = 64
_SMALL = 0xFFFF
"""The most bytes of a small container."""
_LONGEST_KEY = 0xFFFF
_WORK = 128
"""Entries looked at, and words moved, for each byte of a document and its diffs. Python takes some
hundred nanoseconds for a byte."""
_HIGH_BITS = -0x7F7F7F7F7F7F7F80
_EXPONENT = 0x7FF


@helper
def most_changed(size: int, diffs: int) -> int:
    """The most bytes that `put_changed` needs for a document and its diffs, by their sizes."""
    return size + 2 * diffs + _SLACK


@helper
def _move_up(p: int, size: int, by: int) -> None:
    """Move ``size`` bytes to a higher address."""
    while size >= 8:
        size -= 8
        put64(p + size + by, i64(p + size))
    while size > 0:
        size -= 1
        put8(p + size + by, u8(p + size))


@helper
def _move_down(p: int, size: int, by: int) -> None:
    """Move ``size`` bytes to a lower address."""
    copy_exactly(p - by, p, size)


@helper
def _number(p: int, large: int) -> int:
    """A size, count or offset of a container."""
    return u32(p) if large else u16(p)


@helper
def _put_number(p: int, large: int, number: int) -> None:
    if large:
        put32(p, number)
    else:
        put16(p, number)


@helper
def _value_size(at: int, type_: int, end: int) -> int:
    """The bytes of a value at ``at``, without its type; BY_HAND if they pass ``end``."""
    room = end - at
    size = -1
    if type_ <= j.LARGE_ARRAY:
        large = type_ & 1
        if room >= 4 + 4 * large:
            size = _number(at + 2 + 2 * large, large)
    elif type_ == j.LITERAL:
        size = 1
    elif type_ <= j.DOUBLE:
        size = 2 << ((type_ - j.INT16) >> 1) if type_ < j.DOUBLE else 8
    elif type_ in (j.STRING, j.OPAQUE):
        start = at + (type_ == j.OPAQUE)
        length = json_length(start, end) if start < end else -1
        if length >= 0:
            size = behind_json_length(start, end) + length - at
    return size if 0 <= size <= room else k.BY_HAND


@helper
def _is_inlined(type_: int, large: int) -> int:
    """Whether a container has a value in the place of its offset."""
    return int(j.LITERAL <= type_ <= (j.UINT32 if large else j.UINT16))


@helper
def _inlined(p: int) -> int:
    """The value that stands in place of an offset; its type is at ``p``."""
    type_ = u8(p)
    if type_ == j.LITERAL:
        return u8(p + 1)
    if type_ <= j.UINT16:
        return i16(p + 1) if type_ == j.INT16 else u16(p + 1)
    return i32(p + 1)


@helper
def _key_size(type_: int) -> int:
    """The bytes of a key's entry; 0 in arrays."""
    return 4 + 2 * (type_ & 1) if type_ <= j.LARGE_OBJECT else 0


@helper
def _header_size(base: int, type_: int) -> int:
    """The bytes of a container's header: count, size and entries."""
    width = 2 + 2 * (type_ & 1)
    return 2 * width + _number(base, type_ & 1) * (1 + width + _key_size(type_))


@helper
def _shift(base: int, type_: int, border: int, by: int) -> None:
    """Add ``by`` to a container's offsets from ``border`` on."""
    large = type_ & 1
    width = 2 + 2 * large
    count = _number(base, large)
    entry = base + 2 * width
    if type_ <= j.LARGE_OBJECT:
        for _ in range(count):
            offset = _number(entry, large)
            if offset >= border:
                _put_number(entry, large, offset + by)
            entry += width + 2
    for _ in range(count):
        if not _is_inlined(u8(entry), large):
            offset = _number(entry + 1, large)
            if offset >= border:
                _put_number(entry + 1, large, offset + by)
        entry += 1 + width


@helper
def _move_content(path: int, at: int, size: int, by: int) -> None:
    """Move ``size`` bytes at ``at`` up, and note where unchecked values are then."""
    _move_up(at, size, by)
    put(path, k.DIFF_WORK, get(path, k.DIFF_WORK) - (size >> 3))
    if get(path, k.UNCHECKED) >= at:
        put(path, k.UNCHECKED, get(path, k.UNCHECKED) + by)
    if get(path, k.UNCHECKED_END) > at:
        put(path, k.UNCHECKED_END, get(path, k.UNCHECKED_END) + by)


@helper
def _grow(document: int, size: int, path: int, depth: int, head: int, data: int) -> int:
    """Make room in the path's last container: ``head`` bytes after its header, ``data`` at its end.

    Returns the document's new size, or BY_HAND where a small container becomes too large.
    """
    by = head + data
    if by == 0:
        return size
    inner = get(path, 2 * depth - 2)
    type_ = get(path, 2 * depth - 1)
    end = inner + _number(inner + 2 + 2 * (type_ & 1), type_ & 1)
    if document + size > end:
        _move_content(path, end, document + size - end, by)
    for number in range(depth):
        base = get(path, 2 * number)
        large = get(path, 2 * number + 1) & 1
        total = _number(base + 2 + 2 * large, large)
        if not large and total + by > _SMALL:
            return k.BY_HAND
        if end - base < total:
            _shift(base, get(path, 2 * number + 1), end - base, by)
        _put_number(base + 2 + 2 * large, large, total + by)
    if head:
        start = inner + _header_size(inner, type_)
        _move_content(path, start, end - start, head)
        _shift(inner, type_, 0, head)
    return size + by


@helper
def _may_be_space(two: int) -> int:
    """Whether a space outside of ASCII may begin with these two bytes of UTF-8."""
    lead, second = two & 0xFF, two >> 8
    if lead == 0xC2:
        return int(second in (0x85, 0xA0))
    if lead == 0xE1:
        return int(second == 0x9A)
    if lead == 0xE2:
        return int(second in (0x80, 0x81))
    return int(lead == 0xE3 and second == 0x80)


@helper
def _path_leg(p: int, end: int) -> tuple[int, int, int]:
    """Read a leg: (address after it, or BY_HAND; index, or -1; where the member's name begins).

    The name ends before the leg's end, or before a quotation mark that ends it.
    """
    if p + 1 < end and u8(p) == 0x5B:  # [
        p += 1
        index = 0
        start = p
        while p < end and 0x30 <= u8(p) <= 0x39:
            index = 10 * index + u8(p) - 0x30
            p += 1
        if start < p <= start + 10 and p < end and u8(p) == 0x5D:
            return p + 1, index, p
        return k.BY_HAND, -1, p
    if p + 1 >= end or u8(p) != 0x2E:  # .
        return k.BY_HAND, -1, p
    p += 1
    start = p
    if u8(p) == 0x22:
        p += 1
        while p < end and u8(p) != 0x22 and u8(p) != 0x5C:
            p += 1
        if p < end and u8(p) == 0x22:
            return p + 1, -1, start + 1
        return k.BY_HAND, -1, start
    while p < end:
        byte = u8(p)
        if 0x5E <= byte < 0x80:  # letters, mostly
            p += 1
            continue
        if byte in (0x2E, 0x5B):
            break
        if byte <= 0x20 or byte in (0x22, 0x2A, 0x5C, 0x5D) or _may_be_space(u16(p)):
            return k.BY_HAND, -1, start
        p += 1
    return (p if p > start else k.BY_HAND), -1, start


@helper
def _is_less(a: int, b: int, size: int) -> int:
    """Whether the bytes at one address come before those at another; they differ."""
    done = 0
    while done < size - 1 and u8(a + done) == u8(b + done):
        done += 1
    return int(u8(a + done) < u8(b + done))


@helper
def _find_member(
    base: int, large: int, count: int, total: int, name: int, size: int
) -> tuple[int, int]:
    """A member's number, or -1; and where a new one goes: keys are ordered by size, then by bytes.

    The second is BY_HAND if a key is outside of the container, which has ``total`` bytes.
    """
    width = 2 + 2 * large
    entry = base + 2 * width
    place = -1
    unused = 64 - 8 * size if 0 < size <= 8 else 0
    first = i64(name) << unused
    for number in range(count):
        length = u16(entry + width)
        if length == size:
            key = base + _number(entry, large)
            if key + size > base + total:
                return -1, k.BY_HAND
            if size == 0 or (
                i64(key) << unused == first and (unused or same_bytes(key, name, size))
            ):
                return number, number
            if place < 0 and _is_less(name, key, size):
                place = number
        elif place < 0 and length > size:
            place = number
        entry += width + 2
    return -1, count if place < 0 else place


@helper
def _is_in_order(base: int, large: int) -> int:
    """Whether each key of an object is greater than the one before, as the server writes them."""
    width = 2 + 2 * large
    total = _number(base + width, large)
    entry = base + 2 * width
    for _ in range(_number(base, large) - 1):
        after = entry + width + 2
        size = u16(entry + width)
        if size >= u16(after + width):
            first, second = _number(entry, large), _number(after, large)
            if size > u16(after + width) or size == 0 or max(first, second) + size > total:
                return 0
            if not _is_less(base + first, base + second, size):
                return 0
        entry = after
    return 1


@helper
def _is_utf8(p: int, end: int) -> int:
    while p < end:
        if end - p >= 8 and i64(p) & _HIGH_BITS == 0:
            p += 8
            continue
        width = utf8_width(p, end)
        if width == 0:
            return 0
        p += width
    return 1


@helper
def _check(type_: int, at: int, end: int) -> int:
    """Whether a value is sound: 1, 0 if it is not checked here, BY_HAND if it is damaged."""
    sound = 1
    if type_ <= j.LARGE_ARRAY or type_ == j.OPAQUE:
        return 0
    if type_ == j.LITERAL:
        sound = int(u8(at) <= 2)
    elif type_ == j.DOUBLE:
        sound = int((i64(at) >> 52) & _EXPONENT != _EXPONENT)
    elif type_ == j.STRING:
        sound = _is_utf8(behind_json_length(at, end), end)
    return sound or k.BY_HAND


@helper
def _leave_unchecked(path: int, at: int, end: int) -> None:
    """Note that the bytes of a value are not checked."""
    put(path, k.UNCHECKED, min(at, get(path, k.UNCHECKED)) if get(path, k.UNCHECKED_END) else at)
    put(path, k.UNCHECKED_END, max(end, get(path, k.UNCHECKED_END)))


@helper
def _is_unchecked(path: int, at: int, size: int) -> int:
    """Whether some of these bytes may be a value's that is not checked."""
    return int(at < get(path, k.UNCHECKED_END) and at + size > get(path, k.UNCHECKED))


@helper
def _drops_unchecked(path: int, base: int, type_: int, index: int) -> int:
    """Whether the value that is dropped from a container may be one that is not checked."""
    if get(path, k.UNCHECKED_END) == 0:
        return 0
    large = type_ & 1
    width = 2 + 2 * large
    total = _number(base + width, large)
    key_size = _key_size(type_)
    entry = base + 2 * width + _number(base, large) * key_size + index * (1 + width)
    if _is_inlined(u8(entry), large):
        return 0
    at = base + _number(entry + 1, large)
    size = _value_size(at, u8(entry), base + total)
    return int(size < 0 or _is_unchecked(path, at, size))


@helper
def _is_apart(
    base: int, large: int, count: int, values: int, total: int, offset: int, size: int
) -> int:
    """Whether one value of a container shares no bytes with the others, or with keys.

    The server writes no others, but a change would change those as well.
    """
    width = 2 + 2 * large
    end = offset + size
    entry = base + 2 * width
    while entry < base + values:
        at = _number(entry, large)
        if at < end and at + u16(entry + width) > offset:
            return 0
        entry += width + 2
    same = 0
    for _ in range(count):
        at = _number(entry + 1, large)
        if not _is_inlined(u8(entry), large) and at < end:
            if at >= offset:
                same += 1
            elif at + _value_size(base + at, u8(entry), base + total) > offset:
                return 0
        entry += 1 + width
    return int(same == 1)


@helper
def _locate(
    document: int, size: int, path: int, p: int, path_end: int
) -> tuple[int, int, int, int, int]:
    """Follow the legs at ``p``, and write down the containers on the way.

    Returns their number, or BY_HAND if one is not there; then, in the last container: the number of
    the value or -1, where a new one goes, and the member's name and its size.
    """
    at = document + 1
    end = document + size
    type_ = u8(document)
    depth = index = place = name = name_size = 0
    while p < path_end:
        large = type_ & 1
        width = 2 + 2 * large
        if type_ > j.LARGE_ARRAY or index < 0 or depth == k.PATH_DEPTH or end - at < 2 * width:
            return k.BY_HAND, 0, 0, 0, 0
        base = at
        count = _number(base, large)
        total = _number(base + width, large)
        values = 2 * width + count * _key_size(type_)
        head = values + count * (1 + width)
        if total > end - base or head > total:
            return k.BY_HAND, 0, 0, 0, 0
        put(path, 2 * depth, base)
        put(path, 2 * depth + 1, type_)
        put(path, k.DIFF_WORK, get(path, k.DIFF_WORK) - 3 * count)
        depth += 1
        p, index, name = _path_leg(p, path_end)
        if p < 0 or (index < 0) != (type_ <= j.LARGE_OBJECT):
            return k.BY_HAND, 0, 0, 0, 0
        if index < 0:
            name_size = p - name - (u8(name - 1) == 0x22)
            index, place = _find_member(base, large, count, total, name, name_size)
            if place < 0:
                return k.BY_HAND, 0, 0, 0, 0
        else:
            place = min(index, count)
            if index >= count:
                index = -1
        if p < path_end and index >= 0:
            entry = base + values + index * (1 + width)
            type_ = u8(entry)
            offset = _number(entry + 1, large)
            if type_ > j.LARGE_ARRAY or offset < head:
                return k.BY_HAND, 0, 0, 0, 0
            inner = _value_size(base + offset, type_, base + total)
            if inner < 0 or not _is_apart(base, large, count, values, total, offset, inner):
                return k.BY_HAND, 0, 0, 0, 0
            at = base + offset
            end = base + total
    return depth, index, place, name, name_size


@helper
def _remove(base: int, type_: int, index: int) -> None:
    """Remove a container's value; its bytes stay as a gap."""
    large = type_ & 1
    width = 2 + 2 * large
    key_size = _key_size(type_)
    count = _number(base, large)
    keys = base + 2 * width
    values = keys + count * key_size
    step = 1 + width
    if key_size:
        _move_down(keys + (index + 1) * key_size, (count - index - 1) * key_size, key_size)
        _move_down(values, index * step, key_size)
    _move_down(values + (index + 1) * step, (count - index - 1) * step, key_size + step)
    _put_number(base, large, count - 1)


@helper
def _open_entry(base: int, type_: int, place: int, name: int, name_size: int, target: int) -> None:
    """Insert entries into a container's head, after which is room; the key goes to ``target``."""
    large = type_ & 1
    width = 2 + 2 * large
    key_size = _key_size(type_)
    count = _number(base, large)
    keys = base + 2 * width
    values = keys + count * key_size
    step = 1 + width
    _move_up(values + place * step, (count - place) * step, key_size + step)
    if key_size:
        _move_up(values, place * step, key_size)
        _move_up(keys + place * key_size, (count - place) * key_size, key_size)
        _put_number(keys + place * key_size, large, target - base)
        put16(keys + place * key_size + width, name_size)
        copy_exactly(target, name, name_size)
    _put_number(base, large, count + 1)


@helper
def _change(
    document: int,
    size: int,
    path: int,
    operation: int,
    p: int,
    path_end: int,
    value: int,
    end: int,
    is_last: int,
) -> int:
    """Apply one diff whose legs begin at ``p``: the document's new size, or BY_HAND."""
    depth, index, place, name, name_size = _locate(document, size, path, p, path_end)
    if depth < 0 or (index < 0 and operation != _INSERT):
        return k.BY_HAND
    base = get(path, 2 * depth - 2)
    type_ = get(path, 2 * depth - 1)
    large = type_ & 1
    width = 2 + 2 * large
    key_size = _key_size(type_)
    if _is_unchecked(path, base, 1):
        return k.BY_HAND
    if operation != _INSERT and _drops_unchecked(path, base, type_, index):
        return k.BY_HAND
    if operation == _REMOVE:
        _remove(base, type_, index)
        return size
    data = _value_size(value + 1, u8(value), end)
    if data < 0:
        return k.BY_HAND
    sound = is_last or _check(u8(value), value + 1, value + 1 + data)
    if sound < 0:
        return k.BY_HAND
    inlined = _is_inlined(u8(value), large)
    if inlined:
        data = 0
    head = 0
    if operation == _REPLACE:
        name_size = 0
    else:
        head = 1 + width + key_size
        if key_size == 0:
            name_size = 0
        elif index >= 0 or name_size > _LONGEST_KEY or not _is_in_order(base, large):
            return k.BY_HAND
        if not is_last and not _is_utf8(name, name + name_size):
            return k.BY_HAND
    target = base + _number(base + width, large) + head
    size = _grow(document, size, path, depth, head, name_size + data)
    if size < 0:
        return k.BY_HAND
    if operation == _INSERT:
        _open_entry(base, type_, place, name, name_size, target)
        target += name_size
    entry = base + 2 * width + _number(base, large) * key_size + place * (1 + width)
    put8(entry, u8(value))
    if inlined:
        _put_number(entry + 1, large, _inlined(value))
    else:
        _put_number(entry + 1, large, target - base)
        copy_exactly(target, value + 1, data)
        if sound == 0:
            _leave_unchecked(path, target, target + data)
    return size


@helper
def put_changed(out: int, before: int, size: int, p: int, diffs: int, path: int) -> int:
    """Write the document ``before`` of ``size`` bytes with ``diffs`` bytes of diffs at ``p``.

    Returns the size of what it wrote, at most `most_changed`, or BY_HAND. ``path`` is room for
    PATH_WORDS words.
    """
    if size == 0:
        return k.BY_HAND
    end = p + diffs
    put(path, k.DIFF_WORK, _WORK * (size + diffs))
    put(path, k.UNCHECKED_END, 0)
    move(out, before, size)
    while p < end:
        operation = u8(p)
        length, at = length_encoded(p + 1, end)
        if operation > _REMOVE or length < 1 or length > end - at or u8(at) != 0x24:
            return k.BY_HAND
        p = at + length
        value = value_end = p
        if operation != _REMOVE:
            data, value = length_encoded(p, end)
            if data < 1 or data > end - value:
                return k.BY_HAND
            value_end = p = value + data
        if length > 1:
            size = _change(
                out, size, path, operation, at + 1, at + length, value, value_end, int(p == end)
            )
        elif operation == _REPLACE and get(path, k.UNCHECKED_END) == 0:
            size = value_end - value
            move(out, value, size)
            if p < end:
                _leave_unchecked(path, out, out + size)
        else:
            return k.BY_HAND
        if size < 0 or get(path, k.DIFF_WORK) < 0:
            return k.BY_HAND
    return size
