"""JSON and character sets in bulk, held against the object path's writers; and stamping."""

import json
import random
import struct

import pyarrow as pa
import pytest

from tailrace.columns import native
from tailrace.columns.write import json as encode_json
from tailrace.columns.write.json import text_to_jsonb
from tailrace.columns.write.stamp import stamp_events
from tailrace.columns.write.text import from_utf8
from tailrace.columns.write.types import Rejected
from tailrace.constants import ColumnType, Flavour
from tailrace.errors import EventEncodeError, ValueRejected
from tailrace.values.charsets import default_collation, encode, holds
from tailrace.values.jsonb import dump_json
from tailrace.values.schema import Column, Logical
from tailrace.writing.cache import stamp_plainly
from tests.cases import each_case
from tests.columns.test_json_text import random_document
from tests.events.made import raw_event

CHARSETS = [
    *("latin1", "cp1250", "koi8r", "tis620", "swe7", "hebrew", "ascii"),
    *("gbk", "gb2312", "gb18030", "big5", "sjis", "cp932", "ujis", "eucjpms", "euckr"),
    *("utf16", "utf16le", "utf32", "ucs2"),
]


def as_jsonb(texts):
    return text_to_jsonb(pa.array(texts, pa.string())).to_pylist()


def refused(make, value):
    try:
        return make(value)
    except ValueRejected:
        return None


def test_random_documents():
    rng = random.Random(1)
    texts = []
    for _ in range(4000):
        value = random_document(rng)
        options = rng.choice([{}, {"ensure_ascii": False}, {"indent": "\t"}])
        texts.append(json.dumps(value, **options))
    assert as_jsonb(texts) == [dump_json(text) for text in texts]


def test_broken_documents():
    """What the object path refuses is refused, what it takes is written alike."""
    rng = random.Random(2)
    signs = '{}[]",:\\/u0123456789abcdefE+-. truefalsn\n\x01é'
    for _ in range(6000):
        text = json.dumps(random_document(rng))[:60]
        for _ in range(rng.randrange(4)):
            at = rng.randrange(len(text) + 1)
            text = text[:at] + rng.choice(signs) + text[at + rng.randrange(2) :]
        by_hand = refused(dump_json, text)
        if by_hand is None:
            with pytest.raises(Rejected) as error:
                as_jsonb(["1", None, text])
            assert error.value.row == 2
        else:
            assert as_jsonb(["1", None, text]) == [dump_json("1"), None, by_hand]


def test_numbers():
    rng = random.Random(3)
    edges = [
        sign * (1 << bits) + add for bits in range(66) for sign in (1, -1) for add in (-1, 0, 1)
    ]
    texts = [str(number) for number in edges]
    texts += ["0", "-0", "0.0", "-0.0", "1e0", "1E+2", "9007199254740993.0", "5e-324", "1e308"]
    texts += ["2.2250738585072011e-308", "1.7976931348623157e308", "0.1", "1e22", "1e23", "-1e-5"]
    texts += ["9223372036854775808.5", "1e-300", "123456789012345678901234567890", "0." + "1" * 40]
    for _ in range(20_000):
        texts.append(
            repr(struct.unpack("<d", rng.randbytes(7) + rng.choice([b"\x3f", b"\x40"]))[0])
        )
        texts.append(f"{rng.randrange(10 ** rng.randrange(1, 20))}e{rng.randrange(-320, 300)}")
        texts.append(f"{rng.randrange(10**9)}.{rng.randrange(10**9)}")
    known = [text for text in texts if refused(dump_json, text) is not None]
    assert len(known) > 60_000
    assert as_jsonb(known) == [dump_json(text) for text in known]


def test_the_kernel_decides_numbers_itself(monkeypatch):
    """Few are left to Python: of shortest texts of doubles, next to none."""
    rng = random.Random(4)
    seen = []
    monkeypatch.setattr(encode_json, "dump_json", lambda text: seen.append(text) or dump_json(text))
    as_jsonb([repr(rng.uniform(-1e9, 1e9)) for _ in range(20_000)])
    assert len(seen) < 20


