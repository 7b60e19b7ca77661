"""A user's schema: an SQL file of CREATE TABLE statements, such as a dump without data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.constants import Flavour
from tailrace.errors import SchemaError, StorageError
from tailrace.schema.catalogue import Catalogue
from tailrace.schema.classify import classify
from tailrace.schema.ddl import Unclear, effects
from tailrace.schema.session import StatementSession
from tailrace.transaction.statements import COMMENT_REST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.schema.tables import TableState

_LARGEST: Final = 64 << 20
_MARIADB: Final = re.compile(r"mariadb|/\*M!|_uca1400_", re.IGNORECASE)
_DELIMITER: Final = re.compile(r"delimiter[ \t]+(\S+)[^\n]*", re.IGNORECASE)
_USE: Final = re.compile(r"use\s+(?:`((?:[^`]|``)+)`|(\S+))\s*", re.IGNORECASE)
_BYTES: Final = re.compile("[\udc80-\udcff]")  # the bytes that surrogateescape decoded
_PIECE: Final = re.compile(
    rf"""
      (?P<comment>--(?=\s)[^\n]*+|\#[^\n]*+|/\*(?!M?!){COMMENT_REST})
    | (?P<kept>
          /\*M?!{COMMENT_REST}
        | '[^'\\]*+(?:\\.[^'\\]*+)*+'
        | "[^"\\]*+(?:\\.[^"\\]*+)*+"
        | `[^`]*+`
        | \s++
        | \w++
        | (?P<open>/\*|['"`])
        | .
      )
    """,
    re.VERBOSE | re.DOTALL,
)


def load(path: str | Path, flavour: Flavour | None = None) -> list[TableState]:
    """The tables that an SQL file defines; see `parse`. `StorageError` if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}") from error
    if len(data) > _LARGEST:
        raise StorageError(
            f"{path} is larger than {_LARGEST >> 20} MiB: give a dump of the definitions alone "
            "(mysqldump --no-data)"
        )
    try:
        return parse(data.decode("utf-8", "surrogateescape"), flavour)
    except SchemaError as error:
        raise error.at(str(path)) from None


def parse(text: str, flavour: Flavour | None = None) -> list[TableState]:
    """The tables that an SQL text defines, for `Catalogue.given`.

    USE and DELIMITER are honoured, versioned comments count, and statements that concern no table
    are skipped. A table without a database in the text fits tables of that name in any database. If
    no flavour is given, the text's own header determines it.

    Raises `SchemaError` for a table that is not understood, and if there is no table at all.
    """
    if flavour is None:
        flavour = Flavour.MARIADB if _MARIADB.search(text) else Flavour.MYSQL
    session = StatementSession(flavour)
    catalogue = Catalogue()
    database = ""
    for statement in split(text):
        if found := _USE.fullmatch(statement):
            database = found[1].replace("``", "`") if found[1] else found[2]
        elif classify(statement).changes_schema:
            if _BYTES.search(statement):
                raise SchemaError(f"not UTF-8: {statement[:60]!r}")
            _take(catalogue, statement, database, session)
    for (_, table), reason in catalogue.unknown().items():
        raise SchemaError(f"table {table} is not understood: {reason}; leave it out")
    states = catalogue.states()
    if not states:
        raise SchemaError("there is no CREATE TABLE in it")
    return states


def _take(catalogue: Catalogue, statement: str, database: str, session: StatementSession) -> None:
    for effect in effects(statement, database, session):
        if isinstance(effect, Unclear):
            name = "a statement" if effect.name is None else f"table {effect.name.table}"
            raise SchemaError(f"{name} is not understood: {effect.reason}; leave it out")
        effect.apply(catalogue, session)


def split(text: str) -> Iterator[str]:
    """The statements of an SQL script, without comments; ``;`` or DELIMITER's mark ends them.

    A mark that opens a comment or a quotation without an end is read as itself. The time is
    proportional to the text's length: if one has no end, no later one of its kind has one.
    """
    mark = ";"
    parts: list[str] = []
    empty = True  # only space since the last statement: DELIMITER may follow
    unclosed: set[str] = set()
    at, end = 0, len(text)
    while at < end:
        if text.startswith(mark, at):
            at += len(mark)
            if not empty:
                yield "".join(parts).strip()
            parts.clear()
            empty = True
        elif empty and (found := _DELIMITER.match(text, at)):
            mark = found[1]
            at = found.end()
        elif unclosed and (text[at] in unclosed or text[at : at + 2] in unclosed):
            parts.append(text[at])
            empty = False
            at += 1
        elif found := _PIECE.match(text, at):
            kept = found.lastgroup == "kept"
            if found["open"]:
                unclosed.add(found["open"])
            parts.append(found[0] if kept else " ")
            empty = empty and not (kept and found[0].strip())
            at = found.end()
    if not empty:
        yield "".join(parts).strip()
