"""Hypothesis strategies for columns: their types, and their values as bytes of a row.

Layouts: facts sheet section 3. Values are drawn as bytes, so that every pattern that a type has may
come up.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tailrace.constants import ColumnType as T
from tests.columns.jsonb_made import jsonb

UTF8, LATIN1, BINARY, SJIS, UTF16 = 255, 8, 63, 13, 54
_CODECS = {UTF8: "utf-8", LATIN1: "latin-1", SJIS: "ascii", UTF16: "utf-16-be"}
_DIGITS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


@dataclass(frozen=True)
class MadeColumn:
    """A column of a table map, and a strategy for its values' bytes in a row."""

    code: T
    metadata: int
    values: st.SearchStrategy[bytes]
    unsigned: bool = False
    collation: int | None = None
    members: tuple[bytes, ...] | None = None
    nullable: bool = True


def lenenc(number: int) -> bytes:
    return bytes([number]) if number < 251 else b"\xfc" + struct.pack("<H", number)


def raw(size: int) -> st.SearchStrategy[bytes]:
    """Any bytes, those at the edges more often."""
    return st.one_of(
        st.sampled_from([bytes(size), b"\xff" * size, b"\x80" + bytes(size - 1)]),
        st.binary(min_size=size, max_size=size),
    )


@st.composite
def integers(draw: Any) -> MadeColumn:
    code, size = draw(
        st.sampled_from([(T.TINY, 1), (T.SHORT, 2), (T.INT24, 3), (T.LONG, 4), (T.LONGLONG, 8)])
    )
    return MadeColumn(code, 0, raw(size), unsigned=draw(st.booleans()))


@st.composite
def floats(draw: Any) -> MadeColumn:
    size = draw(st.sampled_from([4, 8]))
    return MadeColumn(T.FLOAT if size == 4 else T.DOUBLE, size, raw(size))


def packed_decimal(precision: int, scale: int, digits: str, negative: bool) -> bytes:
    """A DECIMAL's bytes from all of its digits."""
    whole, part = digits[: precision - scale], digits[precision - scale :]
    first = len(whole) % 9
    groups = [whole[:first], *(whole[i : i + 9] for i in range(first, len(whole), 9))]
    groups += [part[i : i + 9] for i in range(0, len(part), 9)]
    data = b"".join(int(g).to_bytes(_DIGITS[len(g)], "big") for g in groups if g)
    data = bytes([data[0] ^ 0x80]) + data[1:]
    return bytes(each ^ 0xFF for each in data) if negative else data


@st.composite
def decimals(draw: Any) -> MadeColumn:
    precision = draw(st.integers(1, 65))
    scale = draw(st.integers(0, min(precision, 30)))
    values = st.builds(
        lambda digits, negative: packed_decimal(precision, scale, digits, negative),
        st.one_of(
            st.sampled_from(["0" * precision, "9" * precision]),
            st.text("0123456789", min_size=precision, max_size=precision),
        ),
        st.booleans(),
    )
    return MadeColumn(T.NEWDECIMAL, precision << 8 | scale, values)


