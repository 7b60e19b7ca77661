r"""Text that UTF-8 cannot hold: surrogates, which some servers store as characters of their own.

In a str they are characters as any other. Where text has to be UTF-8 they stand escaped, as JSON
escapes them: ``\ud83d``. Two of them that would be a pair in UTF-16 are two escapes, which a reader
of JSON takes for one character; what is one character on the server is never escaped.
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
"""Characters that are looked at together: what is encoded for it is thrown away."""


def has_surrogates(text: str) -> bool:
    """Whether there are any."""
    if text.isascii():
        return False
    try:
        for at in range(0, len(text), _PIECE):
            text[at : at + _PIECE].encode()
    except UnicodeEncodeError:
        return True
    return False


def in_json(text: str) -> str:
    """JSON text with its surrogates, which are in strings, escaped: the same object without any."""
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
        """The same of a text that comes in pieces."""
        found = False
        for piece in text:
            plain = in_json(piece)
            found |= plain is not piece
            yield plain
        self.count += found


def escaped(text: str) -> str:
    """Text as it stands in ``_raw``: the inside of a JSON string."""
    return in_json(encode_basestring(text)[1:-1])


def unescaped(text: str) -> str:
    """The text of what `escaped` gives. Each escape is one character: pairs stay two.

    Raises ValueError for what is not the inside of a JSON string.
    """
    json.loads(f'"{text}"')
    return _ESCAPED.sub(_character, text)


def _character(found: re.Match[str]) -> str:
    if found[1] is not None:
        return chr(int(found[1], 16))
    return _SHORT.get(found[2], found[2])
