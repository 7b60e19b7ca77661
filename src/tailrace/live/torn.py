"""A source's file that ends inside an event: the torn part, and the next file.

After a crash, MariaDB keeps such an end and starts a new file; MySQL truncates its file. At every
attempt the source sends the whole events and then an error: the torn event never comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tailrace.errors import AccessDenied
from tailrace.live.session import Session
from tailrace.log_name import LogName

if TYPE_CHECKING:
    from tailrace.live.link import Request
    from tailrace.live.url import Host
    from tailrace.position import Position


@dataclass(frozen=True, slots=True)
class TornTail:
    """The end of a source's file, from ``offset`` on: an incomplete event, which is left out.

    ``size`` is its bytes, None if the source does not give the file's size. Reading continues in
    the file ``next``.
    """

    file: str
    offset: int
    size: int | None
    next: LogName

    def __str__(self) -> str:
        size = "what follows it" if self.size is None else f"{self.size} bytes"
        return (
            f"{self.file} ends inside an event at {self.offset}: {size} left out, with the"
            f" transaction that they belong to; continuing in {self.next}"
        )


def torn_tail(request: Request, host: Host, place: Position) -> TornTail | None:
    """The torn end of a file whose last whole event ends at ``place``, by the host's list of its
    logs; None if the list has no file after it.

    Without the privilege for the list, the next file is the one with the next number. Raises what
    `Session.open` raises.
    """
    with Session.open(request.source, host, request.identity, wake=request.wake) as session:
        try:
            logs = session.logs()
        except AccessDenied:
            return TornTail(place.file, place.offset, None, LogName(place.file).next)
    for (name, size), (following, _) in pairwise(logs):
        if name == place.file:
            return TornTail(name, place.offset, max(size - place.offset, 0), following)
    return None
