import random
import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.columns.charsets import to_utf8
from tailrace.errors import EventDecodeError, SchemaError
from tailrace.values.charsets import decode
from tailrace.values.surrogates import escaped, has_surrogates, unescaped
from tests.cases import each_case
from tests.values import make_tables
from tests.values.test_charsets import ALL

CODECS = {
    **make_tables.CODECS,
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "ucs2": "utf-16-be",
    "utf32": "utf-32-be",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
    "binary": "utf-8",
}
TEXTS = [
    "plain ASCII text, longer than sixteen bytes",
    "数据库复制",
    "データベース",
    "데이터",
    "ｶﾅ",
]


def binary(values):
    return pa.array(values, pa.binary())


def agree(charset, values):
    """The same texts as the decoder of single values, or an error for the same first row."""
    expected = []
    beside = {}
    for row, value in enumerate(values):
        try:
            text = None if value is None else decode(charset, value)
            if text is not None and has_surrogates(text):
                beside[row], text = escaped(text), None
            expected.append(text)
        except EventDecodeError as error:
            message = f"row {row} of a batch: {error.message}"
            with pytest.raises(EventDecodeError, match=f"^{re.escape(message)}$"):
                to_utf8(binary(values), charset, {})
            return
    odd = {}
    got = to_utf8(binary(values), charset, odd)
    got.validate(full=True)
    assert got.to_pylist() == expected
    assert odd == beside


def encodable(text, charset):
    return text.encode(CODECS.get(charset, "ascii"), "ignore")


@each_case("charset", ALL)
def test_every_byte(charset):
    every = bytes(range(256))
    agree(charset, [every, None, every[::-1], every[:128], *(bytes([i]) for i in range(256))])


@each_case("charset", CODECS)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
@pytest.mark.slow
def test_text_and_noise(charset, data):
    """Texts that the set has, some of them damaged or cut."""
    texts = data.draw(st.lists(st.none() | st.sampled_from(TEXTS) | st.text(), max_size=6))
    values = [None if text is None else encodable(text, charset) for text in texts]
    if data.draw(st.booleans()):
        values.append(data.draw(st.binary(max_size=9)))
    if data.draw(st.booleans()):
        value = encodable(data.draw(st.sampled_from(TEXTS)), charset)
        values.append(value[: data.draw(st.integers(0, len(value)))])
    agree(charset, values)


@pytest.mark.slow
@each_case("charset", [name for name in CODECS if "utf" not in name])
def test_every_code(charset):
    """All codes of one and two bytes that are well-formed, in one text, in a random order."""
    codes = []
    for number in range(65536):
        code = number.to_bytes(2, "big")
        for part in (code, code[1:]) if number < 256 else (code,):
            try:
                decode(charset, part)
            except EventDecodeError:
                continue
            codes.append(part)
    random.Random(1).shuffle(codes)
    agree(charset, [b"".join(codes), b"".join(codes[:20])])


def test_gb18030_of_four_bytes():
    """On all sides of the borders: assigned, not assigned, the planes above, behind the last."""
    numbers = {0, 1, 39393, 39394, 39419, 39420, 39421, 50399, 50400, 100000, 188999, 189000}
    numbers |= {1237575, 1237576, 1587599, *random.Random(2).sample(range(1587600), 3000)}
    codes = []
    for number in sorted(numbers):
        rest, fourth = divmod(number, 10)
        rest, third = divmod(rest, 126)
        first, second = divmod(rest, 10)
        codes.append(bytes([0x81 + first, 0x30 + second, 0x81 + third, 0x30 + fourth]))
    agree("gb18030", codes)


@each_case("charset", ["ujis", "eucjpms"])
def test_three_bytes(charset):
    seconds, thirds = random.Random(3).sample(range(0xA1, 0xFF), 30), range(0xA1, 0xFF)
    agree(charset, [bytes([0x8F, second, third]) for second in seconds for third in thirds])
    agree(charset, [b"a\x8f"])
    agree(charset, [b"a\x8f\xa1"])
    agree(charset, [b"a\x8f\xa1\x41"])


@each_case("charset", [None, "utf8mb4", "latin1", "sjis"])
def test_ascii_is_not_copied(charset):
    array = binary([b"abc", None, b"def"])
    got = to_utf8(array, charset)
    assert got.to_pylist() == ["abc", None, "def"]
    assert got.buffers()[2].address == array.buffers()[2].address


@each_case("charset", ["utf8mb4", "latin1", "gbk", "utf16"])
def test_slices_and_nulls(charset):
    """Nulls may hide bytes that are not well-formed; a slice looks at its own rows only."""
    good = "é中"[: 1 if charset == "latin1" else 2].encode(CODECS.get(charset, charset))
    bad = b"" if charset == "latin1" else b"\xff"
    values = binary([bad, good, bad, good * 9, b"", bad])
    mask = pa.py_buffer(bytes([0b011010]))
    array = pa.Array.from_buffers(pa.binary(), 6, [mask, *values.buffers()[1:]])
    text = decode(charset, good)
    expected = [None, text, None, text * 9, "", None]
    for start in range(6):
        for length in range(6 - start):
            got = to_utf8(array.slice(start, length), charset)
            got.validate(full=True)
            assert got.to_pylist() == expected[start : start + length]


@each_case(
    ("charset", "data", "text"),
    [
        ("utf8mb4", "22eda0bdedb8805c", r"\"\ud83d\ude00\\"),
        ("utf8mb3", "c3a9eda0bd", r"é\ud83d"),
        ("ucs2", "d83dde00000a", r"\ud83d\ude00\n"),
        ("utf32", "0000d83d0001f600", "\\ud83d\U0001f600"),
    ],
)
def test_surrogates(charset, data, text):
    """They stand in ``_raw``, the inside of a JSON string; no other row is touched."""
    value = bytes.fromhex(data)
    plain = decode(charset, value).encode("utf-8", "ignore").decode()
    other = plain.encode(CODECS.get(charset, charset)) if charset in CODECS else b"\0\0\0A"
    agree(charset, [None, value, other, b"", value * 50, other])
    odd = {}
    assert to_utf8(binary([b"", value]), charset, odd).to_pylist() == ["", None]
    assert odd == {1: text}
    assert unescaped(text) == decode(charset, value)
    with pytest.raises(EventDecodeError, match="row 1 of a batch: text with surrogates"):
        to_utf8(binary([b"", value]), charset)


def test_no_rows():
    for charset in ("utf8mb4", "latin1", "gbk", "utf32"):
        assert to_utf8(binary([]), charset).to_pylist() == []


def test_unknown():
    with pytest.raises(SchemaError, match="klingon"):
        to_utf8(binary([b"a"]), "klingon")


def test_grows():
    """Bytes that become three times as many."""
    agree("cp1257", [b"\x80" * 10000] * 20)
