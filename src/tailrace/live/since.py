"""Finds a time in a running server's log: it reads the files' beginnings, and one file."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace.constants import MAGIC
from tailrace.errors import ProtocolError
from tailrace.live.chunks import FileBegin
from tailrace.live.feed import Feed
from tailrace.live.transport import ServerStream
from tailrace.position import Position
from tailrace.storage.search import Beginnings, file_of_time

if TYPE_CHECKING:
    from tailrace.live.session import Session
    from tailrace.live.url import Source


def find_time(session: Session, time: int) -> Position:
    """The start of the first transaction that was committed at ``time`` (microseconds UTC) or
    later.

    As `tailrace.storage.search.find_time`, on separate connections to the session's server. The
    session is asked for the names of the logs. Raises AccessDenied if that needs a privilege.
    """
    names = [name for name, _ in session.logs()]
    # a separate server id: the session's own dump has the given one
    source = replace(session.source, hosts=(session.host,), start=None, server_id=None)
    number = file_of_time(names, time, lambda name: _begun(source, name))
    begin = Position(names[number], len(MAGIC))
    with closing(iter(ServerStream(source, begin, follow=False))) as records:
        return Beginnings(records, begin).since(time)


def _begun(source: Source, name: str) -> int:
    """The second of a log's first event."""
    with Feed(source, start=Position(name, len(MAGIC)), follow=False) as feed:
        item = feed.take()
        if not isinstance(item, FileBegin):
            raise ProtocolError(f"{source.name}: {name} does not begin with its description")
        return int.from_bytes(item.description[:4], "little")