def fraction_of(microseconds: int, digits: int) -> bytes:
    size = (digits + 1) // 2
    return (microseconds // 100 ** (3 - size)).to_bytes(size, "big")


def microseconds(digits: int) -> st.SearchStrategy[int]:
    step = 10 ** (6 - digits)
    return st.integers(0, 10**digits - 1).map(lambda each: each * step)


def packed_date(year: int, month: int, day: int) -> bytes:
    return (year << 9 | month << 5 | day).to_bytes(3, "little")


def packed_datetime(at: tuple[int, ...], part: int, digits: int) -> bytes:
    year, month, day, hour, minute, second = at
    value = ((year * 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6 | second
    return (value + 0x8000000000).to_bytes(5, "big") + fraction_of(part, digits)


def packed_time(seconds: int, part: int, digits: int, negative: bool) -> bytes:
    whole = seconds // 3600 << 12 | seconds // 60 % 60 << 6 | seconds % 60
    size = (digits + 1) // 2
    unit = part // 100 ** (3 - size)
    value = whole << 8 * size | unit
    value = -value if negative else value
    return (value + (0x800000 << 8 * size)).to_bytes(3 + size, "big")


@st.composite
def temporals(draw: Any) -> MadeColumn:
    digits = draw(st.integers(0, 6))
    kind = draw(st.sampled_from([T.DATE, T.YEAR, T.TIME2, T.DATETIME2, T.TIMESTAMP2]))
    day = (st.integers(0, 9999), st.integers(0, 12), st.integers(0, 31))
    if kind is T.YEAR:
        return MadeColumn(kind, 0, raw(1))
    if kind is T.DATE:
        return MadeColumn(kind, 0, st.builds(packed_date, *day))
    part = microseconds(digits)
    if kind is T.TIMESTAMP2:
        seconds = st.one_of(st.just(0), st.integers(0, 2**32 - 1)).map(struct.Struct(">I").pack)
        values = st.tuples(seconds, part.map(lambda p: fraction_of(p, digits))).map(b"".join)
        return MadeColumn(kind, digits, values)
    if kind is T.TIME2:
        values = st.builds(
            packed_time, st.integers(0, 838 * 3600 + 3599), part, st.just(digits), st.booleans()
        )
        return MadeColumn(kind, digits, values)
    clock = (st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
    moments = st.tuples(*day, *clock)
    return MadeColumn(kind, digits, st.builds(packed_datetime, moments, part, st.just(digits)))


@st.composite
def bits(draw: Any) -> MadeColumn:
    size = draw(st.integers(1, 64))
    values = st.integers(0, 2**size - 1).map(lambda each: each.to_bytes((size + 7) // 8, "big"))
    return MadeColumn(T.BIT, size, values)


_NAMES = ("a", "", "b c", "ü", "日本", "x" * 33, "z" * 70)


@st.composite
def members(draw: Any) -> MadeColumn:
    names = tuple(name.encode() for name in _NAMES[: draw(st.integers(1, len(_NAMES)))])
    if draw(st.booleans()):
        wide = draw(st.booleans())
        if wide:
            names += tuple(f"n{number}".encode() for number in range(300))
        size = 2 if wide else 1
        values = st.integers(0, len(names)).map(lambda each: each.to_bytes(size, "little"))
        return MadeColumn(T.ENUM, size, values, collation=UTF8, members=names)
    size = draw(st.integers(1, 8))
    names += tuple(f"s{number}".encode() for number in range(8 * size - len(names)))
    values = raw(size)
    return MadeColumn(T.SET, size, values, collation=UTF8, members=names[: 8 * size])


def prefixed(size: int, data: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return data.map(lambda each: len(each).to_bytes(size, "little") + each)


def text_bytes(collation: int, longest: int) -> st.SearchStrategy[bytes]:
    if collation == BINARY:
        return st.one_of(st.binary(max_size=min(longest, 80)), st.just(b"\0" * longest))
    codec = _CODECS[collation]
    texts = st.one_of(
        st.text(st.characters(codec=codec, exclude_categories=["Cs"]), max_size=20),
        st.integers(0, longest).map(lambda size: "k" * size),
    )
    return texts.map(lambda each: each.encode(codec)).filter(lambda data: len(data) <= longest)


@st.composite
def strings(draw: Any) -> MadeColumn:
    collation = draw(st.sampled_from([UTF8, LATIN1, BINARY, SJIS, UTF16]))
    kind = draw(st.sampled_from([T.STRING, T.VARCHAR, T.BLOB]))
    if kind is T.BLOB:
        size = draw(st.integers(1, 4))
        values = prefixed(size, text_bytes(collation, 255 if size == 1 else 700))
        return MadeColumn(kind, size, values, collation=collation)
    longest = draw(st.sampled_from([1, 4, 16, 255, 256, 600, 1020]))
    values = prefixed(1 if longest < 256 else 2, text_bytes(collation, longest))
    return MadeColumn(kind, longest, values, collation=collation)


DOCUMENTS = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(codec="utf-8"), max_size=12),
    ),
    lambda child: st.one_of(
        st.lists(child, max_size=4),
        st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=6), child, max_size=4),
    ),
    max_leaves=8,
)


@st.composite
def blob_likes(draw: Any) -> MadeColumn:
    kind = draw(st.sampled_from([T.JSON, T.GEOMETRY, T.VECTOR]))
    size = 4
    if kind is T.JSON:
        data = st.one_of(DOCUMENTS.map(jsonb), st.just(b""))
    elif kind is T.GEOMETRY:
        order = st.sampled_from([b"\0", b"\1"])
        data = st.tuples(raw(4), order, st.binary(min_size=4, max_size=60)).map(b"".join)
    else:
        data = st.integers(0, 6).flatmap(raw_floats)
    return MadeColumn(kind, size, prefixed(size, data), collation=BINARY)


def raw_floats(count: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=4 * count, max_size=4 * count)


COLUMNS = st.one_of(
    integers(),
    integers(),
    floats(),
    decimals(),
    temporals(),
    temporals(),
    bits(),
    members(),
    strings(),
    strings(),
    blob_likes(),
)
