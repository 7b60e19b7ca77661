"""Definitions as a replica executes them, where that is not as they were logged.

Scheduled events are disabled. What an event does to rows is in the log. A target whose scheduler
executes it, too, has these rows twice. A replica gives each event that is created or altered the
status ``DISABLE ON SLAVE``, whatever status the statement has.

DROP TABLE has IF EXISTS. MariaDB drops the tables that exist, answers that others do not, and logs
the statement with all of them and without an error (``slave_ddl_exec_mode=IDEMPOTENT``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tailrace.constants import Flavour
from tailrace.errors import SchemaError
from tailrace.schema.tokens import Kind, NotUnderstoodError, SqlMode, TokenCursor, tokenize
from tailrace.values.charsets import as_logged, is_exact

if TYPE_CHECKING:
    from tailrace.generators import StatementQuery

_DIFFERS: Final = re.compile(
    rb"(?:[\s(;]|--[^\n]*+|#[^\n]*+|/\*(?!M?!).*?\*/)*+"  # up to the first word
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
        change = _change(cursor, drops=drops)
    except NotUnderstoodError:
        return None  # the server rejects it, too
    if change is None:
        return None
    start, end, new = change
    charset = query.character_set_client or "utf8mb4"
    if not is_exact(charset, text, raw):
        raise SchemaError(
            "a statement is not in its character set, and so cannot be changed to what a replica"
            f" executes: {text:.200}: execute it yourself ({new}), and continue after it (--start)"
        )
    start, end = (len(as_logged(charset, text[:at])) for at in (start, end))
    # on a line of its own: what is before it may be a comment up to the line's end
    return b"%b\n%b %b" % (raw[:start], new.encode(), raw[end:])


def _change(cursor: TokenCursor, *, drops: bool) -> tuple[int, int, str] | None:
    """What replaces a part of a definition, from where to where."""
    while cursor.accept_any("(", ";"):
        pass
    while cursor.accept("SET", "STATEMENT"):
        while not cursor.done and not cursor.accept("FOR"):
            cursor.next()
    if cursor.accept("DROP"):
        cursor.accept("TEMPORARY")
        exists = cursor.accept_any("TABLE", "TABLES", "SEQUENCE") and not cursor.sees("IF")
        at = cursor.token.start
        return (at, at, "IF EXISTS") if drops and exists else None
    place = _status_at(cursor)
    return None if place is None else (*place, "DISABLE ON SLAVE")


def _status_at(cursor: TokenCursor) -> tuple[int, int] | None:
    """Where the status of an event is in its statement, or has to be; None for any other one."""
    if not cursor.accept_any("CREATE", "ALTER"):
        return None
    cursor.accept("OR", "REPLACE")
    if cursor.accept("DEFINER", "="):
        cursor.next()
        if cursor.token.key == "(":
            cursor.skip_parentheses()
        if cursor.token.kind is Kind.VARIABLE and cursor.next().value == "@":
            cursor.next()
    if not cursor.accept("EVENT"):
        return None
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
        end = last.start + len(last.value)
    return start, end
