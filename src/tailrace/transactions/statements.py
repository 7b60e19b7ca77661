"""How servers log statements about transactions: BEGIN, SAVEPOINT, XA and the others.

A server writes these statements itself, in a form of its own. Names of savepoints are compared
without regard to case, as the server does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tailrace.events.query import QueryEvent
from tailrace.events.transaction import XaPrepareEvent

if TYPE_CHECKING:
    from tailrace.events.base import Event

XaName = tuple[int, bytes, bytes]
"""An XA transaction's format id, global part and branch."""

BEGIN_AND_COMMIT: Final = frozenset({b"BEGIN", b"COMMIT"})
"""The two statements that nearly all transactions have, exactly as they are logged."""

_TRAIL = rb"\s*(?:/\*.*)?\Z"
_BEGIN: Final = re.compile(rb"BEGIN" + _TRAIL + rb"|XA\s+START\b", re.DOTALL)
_COMMIT: Final = re.compile(rb"COMMIT" + _TRAIL, re.DOTALL)
_ROLLBACK: Final = re.compile(rb"\s*ROLLBACK\b(?!\s+(?:WORK\s+)?TO\b)", re.IGNORECASE)
_XA_END: Final = re.compile(rb"\s*XA\s+(COMMIT|ROLLBACK)\b", re.IGNORECASE)
_SAVEPOINT: Final = re.compile(r"\s*+SAVEPOINT\s", re.IGNORECASE)
_ROLLBACK_TO: Final = re.compile(
    r"\s*+ROLLBACK\s++(?:WORK\s++)?TO\s++(?:SAVEPOINT\s++)?", re.IGNORECASE
)
_XA: Final = re.compile(
    r"\s*XA\s+(START|COMMIT|ROLLBACK)\s+X'((?:[0-9a-f]{2})*+)'\s*,\s*X'((?:[0-9a-f]{2})*+)'"
    r"\s*,\s*([0-9]{1,20}+)",
    re.IGNORECASE,
)

_START_TRANSACTION: Final = re.compile(rb"\sSTART\s+TRANSACTION\Z", re.IGNORECASE)
_LONGEST_END: Final = 100
"""``START TRANSACTION`` is searched in this many characters at the end."""


def begins(sql: bytes) -> bool:
    """Whether a statement begins a transaction: BEGIN or XA START."""
    return sql == b"BEGIN" or _BEGIN.match(sql) is not None


def commits(sql: bytes) -> bool:
    """Whether a statement commits the transaction that it is in."""
    return _COMMIT.match(sql) is not None


def rolls_back(sql: bytes) -> bool:
    """Whether a statement rolls back all of the transaction that it is in."""
    return _ROLLBACK.match(sql) is not None


def xa_end(sql: bytes) -> str | None:
    """COMMIT or ROLLBACK, if a statement does that to a prepared XA transaction."""
    found = _XA_END.match(sql)
    return None if found is None else found[1].decode().upper()


def savepoint_set(sql: str) -> str | None:
    """The name that ``SAVEPOINT name`` sets, in lower case; None for any other statement."""
    found = _SAVEPOINT.match(sql)
    return None if found is None else sql[found.end() :].strip().lower() or None


def savepoint_of_rollback(sql: str) -> str | None:
    """The savepoint that ``ROLLBACK TO name`` rolls back to; None for any other statement."""
    found = _ROLLBACK_TO.match(sql)
    return None if found is None else sql[found.end() :].strip().lower() or None


def xa_statement(sql: str) -> tuple[str, XaName] | None:
    """What an XA statement does, as servers log it (START, COMMIT or ROLLBACK), and its XA name."""
    found = _XA.match(sql)
    if found is None:
        return None
    name = int(found[4]), bytes.fromhex(found[2]), bytes.fromhex(found[3])
    return found[1].upper(), name


def xa_name(event: Event) -> tuple[str, XaName] | None:
    """What an event does to an XA transaction (``START``, ``PREPARE``, ``COMMIT``, ``ROLLBACK``),
    and the transaction's name. None for other events, and for a commit in one phase.
    """
    if isinstance(event, XaPrepareEvent):
        xid = event.xid
        return None if event.one_phase else ("PREPARE", (xid.format_id, xid.gtrid, xid.bqual))
    return xa_statement(event.sql) if isinstance(event, QueryEvent) else None


def without_start_transaction(sql: bytes) -> bytes | None:
    """``CREATE TABLE … START TRANSACTION`` without its last two words; None for any other
    statement.

    A server adds these words itself, at the end of the logged form of ``CREATE TABLE … SELECT``.
    """
    sql = sql.rstrip()
    start = max(0, len(sql) - _LONGEST_END)
    found = _START_TRANSACTION.search(sql, start)
    return None if found is None else sql[: found.start()].rstrip()