@each_case("count", [10, 40, 3000])
def test_unsorted_and_repeated_keys(count):
    rng = random.Random(count)
    keys = [
        rng.choice("abcdé") * rng.randrange(1, 9) + str(rng.randrange(count)) for _ in range(count)
    ]
    members = [f"{json.dumps(key)}: {number}" for number, key in enumerate(keys * 2)]
    text = "{" + ", ".join(members) + "}"
    assert as_jsonb([text]) == [dump_json(text)]


@each_case("size", [60_000, 65_500, 65_524, 65_535, 65_536, 70_000, 5_000_000])
def test_small_and_large_containers(size):
    for add in range(12):
        text = json.dumps({"k": [1, 70000, "x" * (size + add), [], {"a": {}}], "n": -70000})
        assert as_jsonb([text, "[1]"]) == [dump_json(text), dump_json("[1]")]


def test_slices_and_nulls():
    texts = ['{"a": 1}', None, "[true]", None, '"x"', "7"]
    array = pa.array(texts)
    for start in range(6):
        found = text_to_jsonb(array.slice(start)).to_pylist()
        assert found == [text and dump_json(text) for text in texts[start:]]


def column(charset, type_=ColumnType.BLOB, metadata=4):
    collation = default_collation(charset, Flavour.MYSQL)
    return Column(0, "c", type_, metadata, True, False, collation, None, Logical.TEXT)


@pytest.mark.slow
@each_case("charset", CHARSETS)
def test_all_characters(charset):
    """Every character of the basic plane and some beyond, alone and in a text."""
    points = [*range(0xD800), *range(0xE000, 0x10000, 1), *range(0x10000, 0x110000, 997)]
    known = [chr(point) for point in points if holds(charset, chr(point))]
    expected = [refused(lambda text: encode(charset, text), character) for character in known]
    pairs = [(c, e) for c, e in zip(known, expected, strict=True) if e is not None]
    texts = [c for c, _ in pairs] + ["ab" + c + "z" for c, _ in pairs] + [None, ""]
    ends = [encode(charset, "ab"), encode(charset, "z")]
    wanted = [e for _, e in pairs] + [ends[0] + e + ends[1] for _, e in pairs] + [None, b""]
    found = from_utf8(pa.array(texts), column(charset))
    assert found.cast(pa.binary()).to_pylist() == wanted


@each_case("charset", ["latin1", "gbk", "ascii", "ucs2", "utf8mb3", "ujis"])
def test_a_character_that_a_set_has_not(charset):
    with pytest.raises(Rejected, match=charset) as error:
        from_utf8(pa.array(["a", None, "b😀"]), column(charset))
    assert error.value.row == 2


@each_case("charset", ["latin1", "utf8mb4", "utf16", "sjis"])
def test_char_loses_its_trailing_spaces(charset):
    col = column(charset, ColumnType.STRING, 40)
    found = from_utf8(pa.array(["a  ", "  "]), col)
    if charset != "utf8mb4":  # there the row kernel trims
        assert found.cast(pa.binary()).to_pylist() == [encode(charset, "a"), b""]


def cached(rng, count):
    """Events as they stand in a transaction's cache."""
    sizes = [rng.choice([0, 1, 30, rng.randrange(9000)]) for _ in range(count)]
    return b"".join(raw_event(30, rng.randbytes(size), log_pos=0) for size in sizes)


@each_case("checksum", [True, False])
@each_case("position", [4, 2**32 - 100, 2**33 + 7])
def test_stamping_is_that_without_kernels(checksum, position):
    rng = random.Random(position)
    for count in (0, 1, 2, 50):
        events = cached(rng, count)
        expected = stamp_plainly(events, position, checksum=checksum)
        for given in (events, bytearray(events), memoryview(events)):
            assert stamp_events(given, position, checksum=checksum) == expected


@each_case("cut", [1, 18, 20])
def test_events_that_are_not_whole_are_not_stamped(cut):
    event = raw_event(30, b"x" * 10)
    with pytest.raises(EventEncodeError) as error:
        stamp_events(event + event[:cut], 4, checksum=True)
    assert error.value.offset == len(event)


def test_writers_kernels_are_not_compiled_for_readers(monkeypatch):
    asked = []
    monkeypatch.setattr(native, "kernel", asked.append)
    native.compile_all()
    assert asked
    assert not set(asked) & native.WRITING
    native.compile_all(writing=True)
    assert set(asked) == set(native.KERNELS) - native.RARE - native.PRINTING
