"""Names and texts in a statement, valid in every ``sql_mode``."""

from __future__ import annotations

from typing import Final

_KEPT: Final = frozenset("\n\t")


def name(identifier: str) -> str:
    """An identifier in backticks."""
    return f"`{identifier.replace('`', '``')}`"


def table_name(database: str, table: str) -> str:
    """A table with its database."""
    return f"{name(database)}.{name(table)}"


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


def hexadecimal(data: bytes | memoryview) -> str:
    """Bytes as a literal."""
    return f"X'{data.hex()}'"


def comment(text: str) -> str:
    """A comment of one line."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    return f"-- {shown}"
