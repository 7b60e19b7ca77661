"""Folder names for tables: ``shop.orders`` as it is, anything odd encoded as the servers do it.

MySQL and MariaDB name a table's files so that any name fits any file system: a character
that could mean something to one becomes ``@`` and four hexadecimal digits of its UTF-16 code unit
(``a.b`` is ``a@002eb``). We keep letters and digits of all scripts and ``_``, ``$``, ``-``; so the
dot between database and table is the only one.

A name that is too long for a file system is cut, and ends with ``@-`` and a digest of the table's
name. So does an empty name, which no server accepts but a log may have, and the name of a table
that differs from an earlier table's in nothing but the case of its letters, or in how they are
composed. Which table a folder is of stands in the lake's manifest: a table keeps the folder that it
was given first (`Folders`), whatever a later release would call it.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import TYPE_CHECKING, Final

from tailrace.errors import BadLogName
from tailrace.log_name import plain_name
from tailrace.printable import short_repr

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.spark.manifest.manifest import TableState

_MADE: Final = re.compile(
    r"[a-z]+-([0-9]{6,18})-(?:([0-9]{6,18})-[0-9a-f]{12}|[a-z0-9-]+)\.parquet"
)
_KEPT: Final = "_$-"
_MOST: Final = 200
"""Bytes of a folder's name: file systems take 255, and parts of a table have theirs behind it."""
_HALF: Final = 90
"""Bytes of the database's name, and of the table's, in a name that is cut."""
_DIGITS: Final = 16


def folder_name(database: str, table: str) -> str:
    """The folder of a table as far as its name alone tells; no two names have the same."""
    name = f"{_encoded(database)}.{_encoded(table)}"
    if database and table and len(name.encode()) <= _MOST:
        return name
    return _digested(database, table)


def folded(name: str) -> str:
    """What two names have in common that are one name to some file system or catalogue."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def check_plain(name: object, what: str) -> str:
    """The name, of a file or folder right below another; raises ValueError, TypeError."""
    if not isinstance(name, str):
        raise TypeError(f"{what} is {short_repr(name)}")
    try:
        return plain_name(name)
    except BadLogName as error:
        raise ValueError(f"{what}: {error}") from None


def made_by(name: str) -> tuple[int, int | None] | None:
    """The batch that a data file of ours came with, and the generation of the process that wrote
    it, which is None in names of earlier builds. None for any other file.
    """
    if (found := _MADE.fullmatch(name)) is None:
        return None
    return int(found[1]), None if found[2] is None else int(found[2])


class Folders:
    """The folders of a lake's tables: those that they have, and new ones that no other has."""

    def __init__(self, states: Iterable[TableState]) -> None:
        self._known = {(each.database, each.table): each.folder for each in states}
        self._taken = {folded(each) for each in self._known.values()}

    def of(self, database: str, table: str) -> str:
        """The table's folder, the same at every call."""
        known = self._known.get((database, table))
        if known is None:
            known = folder_name(database, table)
            if folded(known) in self._taken:
                known = _digested(database, table)
            self._known[database, table] = known
            self._taken.add(folded(known))
        return known


def _digested(database: str, table: str) -> str:
    """A name of both that is short enough, with a digest of them."""
    digest = hashlib.sha256(f"{database}\0{table}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{_cut(database)}.{_cut(table)}@-{digest[:_DIGITS]}"


def _cut(name: str) -> str:
    """The name encoded, as many characters of it as fit."""
    found = ""
    for letter in name:
        longer = found + _encoded(letter)
        if len(longer.encode()) > _HALF:
            break
        found = longer
    return found


def _encoded(name: str) -> str:
    return "".join(
        letter if letter.isalnum() or letter in _KEPT else _code_units(letter) for letter in name
    )


def _code_units(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"@{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
