"""A source's file that ends inside an event: what lies there, and which file follows.

MariaDB keeps such an end after a crash and begins a new file; MySQL cuts its file back. The source
sends what is whole and then an error, at every attempt: the torn event never comes.
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
    """The end of a source's file, from ``offset`` on, which is no whole event and is left out.

    ``size`` is its bytes, None where the source does not say how long the file is. Reading goes on
    in the file ``next``.
    """

    file: str
    offset: int
    size: int | None
    next: LogName

    def __str__(self) -> str:
        size = "what follows it" if self.size is None else f"{self.size} bytes"
        return (
            f"{self.file} ends inside an event at {self.offset}: {size} left out, with the"
            f" transaction that they were to be part of; going on in {self.next}"
        )


def torn_tail(request: Request, host: Host, place: Position) -> TornTail | None:
    """What is torn in the file of a place, where its last whole event ends, by a host's own list of
    its logs; None where that has no file after it.

    Without the privilege for the list the next number is taken. Raises what `Session.open` raises.
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
