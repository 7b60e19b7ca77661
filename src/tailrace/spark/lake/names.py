"""Folder names for tables: ``shop.orders`` as it is, anything odd encoded as the servers do it.

MySQL and MariaDB name a table's files so that any name fits any file system: a character
that could mean something to one becomes ``@`` and four hexadecimal digits of its UTF-16 code unit
(``a.b`` is ``a@002eb``). We keep letters and digits of all scripts and ``_``, ``$``, ``-``; so the
dot between database and table is the only one.
"""

from __future__ import annotations

from typing import Final

_KEPT: Final = "_$-"


def folder_name(database: str, table: str) -> str:
    """The folder of a table; different tables have different ones."""
    return f"{_encoded(database)}.{_encoded(table)}"


def _encoded(name: str) -> str:
    return "".join(
        letter if letter.isalnum() or letter in _KEPT else _code_units(letter) for letter in name
    )


def _code_units(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"@{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
