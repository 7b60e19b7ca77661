"""The servers' character sets: bytes of a column to text, as the server itself converts them.

Python's codecs do where they agree with the servers on every code. Single-byte sets are tables
(``data/charsets.json``, asked of real servers by ``tests/rows/make_tables.py``); the Asian sets are
a codec and a table of what the server does otherwise. A code that is well-formed but stands for
nothing is ``?``, as ``SELECT`` gives it; bytes that are not well-formed are an error.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any, Final

from tailrace.errors import EventDecodeError, SchemaError

Decoder = Callable[[bytes], str]
"""Bytes to text; `EventDecodeError` where they are not well-formed."""

_UNICODE: Final = {
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "ucs2": "utf-16-be",
    "utf32": "utf-32-be",
}
_ASCII: Final = rb"[\x00-\x7f]"
_KANA: Final = rb"[\x00-\x7f\xa1-\xdf]"
_GBK: Final = rb"[\x81-\xfe][\x40-\x7e\x80-\xfe]"
_EUC: Final = rb"\x8e[\xa1-\xdf]|\x8f[\xa1-\xfe]{2}|[\xa1-\xfe]{2}"
_SHIFT: Final = rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]"
_CHARACTER: Final = {  # one well-formed character: the servers' own rules
    "big5": _ASCII + rb"|[\xa1-\xf9][\x40-\x7e\xa1-\xfe]",
    "cp932": _KANA + b"|" + _SHIFT,
    "eucjpms": rb"[\x00-\x8d\x90-\xa0\xff]|" + _EUC,
    "euckr": _ASCII + rb"|[\x81-\xfe][\x41-\x5a\x61-\x7a\x81-\xfe]",
    "gb18030": _ASCII + b"|" + _GBK + rb"|[\x81-\xfe][\x30-\x39][\x81-\xfe][\x30-\x39]",
    "gb2312": _ASCII + rb"|[\xa1-\xf7][\xa1-\xfe]",
    "gbk": _ASCII + b"|" + _GBK,
    "sjis": _KANA + b"|" + _SHIFT,
    "ujis": _ASCII + b"|" + _EUC,
}
UTF8: Final = frozenset({"utf8mb3", "utf8mb4"})
"""The sets whose bytes are the text's UTF-8."""


@cache
def _data() -> dict[str, Any]:
    text = files("tailrace.rows").joinpath("data", "charsets.json").read_text("ascii")
    data: dict[str, Any] = json.loads(text)
    return data


def decode(charset: str, data: bytes) -> str:
    """The text of ``data``, which is in the server's character set ``charset``.

    Raises `EventDecodeError` for bytes that are not well-formed in it, and `SchemaError` for a
    character set that no server has.
    """
    return decoder(charset)(data)


def single_byte_table(charset: str) -> str | None:
    """The 256 characters of a single-byte set; None for the others."""
    table = _data()["single"].get(charset)
    if table is None:
        return None
    return str(table) if len(table) == 256 else bytes(range(128)).decode("ascii") + str(table)


@cache
def decoder(charset: str) -> Decoder:
    """The function that decodes one character set: look it up once a column."""
    if charset in _UNICODE:
        return _unicode_decoder(charset, _UNICODE[charset])
    if (table := single_byte_table(charset)) is not None:
        return _single_decoder(table)
    if charset in _CHARACTER:
        return _multi_decoder(charset)
    if charset == "binary":
        return _unicode_decoder(charset, "utf-8")
    raise SchemaError(f"{charset} is no character set of MySQL 9.7 or MariaDB 11.8")


@cache
def holds(charset: str, character: str) -> bool:
    """Whether a character set has a character; what it has not becomes a question mark in it."""
    if charset in {"utf8mb3", "ucs2"}:
        return character <= "\uffff"
    if charset in _UNICODE or charset == "binary":
        return True
    if (table := single_byte_table(charset)) is not None:
        return character in table
    known = _data()["multi"][charset]
    if any(character in text for text in known["deviations"].values()):
        return True
    try:
        return decode(charset, character.encode(str(known["codec"]))) == character
    except (UnicodeEncodeError, EventDecodeError):
        return False


def _malformed(charset: str, data: bytes, start: int) -> EventDecodeError:
    shown = data[start : start + 4].hex()
    return EventDecodeError(
        f"text that is not {charset}: bytes 0x{shown} at {start} of {len(data)}; "
        "if the column holds something else, a schema that declares it so helps"
    )


def _unicode_decoder(charset: str, codec: str) -> Decoder:
    def decode_unicode(data: bytes) -> str:
        try:
            return data.decode(codec)
        except UnicodeDecodeError as error:
            raise _malformed(charset, data, error.start) from None

    return decode_unicode


def _single_decoder(table: str) -> Decoder:
    def decode_single(data: bytes) -> str:
        return codecs.charmap_decode(data, "strict", table)[0]

    return decode_single


def _multi_decoder(charset: str) -> Decoder:
    """A codec for most texts, and code by code where the text may hold what the codec has wrong."""
    known = _data()["multi"][charset]
    codec = str(known["codec"])
    character = re.compile(_CHARACTER[charset], re.DOTALL)
    server: dict[bytes, str] = {}
    for first, text in known["deviations"].items():
        number, size = int(first, 16), len(first) // 2
        server |= {(number + i).to_bytes(size, "big"): char for i, char in enumerate(text)}
    codec_only = [bytes([i]) for i in range(256) if not character.fullmatch(bytes([i]))]
    wrong = {_by_codec(codec, code) for code in [*server, *codec_only]} - {""}
    doubtful = re.compile(f"[{re.escape(''.join(sorted(wrong)))}]") if wrong else None

    def code_by_code(data: bytes) -> str:
        result: list[str] = []
        at = 0
        while at < len(data):
            found = character.match(data, at)
            if found is None:
                raise _malformed(charset, data, at)
            at, code = found.end(), found[0]
            result.append(server.get(code) or _by_codec(codec, code) or "?")
        return "".join(result)

    def decode_multi(data: bytes) -> str:
        try:
            text = data.decode(codec)
        except UnicodeDecodeError:
            return code_by_code(data)
        return code_by_code(data) if doubtful and doubtful.search(text) else text

    return decode_multi


def _by_codec(codec: str, code: bytes) -> str:
    try:
        return code.decode(codec)
    except UnicodeDecodeError:
        return ""
