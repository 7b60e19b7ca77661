"""The servers' character sets and collations: column bytes to text and back, as the server does.

Python's codecs are used where they agree with the servers on every code. Single-byte sets are
tables (``data/charsets.json``, queried from real servers by ``tests/values/make_tables.py``). The
Asian sets are a codec and a table of the server's differences. A code that is well-formed but has
no character is ``?``, as ``SELECT`` gives it; bytes that are not well-formed are an error. Servers
store surrogates in `SURROGATES`, each as a separate character. They are also separate characters of
the str: two of them that would be a pair in UTF-16 stay two. If a character has several codes, the
one that the server writes is used (``data/encodings.json``, queried from real servers by
``tests/values/make_encodings.py``). A character without a code is rejected.

Collations are those that MySQL up to 9.7 and MariaDB up to 11.8 list. An id means the same
character set in both flavours; a few names have another id in the other flavour.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib.resources import files
from struct import unpack
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import EventDecodeError, SchemaError, ValueRejected

if TYPE_CHECKING:
    from tailrace.constants import Flavour

Decoder = Callable[[bytes], str]
"""Bytes to text; `EventDecodeError` if they are not well-formed."""
Encoder = Callable[[str], bytes]
"""Text to bytes; `ValueRejected` for a character that is not in the set."""

_UNICODE: Final = {
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "ucs2": "utf-16-be",
    "utf32": "utf-32-be",
}
SURROGATES: Final = frozenset({"utf8mb3", "utf8mb4", "ucs2", "utf32"})
"""The sets in which a server stores surrogates: MariaDB in all of them, MySQL in ucs2."""
_ASCII: Final = rb"[\x00-\x7f]"
_KANA: Final = rb"[\x00-\x7f\xa1-\xdf]"
_GBK: Final = rb"[\x81-\xfe][\x40-\x7e\x80-\xfe]"
_EUC: Final = rb"\x8e[\xa0-\xdf]|\x8f[\xa1-\xfe]{2}|[\xa1-\xfe]{2}"
_SHIFT: Final = rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]"
_CHARACTER: Final = {  # one well-formed character, by the servers' own rules
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
_NO_CHARACTER: Final = {charset: {b"\x8e\xa0": "??"} for charset in ("eucjpms", "ujis")}
"""Codes that MySQL stores as a character but converts as two bytes without a character."""
UTF8: Final = frozenset({"utf8mb3", "utf8mb4"})
"""The sets whose bytes are the text's UTF-8, with surrogates as if they were characters."""


@cache
def _data(name: str) -> dict[str, Any]:
    text = files("tailrace.values").joinpath("data", f"{name}.json").read_text("ascii")
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
    table = _data("charsets")["single"].get(charset)
    if table is None:
        return None
    return str(table) if len(table) == 256 else bytes(range(128)).decode("ascii") + str(table)


@cache
def decoder(charset: str) -> Decoder:
    """The function that decodes one character set: look it up once for a column."""
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
    """Whether a character set has a character; one that it lacks becomes a question mark in it."""
    if charset in {"utf8mb3", "ucs2"}:
        return character <= "\uffff"
    if charset in _UNICODE or charset == "binary":
        return True
    if (table := single_byte_table(charset)) is not None:
        return character in table
    known = _data("charsets")["multi"][charset]
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
        "if the column holds something else, declare that in a schema"
    )


def _unicode_decoder(charset: str, codec: str) -> Decoder:
    errors = "surrogatepass" if charset in SURROGATES else "strict"

    def decode_unicode(data: bytes) -> str:
        try:
            return data.decode(codec, errors)
        except UnicodeDecodeError as error:
            raise _malformed(charset, data, error.start) from None

    def decode_ucs2(data: bytes) -> str:
        text = decode_unicode(data)
        if text and max(text) > "\uffff":
            return "".join(map(chr, unpack(f">{len(data) // 2}H", data)))
        return text

    return decode_ucs2 if charset == "ucs2" else decode_unicode


def _single_decoder(table: str) -> Decoder:
    def decode_single(data: bytes) -> str:
        return codecs.charmap_decode(data, "strict", table)[0]

    return decode_single


def _multi_decoder(charset: str) -> Decoder:
    """Uses a codec for most texts, and decodes code by code if the codec may be wrong."""
    known = _data("charsets")["multi"][charset]
    codec = str(known["codec"])
    character = re.compile(_CHARACTER[charset], re.DOTALL)
    server = _NO_CHARACTER.get(charset, {}) | {
        code: char for char, code in _codes(known["deviations"])
    }
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


