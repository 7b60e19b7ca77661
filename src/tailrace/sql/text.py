"""Literals in a statement, valid in every ``sql_mode``; large literals stay bytes.

Half a gigabyte is a gigabyte as a hexadecimal literal. So until they are written, large literals
are kept as bytes of the log (`Literal`) between the other parts of their statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any, Final, cast

from tailrace.constants import LARGE
from tailrace.values.charsets import PIECE, pieces_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_KEPT: Final = frozenset("\n\t")


def plain(text: str) -> bool:
    """Whether a text can be put in quotes: nothing in it is escaped, lost or changed on the way.

    The meaning of a backslash depends on NO_BACKSLASH_ESCAPES. Clients change line ends and stop at
    zero bytes.
    """
    if text.isprintable():
        return "\\" not in text
    return all(c in _KEPT or (c.isprintable() and c != "\\") for c in text)


def quoted(text: str) -> str:
    """A `plain` text as a string literal."""
    return f"'{text.replace(chr(39), chr(39) * 2)}'"


def string(text: str) -> str:
    """Any text as a literal in utf8mb4."""
    return quoted(text) if plain(text) else f"_utf8mb4 {hexadecimal(text.encode())}"


def ascii_string(text: str) -> str:
    """The same in ASCII only: it means the same in every session, whatever its character set."""
    return string(text) if text.isascii() else f"_utf8mb4 {hexadecimal(text.encode())}"


def hexadecimal(data: bytes | memoryview) -> str:
    """Bytes as a literal."""
    return f"X'{data.hex()}'"


def comment(text: str) -> str:
    """A comment of one line."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    return f"-- {shown}"


_utf8: Final = pieces_of("utf8mb4")


@dataclass(frozen=True, slots=True)
class Literal:
    """Bytes as a literal with a prefix (``_latin1``): in hexadecimal, or UTF-8 in quotes."""

    prefix: str
    data: bytes | memoryview
    in_quotes: bool

    @property
    def size(self) -> int:
        """The number of bytes of its text."""
        size = len(self.data)
        if self.in_quotes:
            size += sum(bytes(piece).count(b"'") for piece in _cut(self.data))
        else:
            size = 2 * size + 1
        return len(self.prefix) + size + 2

    def pieces(self) -> Iterator[str]:
        """Its text."""
        yield f"{self.prefix}'" if self.in_quotes else f"{self.prefix}X'"
        if self.in_quotes:
            for _, text in _utf8(memoryview(self.data)):
                yield text.replace("'", "''")
        else:
            for piece in _cut(self.data):
                yield piece.hex()
        yield "'"

    def __reduce__(self) -> tuple[Any, ...]:
        return Literal, (self.prefix, PickleBuffer(self.data), self.in_quotes)  # not copied first


def _cut(data: bytes | memoryview) -> Iterator[bytes | memoryview]:
    return (data[at : at + PIECE] for at in range(0, len(data), PIECE))


@dataclass(frozen=True, slots=True, eq=False)
class LargeSql:
    """A statement or a part of it, with large literals; `str` gives its whole text.

    Keeps the literals' bytes in memory: for a log, those of the whole event.
    """

    parts: tuple[str | Literal, ...]

    @property
    def size(self) -> int:
        """The minimum bytes of its text: characters outside of large literals count as one."""
        return sum(len(each) if isinstance(each, str) else each.size for each in self.parts)

    def pieces(self) -> Iterator[str]:
        """Its text."""
        for each in self.parts:
            if isinstance(each, str):
                yield each
            else:
                yield from each.pieces()

    def __str__(self) -> str:
        return "".join(self.pieces())

    def __add__(self, after: Sql) -> LargeSql:
        return LargeSql((*self.parts, *((after,) if isinstance(after, str) else after.parts)))

    def __radd__(self, before: str) -> LargeSql:
        return LargeSql((before, *self.parts))


Sql = str | LargeSql
"""A part of a statement."""


def encoded(sql: Sql) -> bytes:
    """A statement's text as it is sent or written; bytes that are not UTF-8 stay as logged."""
    if isinstance(sql, str):
        return sql.encode("utf-8", "surrogateescape")
    whole = BytesIO()
    for piece in sql.pieces():
        whole.write(piece.encode("utf-8", "surrogateescape"))
    return whole.getvalue()


def joined(separator: str, parts: Iterable[Sql]) -> Sql:
    """Parts with a separator between them."""
    found = list(parts)
    try:
        return separator.join(cast("list[str]", found))
    except TypeError:  # some are large: rare
        between: list[str | Literal] = []
        for part in found:
            between += [separator, *((part,) if isinstance(part, str) else part.parts)]
        return LargeSql(tuple(between[1:]))


def bytes_literal(data: bytes | memoryview, prefix: str = "") -> Sql:
    """Bytes in hexadecimal."""
    if len(data) > LARGE:
        return LargeSql((Literal(prefix, data, in_quotes=False),))
    return f"{prefix}{hexadecimal(data)}"


def text_literal(utf8: bytes | memoryview, prefix: str = "") -> Sql:
    """`plain` text in quotes."""
    if len(utf8) > LARGE:
        return LargeSql((Literal(prefix, utf8, in_quotes=True),))
    return f"{prefix}{quoted(str(utf8, 'utf-8'))}"


def string_literal(text: str) -> Sql:
    """Any text as a literal in utf8mb4."""
    if len(text) <= LARGE:
        return string(text)
    utf8 = text.encode()
    return text_literal(utf8) if plain(text) else bytes_literal(utf8, "_utf8mb4 ")
