"""Makes text from logs and servers safe to print: nothing in it acts on a terminal.

Names, values and server messages can hold any text that somebody stored. Code that prints such a
text passes it through here, where it is written out. All characters that Python does not call
printable are escaped: controls (C0, DEL, C1), line and paragraph separators, characters that change
the writing direction or are invisible (bidi controls, zero-width characters, blanks other than the
space), lone surrogates, and code points that have no character.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LONGEST: Final = 80
_UNUSUAL: Final = re.compile(r"[^ -~]")
_PIECE: Final = 1 << 18
"""Characters that are processed together: each match takes memory until their text is made."""


def printable(text: str, *, keep: str = "") -> str:
    r"""The text with ``\n``, ``\x1b``, ``\u202e`` and so on for what must not be printed.

    Characters of ``keep`` stay. Text that is already escaped does not change.
    """
    if text.isprintable():
        return text
    return _escaped(
        text,
        lambda one: one if one in keep else one.encode("unicode_escape").decode("ascii"),
    )


def short_repr(value: object) -> str:
    """A value from outside for a message: its repr, in which text is quoted and escaped.

    It is cut after 80 characters, which ``...`` shows.
    """
    try:
        if isinstance(value, str):
            return repr(value if len(value) <= _LONGEST else f"{value[:_LONGEST]}...")
        text = repr(value[:_LONGEST] if isinstance(value, bytes | bytearray) else value)
    except Exception:  # noqa: BLE001 - a repr may fail in any way; the message must not
        return f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def one_line(text: str, most: int | None = None) -> str:
    """A text of several lines as one, with one space for each run of blanks.

    It is cut after ``most`` characters, which ``...`` shows.
    """
    line = " ".join(text.split())
    return line if most is None or len(line) <= most else f"{line[:most]}..."


def suggestion(name: str, known: Iterable[str]) -> str:
    """`` (did you mean mysql?)`` where a known name is like this one, else nothing."""
    found = get_close_matches(name, list(known), n=1)
    return f" (did you mean {found[0]}?)" if found and name not in found else ""


def counted(number: int, what: str) -> str:
    """``1 row``, ``1,352 rows``: a number, and what it counts, in the plural where it is not 1."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def size(count: int) -> str:
    """Bytes in readable form: ``512 B``, ``1.5 kB``, ``3.2 MB``."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value:.1f} PB"


def first_line(error: BaseException) -> str:
    """The first line of an error's text, as libraries may add more lines; else its class."""
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)


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
    if one in "\t\r\n":  # JSON has these only between values
        return " "
    units = one.encode("utf-16-be", "surrogatepass")
    pairs = (units[at : at + 2].hex() for at in range(0, len(units), 2))
    return "".join(f"\\u{unit}" for unit in pairs)