def _codes(runs: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    """The characters in runs of codes (the first code in hex: the text of this and the next
    codes).
    """
    for first, text in runs.items():
        number, size = int(first, 16), len(first) // 2
        for place, character in enumerate(text):
            yield character, (number + place).to_bytes(size, "big")


def encode(charset: str, text: str) -> bytes:
    """The bytes of ``text`` in the server's character set ``charset``, as the server writes them.

    Raises `ValueRejected` for a character that the set lacks, and `SchemaError` for a character set
    that no server has.
    """
    return encoder(charset)(text)


_ASCII_OR_NOT: Final = re.compile(r"[\0-\x7f]+|[^\0-\x7f]+")


def as_logged(charset: str, text: str) -> bytes:
    """The bytes of a statement's text in its client's character set, in which ASCII is itself.

    A server would write some ASCII characters in other bytes (sjis: a backslash). Where the result
    is what was logged, a place in the text is known in the bytes: `as_logged` of the text before.
    Raises `ValueRejected` and `SchemaError` as `encode`.
    """
    parts = _ASCII_OR_NOT.findall(text)
    return b"".join(part.encode() if part.isascii() else encode(charset, part) for part in parts)


def is_exact(charset: str, text: str, data: bytes) -> bool:
    """Whether `as_logged` of a text is ``data``. Raises `SchemaError` as `encode`."""
    try:
        return as_logged(charset, text) == data
    except ValueRejected:
        return False


def place_in(charset: str, text: str, data: bytes, at: int) -> int | None:
    """Where a place in a statement's text is in its bytes ``data``; None if they do not tell it.

    Raises `SchemaError` as `encode`.
    """
    with suppress(ValueRejected, EventDecodeError):
        before = as_logged(charset, text[:at])
        if data.startswith(before) and decode(charset, data[len(before) :]) == text[at:]:
            return len(before)
    return None


@cache
def encoder(charset: str) -> Encoder:
    """The function that encodes one character set: look it up once for a column."""
    if charset in _UNICODE:
        return _unicode_encoder(charset, _UNICODE[charset])
    if (table := single_byte_table(charset)) is not None:
        return _single_encoder(charset, table)
    if charset in _CHARACTER:
        return _multi_encoder(charset)
    if charset == "binary":
        return _unicode_encoder(charset, "utf-8")
    raise SchemaError(f"{charset} is no character set of MySQL 9.7 or MariaDB 11.8")


def _rejected(charset: str, character: str, place: int) -> ValueRejected:
    return ValueRejected(
        f"{character!a} at {place} of the text is not in the character set {charset}"
    )


def _unicode_encoder(charset: str, codec: str) -> Encoder:
    two_bytes_at_most = charset in {"utf8mb3", "ucs2"}
    errors = "surrogatepass" if charset in SURROGATES else "strict"

    def encode_unicode(text: str) -> bytes:
        if two_bytes_at_most and text and max(text) > "\uffff":
            place = next(place for place, character in enumerate(text) if character > "\uffff")
            raise _rejected(charset, text[place], place)
        try:
            return text.encode(codec, errors)
        except UnicodeEncodeError as error:  # half a surrogate pair
            raise _rejected(charset, text[error.start], error.start) from None

    return encode_unicode


def _single_encoder(charset: str, table: str) -> Encoder:
    codes: dict[int, int] = {}
    for code, character in enumerate(table):
        codes.setdefault(ord(character), code)
    codes[ord("?")] = 0x3F  # codes without a character are read as a question mark
    codes |= {ord(character): code[0] for character, code in _chosen(charset).items()}

    def encode_single(text: str) -> bytes:
        try:
            return codecs.charmap_encode(text, "strict", codes)[0]
        except UnicodeEncodeError as error:
            raise _rejected(charset, text[error.start], error.start) from None

    return encode_single


def _multi_encoder(charset: str) -> Encoder:
    """Uses a codec for most texts, and encodes each character if the server writes other codes."""
    known = _data("charsets")["multi"][charset]
    codec = str(known["codec"])
    decode_server = decoder(charset)
    chosen: dict[str, bytes] = {}
    for character, code in _codes(known["deviations"]):
        chosen.setdefault(character, code)
    by_codec = [character for character in chosen if _by_server(decode_server, codec, character)]
    for character in by_codec:
        del chosen[character]
    chosen |= _chosen(charset)
    doubtful = re.compile(f"[{re.escape(''.join(sorted(chosen)))}]") if chosen else None

    def encode_multi(text: str) -> bytes:
        if doubtful is None or not doubtful.search(text):
            try:
                data = text.encode(codec)
                if decode_server(data) == text:
                    return data
            except (UnicodeEncodeError, EventDecodeError):
                pass  # one of the characters below is rejected
        codes = []
        for place, character in enumerate(text):
            code = chosen.get(character) or _by_server(decode_server, codec, character)
            if not code:
                raise _rejected(charset, character, place)
            codes.append(code)
        return b"".join(codes)

    return encode_multi


def _chosen(charset: str) -> dict[str, bytes]:
    """The codes that the server writes for characters with several codes."""
    return dict(_codes(_data("encodings").get(charset, {})))


def _by_server(decode_server: Decoder, codec: str, character: str) -> bytes:
    """The codec's code of a character, if the server decodes it to that character; else none."""
    try:
        code = character.encode(codec)
        return code if decode_server(code) == character else b""
    except (UnicodeEncodeError, EventDecodeError):
        return b""


PIECE: Final = 3 << 18
"""Bytes of a large value that are converted together: a multiple of 3, for base64."""


def can_be_cut(charset: str) -> bool:
    """Whether the bytes of a character set show where a character ends."""
    return charset in UTF8 or single_byte_table(charset) is not None


def pieces_of(charset: str) -> Callable[[memoryview], Iterator[tuple[bytes, str]]]:
    """The function that splits a text into pieces, as bytes and as text; whole if it cannot be cut.

    Raises EventDecodeError for bytes that are not text of the character set.
    """
    decode = decoder(charset)
    utf8, whole = charset in UTF8, not can_be_cut(charset)

    def pieces(data: memoryview) -> Iterator[tuple[bytes, str]]:
        at = 0
        while at < len(data):
            end = len(data) if whole else min(at + PIECE, len(data))
            if utf8:  # do not cut inside a character, which has at most four bytes
                end = next((e for e in range(end, end - 4, -1) if _begins(data, e)), end)
            piece = bytes(data[at:end])
            yield piece, decode(piece)
            at = end

    return pieces


def _begins(data: memoryview, at: int) -> bool:
    """Whether a UTF-8 character may begin here."""
    return at == len(data) or data[at] & 0xC0 != 0x80


BINARY: Final = 63
"""The collation of binary strings."""


@cache
def charset_of(collation: int) -> str:
    """The character set of a collation id; `SchemaError` if no server has the id."""
    for charset, ranges in _data("collations")["charsets"].items():
        for first, last in ranges:
            if first <= collation <= last:
                return str(charset)
    raise SchemaError(
        f"collation {collation} is unknown in MySQL up to 9.7 and MariaDB up to 11.8; "
        "declare the column with a known character set in a schema"
    )


def collation_id(name: str, flavour: Flavour) -> int | None:
    """The id of a collation by its case-insensitive name; None if the flavour does not have it.

    ``utf8_`` means ``utf8mb3_``, as both servers' aliases do.
    """
    folded = name.lower()
    names = _data("collations")["names"][flavour]
    if folded.startswith("utf8_"):
        folded = f"utf8mb3_{folded[5:]}"
    number = names.get(folded)
    return None if number is None else int(number)


def collation_name(collation: int, flavour: Flavour) -> str:
    """The name of a collation id; `SchemaError` if no server of the flavour has the id."""
    for name, number in _data("collations")["names"][flavour].items():
        if number == collation:
            return str(name)
    raise SchemaError(f"collation {collation} is of no known {flavour} server")


def default_collation(charset: str, flavour: Flavour) -> int | None:
    """The id of a character set's default collation (MySQL 9.7's, MariaDB 11.8's)."""
    folded = charset.lower()
    name = _data("collations")["defaults"][flavour].get("utf8mb3" if folded == "utf8" else folded)
    return None if name is None else collation_id(name, flavour)


_LONGEST_CHARACTER: Final = {
    **dict.fromkeys(("utf8mb4", "utf16", "utf16le", "utf32", "gb18030"), 4),
    **dict.fromkeys(("utf8mb3", "ujis", "eucjpms"), 3),
    **dict.fromkeys(("big5", "sjis", "cp932", "gbk", "gb2312", "euckr", "ucs2"), 2),
}


def longest_character(collation: int) -> int:
    """Maximum bytes of a character in this collation's character set."""
    return _LONGEST_CHARACTER.get(charset_of(collation), 1)
