"""Where a new copy begins: always with a whole file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tailrace.constants import MAGIC
from tailrace.errors import UsageError
from tailrace.gtid import GtidList, GtidSet
from tailrace.live.session import Session
from tailrace.live.since import find_time
from tailrace.position import Position
from tailrace.selection import Time

if TYPE_CHECKING:
    import socket

    from tailrace.live.identity import Identity
    from tailrace.live.url import Source


def begin_of(
    source: Source, identity: Identity, *, wake: socket.socket | None = None
) -> Position | Literal["oldest"]:
    """Where the copy of a source begins, by what its URL says: the begin of a file.

    A description event that a server makes up for who enters a file in its midst is not that of
    the file: such a copy could never be what the source has. So a position means the begin of its
    file, a time the begin of the one that has the first transaction since, ``now`` that of the file
    that the source writes. Raises UsageError for GTIDs: files and
    not transactions are copied; what `Session.open` raises, ConnectionLost where it was woken.
    """
    start = source.start
    if isinstance(start, (GtidSet, GtidList)):
        raise UsageError(
            f"{source.name}: a byte copy begins with a file, not after GTIDs: say start=oldest,"
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
