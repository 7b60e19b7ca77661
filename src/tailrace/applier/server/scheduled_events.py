"""Scheduled events of the source are disabled on the target, as on a replica.

What an event does to rows is in the log. A target whose scheduler executes it, too, has these rows
twice. A replica gives each event that is created or altered the status ``DISABLE ON SLAVE``,
whatever status the statement has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.errors import EventDecodeError, SchemaError, ValueRejected
from tailrace.schema.tokens import Kind, NotUnderstoodError, SqlMode, TokenCursor, tokenize
from tailrace.values.charsets import encode

if TYPE_CHECKING:
    from tailrace.constants import Flavour
    from tailrace.generators import StatementQuery

_STATUS: Final = "DISABLE ON SLAVE "
"""MySQL 9.7 reads it, too, next to its own ``DISABLE ON REPLICA``."""


def disabled_event(query: StatementQuery, flavour: Flavour) -> bytes | None:
    """A CREATE EVENT or ALTER EVENT with the status that a replica gives the event; None for any
    other statement.

    Raises SchemaError for a statement whose bytes are not those of its text in its character set.
    """
    text, raw = query.query_string, query.query_bytes
    if b"event" not in raw.lower():  # faster
        return None
    mode = SqlMode((query.sql_mode or 0) & sum(SqlMode))
    try:
        place = _status_at(TokenCursor(tokenize(text, flavour, mode)))
        if place is None:
            return None
        charset = query.character_set_client or "utf8mb4"
        start, end = (len(encode(charset, text[:at])) for at in place)
        if encode(charset, text) == raw:
            return b"%b %b%b" % (raw[:start].rstrip(), _STATUS.encode(), raw[end:])
    except NotUnderstoodError:
        return None  # the server rejects it, too
    except (EventDecodeError, ValueRejected):
        pass
    raise SchemaError(
        f"an event cannot be created disabled, as its statement is not in its character set:"
        f" {text:.200}: create it yourself, disabled, and continue after it (--start)"
    )


def _status_at(cursor: TokenCursor) -> tuple[int, int] | None:
    """Where the status of an event is in its statement, or has to be; None for any other one."""
    while cursor.accept_any("(", ";"):
        pass
    while cursor.accept("SET", "STATEMENT"):
        while not cursor.done and not cursor.accept("FOR"):
            cursor.next()
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
    while cursor.token.key not in {"DO", "COMMENT", "ENABLE", "DISABLE"} and not cursor.done:
        if cursor.token.key == "(":
            cursor.skip_parentheses()
        else:
            cursor.next()
    start = cursor.token.start
    if cursor.accept_any("ENABLE", "DISABLE") and cursor.accept("ON"):
        cursor.next()
    return start, cursor.token.start
