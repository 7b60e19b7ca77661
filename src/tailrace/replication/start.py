"""Where a new copy begins: always with a whole file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tailrace.constants import MAGIC
from tailrace.errors import UsageError
from tailrace.gtid import GtidState
from tailrace.live.feed import find_time
from tailrace.live.session import Session
from tailrace.position import Position
from tailrace.selection import Time

if TYPE_CHECKING:
    import socket

    from tailrace.live.session import Identity
    from tailrace.live.url import Source


def begin_of(
    source: Source, identity: Identity, *, wake: socket.socket | None = None
) -> Position | Literal["oldest"]:
    """Where the copy of a source begins, by the start in its URL: the beginning of a file.

    For a dump from inside a file, the server creates a description event that differs from the
    file's own: such a copy could never equal the source's log. So a position means the beginning of
    its file, a time the beginning of the file with the first transaction since then, ``now`` the
    beginning of the file that the source is writing. Raises UsageError for GTIDs, since files and
    not transactions are copied; what `Session.open` raises; ConnectionLost if it was woken.
    """
    start = source.start
    if isinstance(start, GtidState):
        raise UsageError(
            f"{source.name}: a byte copy begins with a file, not after GTIDs: use start=oldest,"
            " start=now or position=FILE:4"
        )
    if start is None or start == "oldest":
        return "oldest"
    if isinstance(start, Position):
        return Position(start.file, len(MAGIC))
    session = Session.open(source, source.hosts[0], identity, wake=wake)
    try:
        at = find_time(session, start.microseconds) if isinstance(start, Time) else session.end()
        return Position(at.file, len(MAGIC))
    finally:
        session.close()
