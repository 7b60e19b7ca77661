"""Character sets: what Python's codecs have otherwise, what is '?', what is refused."""

import json

import pytest

from tailrace.errors import EventDecodeError, SchemaError
from tailrace.values import charsets
from tailrace.values.charsets import decode, encode, single_byte_table
from tests.cases import each_case
from tests.values.make_tables import CODECS, characters, codes_of, converted

ALL = [
    *json.loads((charsets.files("tailrace.values") / "data" / "charsets.json").read_text())[
        "single"
    ]
]


@each_case(
    ("charset", "data", "text"),
    [
        ("ascii", b"a\x80", "a?"),
        ("sjis", b"\x81\x5f\x5c~\xb1", "\\\\~ｱ"),
        ("cp932", b"\x87\x40\x81\x5f", "①\uff3c"),
        ("gb18030", b"\xa8\xbc\x81\x35\xf4\x37", "ḿ\ue7c7"),
        ("gbk", b"\xc4\xe3\xa2\xa0", "你?"),
        ("ujis", b"\xa1\xc0\x8e\xb1", "\\ｱ"),
        ("eucjpms", b"\xa1\xc1\x8f\xf3\xf3", "\uff5e\u2170"),
        ("euckr", b"\xc7\xd1\x81\x41", "한갂"),
        ("utf16", b"\xd8\x3d\xde\x00", "😀"),
        ("utf8mb3", b"\xc3\xa9", "é"),
    ],
)
def test_known_texts(charset, data, text):
    assert decode(charset, data) == text


@each_case(
    ("charset", "data", "place"),
    [
        ("utf8mb4", b"ab\xff", "0xff at 2 of 3"),
        ("utf8mb4", b"\xed\xa0", "at 0"),
        ("utf8mb4", b"\xf4\x90\x80\x80", "at 0"),
        ("utf16", b"\x00a\x00", "at 2"),
        ("utf16", b"\xdc\x00\x00a", "at 0"),
        ("utf16", b"\xd8\x00", "at 0"),
        ("utf16le", b"\x00\xd8", "at 0"),
        ("ucs2", b"\xd8\x00\x00", "at 2"),
        ("utf32", b"\x00\x11\x00\x00", "at 0"),
        ("gbk", b"a\xff\xff", "0xffff at 1"),
        ("gbk", b"a\x81", "0x81 at 1"),
        ("sjis", b"\x81", "at 0"),
        ("sjis", b"\x80", "at 0"),
        ("cp932", b"a\xa0", "at 1"),
        ("ujis", b"\x80", "at 0"),
        ("eucjpms", b"\x8f\xa1", "at 0"),
    ],
)
def test_malformed_texts(charset, data, place):
    with pytest.raises(EventDecodeError, match=place):
        decode(charset, data)


@each_case(
    ("charset", "data", "text"),
    [  # what MariaDB 11.8 and 10.11 (ucs2 and ujis: MySQL 9.7) store, and SELECT's text of it
        ("utf8mb4", "eda0bd", "\ud83d"),
        ("utf8mb3", "41eda0bdedb880", "A\ud83d\ude00"),
        ("utf8mb4", "f09f9880eda0bdedb880", "\U0001f600\ud83d\ude00"),
        ("ucs2", "d83d0041", "\ud83dA"),
        ("ucs2", "d83dde00", "\ud83d\ude00"),
        ("utf32", "0000d83d0001f600", "\ud83d\U0001f600"),
    ],
)
def test_surrogates_are_characters(charset, data, text):
    """Of which two stay two, and which are written as they were."""
    assert decode(charset, bytes.fromhex(data)) == text
    assert encode(charset, text) == bytes.fromhex(data)


@each_case("charset", ["ujis", "eucjpms"])
def test_a_code_that_is_stored_but_stands_for_nothing(charset):
    """MySQL stores it as one character, and converts each of its bytes to a question mark."""
    assert decode(charset, bytes.fromhex("a4a28ea041")) == "あ??A"


def test_unknown_charset():
    with pytest.raises(SchemaError, match="klingon"):
        decode("klingon", b"")


def test_single_byte_tables():
    for charset in ALL:
        table = single_byte_table(charset)
        assert table is not None
        assert len(table) == 256
        assert decode(charset, bytes(range(256))) == table
    assert single_byte_table("gbk") is None


@each_case("charset", sorted({*CODECS, *ALL} - {"gb18030"}))
def test_every_code_is_what_the_server_makes_of_it(mysql97, charset):
    codes = codes_of(charset) if charset in CODECS else (bytes([code]) for code in range(256))
    for code, text in characters(converted(mysql97, charset, codes)).items():
        assert decode(charset, code) == text
        assert decode(charset, b"a" + code + code) == "a" + text + text
