"""Statements about transactions: BEGIN, SAVEPOINT, XA and the others.

Servers write these statements themselves, in a form of their own (``ROLLBACK TO `a```), whatever
was typed. MySQL's releases before 8.0 and tools may log what was typed: so every spelling that the
servers understand is one here, with comments between words and in any case. Names of savepoints are
compared without regard to case, as the server does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tailrace.errors import BoundaryError
from tailrace.events.query import QueryEvent
from tailrace.events.transaction import XaName, XaPrepareEvent

if TYPE_CHECKING:
    from tailrace.events.base import Event

BEGIN_AND_COMMIT: Final = frozenset({b"BEGIN", b"COMMIT"})
"""The two statements that nearly all transactions have, exactly as they are logged."""

COMMENT_REST: Final = r"[^*]*+\*++(?:[^/*][^*]*+\*++|(?!))*+/"
"""What follows the ``/*`` of a comment. In a group that repeats possessively, Python before 3.11.5
loses its position where the group begins to match and fails (gh-106052). The last alternative
``(?!)``, which never matches, restores it."""
BETWEEN_WORDS: Final = rf"\s++|--\n|--[^\S\n][^\n]*+|\#[^\n]*+|/\*M?!\d*+|\*/|/\*{COMMENT_REST}"
"""What may stand between two words of a statement; what versioned comments hold counts."""
_G: Final = rf"(?:{BETWEEN_WORDS}|(?!))*+"
_QUOTED: Final = r"`(?:[^`]|``)*+`|" + r'"(?:[^"]|"")*+"'
_SPOT: Final = rf"(?P<name>{_QUOTED}|[^\s;`\"/#-][^\s;`\"/#]*+){_G};?{_G}\Z"
_HEX: Final = r"X'((?:[0-9a-f]{2})*+)'"
_FLAGS: Final = re.IGNORECASE | re.ASCII


def _pattern(text: str) -> tuple[re.Pattern[bytes], re.Pattern[str]]:
    """A pattern of statements, for bytes and for text."""
    return re.compile(text.encode(), _FLAGS), re.compile(text, _FLAGS)


_BEGIN: Final = re.compile(
    rf"{_G}(?:BEGIN\b{_G}(?:WORK\b{_G})?;?{_G}\Z|XA\b{_G}START\b)".encode(), _FLAGS
)
_COMMIT: Final = re.compile(rf"{_G}COMMIT\b".encode(), _FLAGS)
_ROLLBACK_IN_BYTES, _ROLLBACK = _pattern(
    rf"{_G}ROLLBACK\b{_G}(?:WORK\b{_G})?(?P<to>TO\b{_G}(?:SAVEPOINT\b{_G}(?=[^;])|){_SPOT}|TO\b)?"
)
_SAVEPOINT: Final = re.compile(rf"{_G}SAVEPOINT\b{_G}{_SPOT}", _FLAGS)
_RELEASE: Final = re.compile(rf"{_G}RELEASE\b{_G}SAVEPOINT\b{_G}{_SPOT}", _FLAGS)
_XA_IN_BYTES, _XA = _pattern(rf"{_G}XA\b{_G}(START|COMMIT|ROLLBACK)\b")
_XA_NAME: Final = re.compile(rf"{_G}{_HEX}{_G},{_G}{_HEX}{_G},{_G}([0-9]{{1,20}}+)", _FLAGS)

_START_TRANSACTION: Final = re.compile(rb"\sSTART\s+TRANSACTION\Z", re.IGNORECASE)
_WORDS: Final = b"\n) START TRANSACTION "
_IN_THE_MIDDLE: Final = re.compile(
    rb"(CREATE TABLE (?:[^'`\"\n]++|\n(?!\) START TRANSACTION )|'[^'\\]*+(?:\\.[^'\\]*+)*+'"
    rb"|`[^`]*+`|\"[^\"]*+\"|(?!))*+\n\)) START TRANSACTION(?= )",
    re.DOTALL,
)
_SHOWN: Final = 80
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
    found = _ROLLBACK_IN_BYTES.match(sql)
    return found is not None and found["to"] is None


def xa_end(sql: bytes) -> str | None:
    """COMMIT or ROLLBACK, if a statement does that to a prepared XA transaction."""
    found = _XA_IN_BYTES.match(sql)
    how = "START" if found is None else found[1].decode().upper()
    return None if how == "START" else how


def savepoint_set(sql: str) -> str | None:
    """The name that ``SAVEPOINT name`` sets, in lower case; None for any other statement."""
    found = _SAVEPOINT.match(sql)
    return None if found is None else _unquoted(found["name"])


def savepoint_released(sql: str) -> str | None:
    """The name that ``RELEASE SAVEPOINT name`` releases, in lower case; None for any other."""
    found = _RELEASE.match(sql)
    return None if found is None else _unquoted(found["name"])


def savepoint_of_rollback(sql: str) -> str | None:
    """The savepoint that ``ROLLBACK TO name`` rolls back to; None for any other statement.

    A name that is not understood is given as it stands: no savepoint has it.
    """
    found = _ROLLBACK.match(sql)
    if found is None or found["to"] is None:
        return None
    return sql[found.end() :] if found["name"] is None else _unquoted(found["name"])


def _unquoted(name: str) -> str:
    """A savepoint's name as it is compared."""
    quote = name[0]
    return (name[1:-1].replace(quote * 2, quote) if quote in '`"' else name).lower()


def xa_statement(sql: str) -> tuple[str, XaName] | None:
    """What an XA statement does (START, COMMIT or ROLLBACK), and its XA name.

    Raises BoundaryError if the name is not in the form that servers log: rows would be taken for
    committed that are not.
    """
    found = _XA.match(sql)
    if found is None:
        return None
    name = _XA_NAME.match(sql, found.end())
    if name is None:
        raise BoundaryError(
            f"the name of this XA transaction is not understood: {sql[:_SHOWN]}; servers log it as"
            " X'…',X'…',1"
        )
    return found[1].upper(), XaName(int(name[3]), bytes.fromhex(name[1]), bytes.fromhex(name[2]))


def xa_name(event: Event) -> tuple[str, XaName] | None:
    """What an event does to an XA transaction (``START``, ``PREPARE``, ``COMMIT``, ``ROLLBACK``),
    and the transaction's name. None for other events, and for a commit in one phase.

    Raises BoundaryError as `xa_statement`.
    """
    if isinstance(event, XaPrepareEvent):
        return None if event.one_phase else ("PREPARE", event.xid)
    if not isinstance(event, QueryEvent):
        return None
    try:
        return xa_statement(event.sql)
    except BoundaryError as error:
        raise error.at(event.file, event.offset, event.name) from None


def without_start_transaction(sql: bytes) -> bytes | None:
    """``CREATE TABLE … START TRANSACTION`` without these two words; None for any other statement.

    A server adds these words itself, after the columns in the logged form of ``CREATE TABLE …
    SELECT``: at the end, or before the options of the table.
    """
    if _WORDS in sql and (middle := _IN_THE_MIDDLE.match(sql)) is not None:
        return sql[: middle.end(1)] + sql[middle.end() :]
    sql = sql.rstrip()
    start = max(0, len(sql) - _LONGEST_END)
    found = _START_TRANSACTION.search(sql, start)
    return None if found is None else sql[: found.start()].rstrip()
