"""Large values as JSON, piece by piece: their JSON is never in memory as a whole."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Final

from tailrace.constants import ColumnType
from tailrace.rows.charsets import UTF8, decoder, single_byte_table
from tailrace.rows.schema import BLOB_TYPES, Logical

if TYPE_CHECKING:
    from tailrace.rows.schema import Column

LARGE: Final = 4 << 20
"""Values of at least this many bytes are written in pieces."""
_PIECE: Final = 3 << 18
"""Bytes that are converted together: a multiple of 3, for base64."""

PieceWriter = Callable[[memoryview], Iterator[str]]
"""Converts a value's bytes to JSON in pieces. Raises EventDecodeError before the first piece."""


def piece_writer_of(column: Column) -> PieceWriter | None:
    """The writer for large values of a column in pieces; None if they must be written as a
    whole.
    """
    if column.type not in BLOB_TYPES or column.type is ColumnType.BLOB_COMPRESSED:
        return None
    if column.logical is Logical.BINARY:
        return _base64
    if column.logical is Logical.TEXT:
        return _text_writer(column.charset)
    return None


def _base64(data: memoryview) -> Iterator[str]:
    yield '"'
    for at in range(0, len(data), _PIECE):
        yield base64.b64encode(data[at : at + _PIECE]).decode("ascii")
    yield '"'


def _text_writer(charset: str) -> PieceWriter | None:
    if not can_be_cut(charset):
        return None
    pieces = pieces_of(charset)

    def write(data: memoryview) -> Iterator[str]:
        for _piece in pieces(data):
            pass
        return quoted(text for _, text in pieces(data))

    return write


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
            end = len(data) if whole else min(at + _PIECE, len(data))
            if utf8:  # do not cut inside a character, which has at most four bytes
                end = next((e for e in range(end, end - 4, -1) if _begins(data, e)), end)
            piece = bytes(data[at:end])
            yield piece, decode(piece)
            at = end

    return pieces


def _begins(data: memoryview, at: int) -> bool:
    """Whether a UTF-8 character may begin here."""
    return at == len(data) or data[at] & 0xC0 != 0x80


def quoted(texts: Iterator[str]) -> Iterator[str]:
    """A JSON string from several texts, in pieces."""
    yield '"'
    for text in texts:
        yield encode_basestring(text)[1:-1]
    yield '"'


def sliced(text: str) -> Iterator[str]:
    """A text in pieces."""
    return (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
