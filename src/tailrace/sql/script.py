"""Statements as a text for the servers' own clients, or as single commands."""

from __future__ import annotations

import re
from itertools import chain, count
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.sql.settings import SessionState
from tailrace.sql.statement import RowStatements, Statement
from tailrace.sql.text import comment, encoded
from tailrace.times import time_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.log.reader import TransactionHead
    from tailrace.sql.text import Sql

_MARKS: Final = (";;", "//", "$$", "|;|", "/*!*/;")
_CLIENT: Final = "/*!\\C {} */"
"""Tells the servers' clients the character set in which they find a statement's end."""
_NUMBERED: Final = re.compile(r";(?=([0-9]{1,12});)")


class Line(NamedTuple):
    """A command, or, with ``is_comment``, a comment of a script; ``is_client``: a command of the
    client's. ``logged`` is a statement of the log, and ``rows`` are many statements in one text.
    """

    sql: Sql
    is_comment: bool = False
    is_client: bool = False
    logged: Statement | None = None
    rows: RowStatements | None = None


def commands(statements: Iterable[Statement]) -> Iterator[bytes]:
    """Commands to execute one by one through any driver: no comments, no terminators.

    Transactions begin and commit as they did. Session variables are set before the statements that
    need them, and restored at the end. The commands are bytes, as a statement of the log may be in
    any character set; the session is set to that one before it, and to utf8mb4 after it. All others
    are UTF-8. Drivers send bytes unchanged.
    """
    return (
        encoded(line.sql) for line in _lines(statements) if not (line.is_comment or line.is_client)
    )


def script(statements: Iterable[Statement], heading: Iterable[str] = ()) -> Iterator[str]:
    """The lines of a file for ``mysql --binary-mode`` or ``mariadb --binary-mode``.

    Written in UTF-8 with ``surrogateescape``. ``heading`` is written first, as comments; it is
    requested once the first statement is available.
    """
    for line in script_lines(statements, heading):
        if not isinstance(line, memoryview):
            yield line if isinstance(line, str) else "".join(line)


def script_lines(
    statements: Iterable[Statement | RowStatements], heading: Iterable[str] = ()
) -> Iterator[str | Iterator[str] | memoryview]:
    """The same, with large statements in pieces, which must be consumed before the next line, and
    texts of many lines with their line ends as bytes.
    """
    lines = _lines(statements)
    first = next(lines, None)  # an early error is raised before anything is written
    yield from map(comment, heading)
    yield ""
    if first is not None:
        yield f"{_CLIENT.format('utf8mb4')};"
    for line in lines if first is None else chain((first,), lines):
        sql = line.sql
        if line.rows is not None:
            for piece in line.rows.data:
                yield memoryview(piece)
            del line  # before the next is made
        elif not isinstance(sql, str):
            yield (sql + ";").pieces()
            del sql, line  # before the next is made
        elif line.is_comment:
            yield sql
        elif line.logged is None:
            yield f"{sql};"
        else:
            yield from _logged(sql)


def _logged(text: str) -> Iterator[str]:
    """A statement of the log: it may contain the terminator, or end in a comment."""
    if ";" in text:
        mark = delimiter(text)
        yield f"DELIMITER {mark}"
        yield f"{text}\n{mark}"
        yield "DELIMITER ;"
    else:
        last = text[text.rfind("\n") + 1 :]
        yield f"{text}\n;" if "--" in last or "#" in last else f"{text};"


def delimiter(text: str) -> str:
    """A delimiter that does not occur in a text; clients accept at most 15 characters."""
    for mark in _MARKS:
        if mark not in text:
            return mark
    taken = {int(number) for number in _NUMBERED.findall(text)}
    return f";{next(number for number in count(1) if number not in taken)};"


def _lines(statements: Iterable[Statement | RowStatements]) -> Iterator[Line]:
    session = SessionState()
    group: TransactionHead | None = None
    is_open = False
    for statement in statements:
        follows = _is_same(statement.group, group)
        if is_open and (not follows or (isinstance(statement, Statement) and statement.alone)):
            is_open = False
            yield Line("COMMIT")
        if isinstance(statement, RowStatements):
            for text in session.change(statement.settings, None):
                yield Line(text)
            if not follows:
                yield Line(_place(statement.group), is_comment=True)
            if not is_open:
                is_open = True
                yield Line("START TRANSACTION")
            yield Line("", rows=statement)
            session.was_changed(statement.left)
            group = statement.last
            del statement  # before the next is made: it may be large
            continue
        if statement.sql:
            logged = statement.logged
            for text in session.change(statement.settings, statement.database, logged=logged):
                yield Line(text)
        if statement.group is not None and not follows:
            group = statement.group
            yield Line(_place(group), is_comment=True)
        if statement.note is not None:
            yield Line(comment(statement.note), is_comment=True)
        if not statement.sql:
            continue
        if not statement.alone and not is_open:
            is_open = True
            yield Line("START TRANSACTION")
        for text in statement.before:
            yield Line(text)
        if statement.logged:
            yield from _in_its_charset(statement, session)
        else:
            yield Line(statement.sql)
        if statement.alone:
            session.forget_database()
        del statement  # before the next is made: it may be large
    if is_open:
        yield Line("COMMIT")
    for text in session.restore():
        yield Line(text)


def _in_its_charset(statement: Statement, session: SessionState) -> Iterator[Line]:
    """A logged statement in its own character set, of which the client is told where it has to
    know it; that resets the session's.
    """
    if statement.charset is not None:
        yield Line(_CLIENT.format(statement.charset), is_client=True)
    for text in session.enter_text(statement.settings):
        yield Line(text)
    yield Line(statement.sql, logged=statement)
    if statement.charset is not None:
        yield Line(_CLIENT.format("utf8mb4"), is_client=True)
    for text in session.leave_text():
        yield Line(text)


def _is_same(group: TransactionHead | None, other: TransactionHead | None) -> bool:
    if group is None or other is None:
        return group is other
    return group.start == other.start


def _place(group: TransactionHead) -> str:
    time = group.began * 1_000_000 if group.time is None else group.time
    return comment(f"{group.start}  {group.gtid or 'no GTID'}  {time_text(time)}")
