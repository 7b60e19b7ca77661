"""Queries in the language of MySQL's boolean full-text searches (InnoDB).

    query  = { item }
    item   = [ prefix ] ( word [ "*" ] | text [ "@" number ] | "(" query ")" )
    prefix = "+" (must) | "-" (must not) | "~" (counts less) | ">" "<" (counts more, less)

A row is found if it has all of the items with +, or, where there are none, one of those without a
prefix or with > or <; and none of those with -. Words that are no tokens (`Analyser.counts`) are in
no row. A text is a phrase: tokens that follow one another, but for those at its beginning that
cannot be found; with @ a number of words within which its tokens are, in any order. A quotation
mark that has none after it in its line is left out.

Source: MySQL's manual, "Boolean Full-Text Searches"; what it leaves open was tried on MySQL 9.7.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECES: Final = re.compile(
    r'[ \t\n%]+|([*()+\-<>~@])|([0-9]+)(?![^" \n\t%()+\-<>~@*])|"([^"\n]*)"'
    r'|([^" \n\t%()+\-<>~@*]+)|"'
)
_PREFIXES: Final = frozenset("+-~><")
_END: Final = "the end"
LONGEST: Final = 10_000
"""Characters of a query."""
_DEEPEST: Final = 50
"""Brackets in brackets."""


@dataclass(frozen=True, slots=True)
class Word:
    """Text outside quotation marks; with ``prefix`` its last token may continue."""

    text: str
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """Text in quotation marks; ``within`` so many words, in any order, if that is not None (@0)."""

    text: str
    within: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Items with their prefixes; "" for none."""

    items: tuple[tuple[str, Word | Text | Group], ...]


class _Parser:
    def __init__(self, text: str) -> None:
        self._pieces = [*_split(text)]
        self._at = 0

    def whole(self) -> Group:
        found = self._group(0)
        if self._at < len(self._pieces):
            raise _wrong(self._pieces[self._at][1])
        return found

    def _next(self) -> tuple[str, str]:
        return self._pieces[self._at] if self._at < len(self._pieces) else ("end", _END)

    def _accept(self, operator: str) -> bool:
        if self._next() != ("operator", operator):
            return False
        self._at += 1
        return True

    def _group(self, depth: int) -> Group:
        if depth > _DEEPEST:
            raise UsageError(f"the query: more than {_DEEPEST} brackets in one another")
        items: list[tuple[str, Word | Text | Group]] = []
        while True:
            prefix = star = ""
            kind, text = self._next()
            if kind == "operator" and text in _PREFIXES:
                prefix = text
                self._at += 1
            while self._accept("*"):  # before a word it means nothing
                star = "*"
            kind, text = self._next()
            if star and kind not in {"word", "number"}:
                raise _wrong(text)
            if kind == "end" or (kind == "operator" and text != "("):
                if prefix or (kind == "operator" and text != ")"):
                    raise _wrong(text)
                return Group(tuple(items))
            self._at += 1
            items.append((prefix, self._item(kind, text, depth)))

    def _item(self, kind: str, text: str, depth: int) -> Word | Text | Group:
        if kind == "operator":
            found = self._group(depth + 1)
            if not self._accept(")"):
                raise _wrong(self._next()[1])
            return found
        if kind in {"word", "number"}:
            return Word(text, self._accept("*"))
        if not self._accept("@"):
            return Text(text)
        kind, number = self._next()
        if kind != "number":
            raise _wrong(number)
        self._at += 1
        return Text(text, int(number) or None)


def _split(text: str) -> Iterator[tuple[str, str]]:
    for found in _PIECES.finditer(text):
        operator, number, quoted, word = found.groups()
        if operator is not None:
            yield "operator", operator
        elif quoted is not None:
            yield "text", quoted
        elif number is not None:
            yield "number", number
        elif word is not None:
            yield "word", word


def _wrong(piece: str) -> UsageError:
    where = "the end" if piece == _END else repr(piece)
    return UsageError(
        f"syntax error at {where} of the query: a query consists of"
        ' words, "phrases", +must -mustnot (groups) begin*'
    )


def parse(text: str) -> Group:
    """A query's items. Raises UsageError where MySQL says that it has a syntax error."""
    if len(text) > LONGEST:
        raise UsageError(f"the query has {len(text)} characters, and more than {LONGEST}")
    return _Parser(text).whole()


def wanted(query: Group) -> Iterator[tuple[str, bool]]:
    """The words and texts that a query asks for, and whether each may continue."""
    for prefix, item in query.items:
        if prefix == "-":
            continue
        match item:
            case Word():
                yield item.text, item.prefix
            case Text():
                yield item.text, False
            case Group():
                yield from wanted(item)
