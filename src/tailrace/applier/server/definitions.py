"""Definitions as a replica executes them, where that is not as they were logged.

Scheduled events are disabled. What an event does to rows is in the log. A target whose scheduler
executes it, too, has these rows twice. A replica gives each event that is created or altered the
status ``DISABLE ON SLAVE``, whatever status the statement has.

An event whose statement has no definer has the user who altered it on the source, whom the log
names. Servers write the definer into CREATE EVENT, and not into ALTER EVENT.

DROP TABLE has IF EXISTS. MariaDB drops the tables that exist, answers that others do not, and logs
the statement with all of them and without an error (``slave_ddl_exec_mode=IDEMPOTENT``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tailrace.constants import Flavour
from tailrace.errors import SchemaError
from tailrace.schema.tokens import (
    Kind,
    NotUnderstoodError,
    SqlMode,
    TokenCursor,
    quoted_name,
    tokenize,
)
from tailrace.values.charsets import as_logged, place_in

if TYPE_CHECKING:
    from tailrace.generators import StatementQuery
    from tailrace.schema.tokens import SqlToken

_DIFFERS: Final = re.compile(
    rb"(?:[\s(;]|--[^\n]*+|#[^\n]*+|/\*(?!M?!).*?\*/|(?!))*+"  # up to the first word: COMMENT_REST
    rb"(?:DROP|(?:CREATE|ALTER).*?EVENT|(?:SET|/\*M?!).*?(?:EVENT|DROP))",
    re.IGNORECASE | re.DOTALL,
)
"""How a statement begins that may differ. All others, which may be large, are not split."""


def as_on_replica(query: StatementQuery, flavour: Flavour) -> bytes | None:
    """The definition of a source of that flavour as a replica executes it; None for one that it
    executes as it was logged.

    Raises SchemaError for a statement whose bytes are not those of its text in its character set.
    """
    text, raw = query.query_string, query.query_bytes
    if _DIFFERS.match(raw) is None:
        return None
    mode = SqlMode((query.sql_mode or 0) & sum(SqlMode))
    try:
        cursor = TokenCursor(tokenize(text, flavour, mode))
        drops = flavour is Flavour.MARIADB and not query.error_code
        changes = _changes(cursor, query.invoker, drops=drops)
    except NotUnderstoodError:
        return None  # the server rejects it, too
    if not changes:
        return None
    charset = query.character_set_client or "utf8mb4"
    changed = raw
    for start, end, new in reversed(changes):
        begin, rest = (place_in(charset, text, raw, at) for at in (start, end))
        if begin is None or rest is None:
            news = ", ".join(new for *_, new in changes)
            raise SchemaError(
                "a statement is not in its character set, and so cannot be changed to what a"
                f" replica executes: {text:.200}: execute it yourself ({news}), and continue after"
                " it (--start)"
            )
        # on a line of its own: what is before it may be a comment up to the line's end
        changed = b"%s\n%s %s" % (changed[:begin], as_logged(charset, new), changed[rest:])
    return changed


_Change = tuple[int, int, str]
"""What replaces a part of a text, from where to where."""


def _changes(cursor: TokenCursor, invoker: tuple[str, str] | None, *, drops: bool) -> list[_Change]:
    """What replaces the parts of a definition, in their order."""
    while cursor.accept_any("(", ";"):
        pass
    while cursor.accept("SET", "STATEMENT"):
        while not cursor.done and not cursor.accept("FOR"):
            cursor.next()
    if cursor.accept("DROP"):
        cursor.accept("TEMPORARY")
        exists = cursor.accept_any("TABLE", "TABLES", "SEQUENCE") and not cursor.sees("IF")
        at = cursor.token.start
        return [(at, at, "IF EXISTS")] if drops and exists else []
    if not cursor.accept_any("CREATE", "ALTER"):
        return []
    cursor.accept("OR", "REPLACE")
    definer = _definer(cursor, invoker)
    if not cursor.accept("EVENT"):
        return []
    return [*definer, (*_status_at(cursor), "DISABLE ON SLAVE")]


def _definer(cursor: TokenCursor, invoker: tuple[str, str] | None) -> list[_Change]:
    """The user whom the session of the statement made the definer, in place of none."""
    start = end = cursor.token.start
    if cursor.accept("DEFINER", "="):
        end = _end(cursor.next())
        if not cursor.tokens[cursor.at - 1].key.startswith("CURRENT_"):
            if cursor.token.kind is Kind.VARIABLE and cursor.next().value == "@":
                cursor.next()
            return []
        if cursor.accept("("):
            end = _end(cursor.next())
    if invoker is None:
        return []
    user, host = invoker
    named = f"{quoted_name(user)}@{quoted_name(host)}" if host else quoted_name(user)
    return [(start, end, f"DEFINER = {named}")]


def _status_at(cursor: TokenCursor) -> tuple[int, int]:
    """Where the status of an event is in its statement, or has to be."""
    cursor.accept("IF", "EXISTS")
    cursor.accept("IF", "NOT", "EXISTS")
    cursor.qualified()
    ends = {"DO", "COMMENT", "ENABLE", "DISABLE", ";"}
    while cursor.token.key not in ends and cursor.token.kind is not Kind.END:
        if cursor.token.key == "(":
            cursor.skip_parentheses()
        else:
            cursor.next()
    start = end = cursor.token.start
    if cursor.sees("ENABLE") or cursor.sees("DISABLE"):
        last = cursor.next()
        if cursor.accept("ON"):
            last = cursor.next()
        end = _end(last)
    return start, end


def _end(token: SqlToken) -> int:
    """Where a word or a mark ends."""
    return token.start + len(token.value)
