"""Text of logs and servers, made fit to be printed: nothing in it acts on a terminal.

Names, values and what a server says hold whatever somebody stored. Whoever prints such a text sends
it through here, at the place where it is written out. Escaped are all characters that Python does
not call printable: controls (C0, DEL, C1), line and paragraph separators, what changes the writing
direction or cannot be seen (bidi controls, zero-width characters, blanks other than the space),
lone surrogates, and code points that have no character.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_QUOTED: Final = 80
_UNUSUAL: Final = re.compile(r"[^ -~]")
_PIECE: Final = 1 << 18
"""Characters that are looked at together: each match takes memory until their text is made."""


def printable(text: str, *, keep: str = "") -> str:
    r"""The text with ``\n``, ``\x1b``, ``\u202e`` and so on for what must not be printed.

    Characters of ``keep`` stay. What is escaped stays as it is when it is given again.
    """
    if text.isprintable():
        return text
    return _escaped(
        text,
        lambda one: one if one in keep else one.encode("unicode_escape").decode("ascii"),
    )


def quoted(text: str) -> str:
    """A name from elsewhere, in quotes and escaped for a message; cut where it is long."""
    return repr(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}...")


def one_line(text: str) -> str:
    """A text of several lines as one, with one space for each run of blanks."""
    return " ".join(text.split())


def printable_json(line: str) -> str:
    r"""A JSON text with ``\u001b`` and so on in its strings: it means the same as before.

    Blanks between values become spaces.
    """
    if line.isprintable():
        return line
    return _escaped(line, _json_escape)


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    def one(found: re.Match[str]) -> str:
        return found[0] if found[0].isprintable() else escape(found[0])

    if len(text) <= _PIECE:
        return _UNUSUAL.sub(one, text)
    pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
    return "".join(piece if piece.isprintable() else _UNUSUAL.sub(one, piece) for piece in pieces)


def _json_escape(one: str) -> str:
    if one in "\t\r\n":  # JSON has them between values only
        return " "
    units = one.encode("utf-16-be", "surrogatepass")
    pairs = (units[at : at + 2].hex() for at in range(0, len(units), 2))
    return "".join(f"\\u{unit}" for unit in pairs)
