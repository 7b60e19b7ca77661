r"""Text that UTF-8 cannot hold: surrogates, which some servers store as separate characters.

In a str they are ordinary characters. In UTF-8 output they are escaped, as in JSON: ``\ud83d``. Two
of them that would be a pair in UTF-16 are two escapes, which a JSON reader decodes as one
character; what is one character on the server is never escaped.
"""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_ESCAPED: Final = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_SHORT: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


_PIECE: Final = 1 << 20
"""Characters that are checked together: their encoded form is discarded."""


def has_surrogates(text: str) -> bool:
    """Whether a text has surrogates."""
    if text.isascii():
        return False
    try:
        for at in range(0, len(text), _PIECE):
            text[at : at + _PIECE].encode()
    except UnicodeEncodeError:
        return True
    return False


def in_json(text: str) -> str:
    """JSON text with the surrogates in its strings escaped; the same object if it has none."""
    if not has_surrogates(text):
        return text
    return _SURROGATES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Escapes:
    """`in_json`, with a count of the texts that had surrogates."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, text: str) -> str:
        plain = in_json(text)
        self.count += plain is not text
        return plain

    def pieces(self, text: Iterator[str]) -> Iterator[str]:
        """The same for a text in pieces."""
        found = False
        for piece in text:
            plain = in_json(piece)
            found |= plain is not piece
            yield plain
        self.count += found


def escaped(text: str) -> str:
    """Text as in ``_raw``: the inside of a JSON string."""
    return in_json(encode_basestring(text)[1:-1])


def unescaped(text: str) -> str:
    """The original text of a result of `escaped`. Each escape is one character: pairs stay two.

    Raises ValueError for text that is not the inside of a JSON string.
    """
    json.loads(f'"{text}"')
    return _ESCAPED.sub(_character, text)


def _character(found: re.Match[str]) -> str:
    if found[1] is not None:
        return chr(int(found[1], 16))
    return _SHORT.get(found[2], found[2])
