"""Text to the servers' character sets: the codes that the servers write, and what is refused."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.errors import EventDecodeError, SchemaError, ValueRejected
from tailrace.values.charsets import decode, encode
from tests.cases import each_case
from tests.values.make_encodings import PLANE, written
from tests.values.test_charsets import ALL

MULTI = ["big5", "cp932", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "sjis", "ujis"]
UNICODE = ["utf8mb3", "utf8mb4", "utf16", "utf16le", "utf32", "ucs2"]
SPECIAL = "\\~?'\"-.,¥€‾\uff5e\u2225\uff0d\u2160\u2170\u3231\u2116\u2121纊\ufffd\x00\x7f\x80\xa0ÿ"
ASTRAL = "\U0001f600\U00020000\U0010ffff"


@each_case(
    ("charset", "content", "data"),
    [
        ("latin1", "€\x81é", b"\x80\x81\xe9"),
        ("swe7", "ÄÖÅ", b"[\\]"),
        ("ascii", "a?", b"a?"),
        ("sjis", "a\\ｱ", b"a\x81\x5f\xb1"),
        ("cp932", "①\uff3c\u2170", b"\x87\x40\x81\x5f\xfa\x40"),
        ("big5", "碁a中", b"\xf9\xd6a\xa4\xa4"),
        ("gb18030", "ḿ\ue7c7😀", b"\xa8\xbc\x81\x35\xf4\x37\x94\x39\xfc\x36"),
        ("ujis", "\\ｱ", b"\\\x8e\xb1"),
        ("eucjpms", "\uff5e\u2160", b"\xa1\xc1\xad\xb5"),
        ("armscii8", "()-.,'", b"()-.,'"),
        ("ucs2", "a☺", b"\x00a\x26\x3a"),
        ("utf16le", "😀", b"\x3d\xd8\x00\xde"),
        ("utf32", "😀", b"\x00\x01\xf6\x00"),
        ("binary", "é", b"\xc3\xa9"),
    ],
)
def test_known_texts(charset, content, data):
    assert encode(charset, content) == data
    assert decode(charset, data) == content


@each_case(
    ("charset", "content", "place"),
    [
        ("latin1", "ab日", r"'\\u65e5' at 2 "),
        ("ascii", "é", "at 0"),
        ("swe7", "[", "at 0"),
        ("utf8mb3", "a😀", "at 1"),
        ("ucs2", "😀", "at 0"),
        ("utf16", "a\ud800", r"'\\ud800' at 1"),
        ("binary", "a\ud800", r"'\\ud800' at 1"),
        ("utf16", "\udc00", "at 0"),
        ("gbk", "你😀", "at 1"),
        ("big5", "中\xe9", "at 1"),
        ("cp932", "\u6661", "at 0"),
    ],
)
def test_what_a_set_has_not(charset, content, place):
    with pytest.raises(ValueRejected, match=f"{place}.*character set {charset}"):
        encode(charset, content)


def test_unknown_charset():
    with pytest.raises(SchemaError, match="klingon"):
        encode("klingon", "")


@each_case("charset", [*ALL, *MULTI, *UNICODE])
def test_codes_are_those_of_the_servers(flavour_server, charset):
    if charset == "gb18030" and flavour_server.flavour == "mariadb":
        return  # it has no such character set
    chance = random.Random(charset)
    characters = [*map(chr, range(0x250)), *SPECIAL, *chance.sample(PLANE, 1000)]
    if charset in {"gb18030", "utf8mb4", "utf16", "utf16le", "utf32"}:
        characters += ASTRAL
    theirs = written(flavour_server, charset, dict.fromkeys(characters))
    for character in characters:
        if character in theirs:
            assert encode(charset, character) == theirs[character], character
        else:
            with pytest.raises(ValueRejected):
                encode(charset, character)


@given(st.sampled_from([*ALL, *MULTI, *UNICODE]), st.binary(max_size=12))
def test_what_is_read_can_be_written(charset, data):
    try:
        content = decode(charset, data)
    except EventDecodeError:
        return
    assert decode(charset, encode(charset, content)) == content


@given(st.sampled_from([*ALL, *MULTI, *UNICODE]), st.text(max_size=8))
def test_what_is_written_reads_the_same(charset, content):
    try:
        data = encode(charset, content)
    except ValueRejected:
        return
    assert decode(charset, data) == content
