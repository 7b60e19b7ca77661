"""Option files (``~/.my.cnf``), read as MySQL's programs read them.

Source: MySQL ``mysys/my_default.cc``; tests compare it with ``my_print_defaults``.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUPS: Final = ("client", "client-server", "client-mariadb", "tailrace")
"""The groups that we read; if an option is given twice, the last one in the file holds."""

_ESCAPES: Final = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "s": " ",
    '"': '"',
    "'": "'",
    "\\": "\\",
}
_SPACES: Final = " \t\n\v\f\r"
_DEEPEST: Final = 10

Option = tuple[str, str, str | None]
"""Group, name (with dashes), value; None where the line is the name alone."""


def read_options(path: str | Path) -> list[Option]:
    """The options of `GROUPS`, in order, with those of included files.

    Raises UsageError for a file that cannot be read, that others may write, or that is no option
    file. Messages give the line's number and do not quote the line: it may hold a password.
    """
    return list(_options(Path(path), 0))


def _options(path: Path, depth: int) -> Iterator[Option]:
    group = None
    for number, line in enumerate(_lines(path), 1):
        text = line.strip(_SPACES)
        if not text or text[0] in "#;":
            continue
        if text[0] == "!":
            yield from _included(path, number, text, depth)
        elif text[0] == "[":
            name, bracket, _ = text[1:].partition("]")
            if not bracket:
                raise UsageError(f"{path}, line {number}: a group is [name]")
            group = name.strip(_SPACES)
        elif group is None:
            raise UsageError(f"{path}, line {number}: the option is in no [group]")
        elif group in GROUPS:
            yield (group, *_option(text))


def _lines(path: Path) -> list[str]:
    try:
        if stat.S_IMODE(path.stat().st_mode) & stat.S_IWOTH and path.is_file():
            raise UsageError(
                f"{path}: everybody may write this option file, so it is not trusted"
                f" (chmod o-w {path})"
            )
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: the option file cannot be read: {error.strerror}") from error
    return raw.decode("utf-8", "surrogateescape").split("\n")


def _included(path: Path, number: int, text: str, depth: int) -> Iterator[Option]:
    word, _, rest = text[1:].partition(" ")
    target = Path(rest.strip(_SPACES))
    if word not in {"include", "includedir"} or not rest.strip(_SPACES):
        raise UsageError(f"{path}, line {number}: neither !include FILE nor !includedir FOLDER")
    if depth == _DEEPEST:
        raise UsageError(f"{path}, line {number}: files that include each other")
    if word == "include":
        yield from _options(target, depth + 1)
        return
    for each in sorted(target.glob("*.cnf")):
        yield from _options(each, depth + 1)


def _option(text: str) -> tuple[str, str | None]:
    bare = _without_comment(text)
    name, equals, value = bare.partition("=")
    plain = name.strip(_SPACES).replace("_", "-")
    return plain, _value(value.strip(_SPACES)) if equals else None


def _without_comment(text: str) -> str:
    """The line up to a ``#`` outside quotes."""
    quote = ""
    escaped = False
    for at, letter in enumerate(text):
        if letter in "'\"" and not escaped:
            quote = letter if not quote else "" if quote == letter else quote
        if not quote and letter == "#":
            return text[:at]
        escaped = bool(quote) and letter == "\\" and not escaped
    return text


def _value(text: str) -> str:
    """A value without its quotes and with its escapes decoded."""
    if len(text) > 1 and text[0] in "'\"" and text[0] == text[-1]:
        text = text[1:-1]
    letters = iter(text)
    out: list[str] = []
    for letter in letters:
        if letter != "\\":
            out.append(letter)
            continue
        after = next(letters, None)
        out.append("\\" if after is None else _ESCAPES.get(after, f"\\{after}"))
    return "".join(out)
