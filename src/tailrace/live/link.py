"""One connection to a source with a dump on it, from the login to the first packet."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final

from tailrace.errors import LogPurged, LogReset, ServerError, TailraceError
from tailrace.live.arrivals import Arrivals
from tailrace.live.dump import Dump
from tailrace.live.net import NetService
from tailrace.live.place import Place
from tailrace.live.session import Session
from tailrace.position import Position, file_number

if TYPE_CHECKING:
    import socket

    from tailrace.gtid import GtidState
    from tailrace.live.by_gtid import FeedByGtid
    from tailrace.live.by_position import FeedByPosition
    from tailrace.live.dump import Unframe
    from tailrace.live.identity import Identity
    from tailrace.live.url import Host, Source
    from tailrace.observers import RelayIo, RelayIoDelegate

    Asked = Position | GtidState


SILENT_PERIODS: Final = 2
"""Heartbeat periods without a byte after which a connection is given up."""
_NO_SUCH_LOG: Final = "Could not find first log file name"


@dataclass(frozen=True, slots=True)
class Request:
    """How dumps are requested, the same for each connection.

    ``mode`` gives the start once there is a session; ``wake`` becomes readable when waits have to
    end.
    """

    source: Source
    identity: Identity
    follow: bool
    unframe: Unframe
    delegate: RelayIoDelegate | None
    io: RelayIo
    wake: socket.socket
    mode: FeedByPosition | FeedByGtid


@dataclass(slots=True)
class OpenDump:
    """A session and the dump on it.

    ``goal`` is what a dump that does not wait has to reach: a server that shuts down ends it early,
    with the same packet as at the log's end. None if the goal is unknown, or the dump waits.
    """

    session: Session
    arrivals: Arrivals
    dump: Dump
    goal: Asked | None
    since: float
    given: bool = False
    """Whether the dump has given a chunk."""

    @property
    def proved(self) -> bool:
        """Whether the connection was of use: then a break of it starts a new round of attempts."""
        lived = monotonic() - self.since
        return self.given or (self.dump.place.reading and lived > self.arrivals.silence)

    def close(self) -> None:
        """Close the connection."""
        self.arrivals.close()
        self.session.close()


def open_link(request: Request, host: Host) -> OpenDump:
    """Connect to a host and ask for the dump. Raises what `Session` and observers raise."""
    session = Session.open(request.source, host, request.identity, wake=request.wake)
    try:
        wanted = request.mode.begin(session)
        behind, asked = 0, wanted
        if isinstance(wanted, Position):
            behind, asked = wanted.offset, request.mode.asked(wanted)
        session.prepare(asked)
        flags = _tell(request, session, host, wanted)
        goal = None if request.follow else request.mode.goal(session)
        stream = session.request(asked, block=request.follow, flags=flags)
        name = request.source.name_at(host)
        arrivals = Arrivals(
            stream.detach(),
            name=name,
            silence=SILENT_PERIODS * request.source.heartbeat,
            wake=request.wake,
        )
        dump = Dump(
            arrivals,
            Place(
                asked if isinstance(asked, Position) else None,
                source=name,
                proved=request.mode.proved,
                ends=request.mode.ends,
                skips_torn=request.source.skip_torn_tail,
            ),
            source=name,
            endless=request.follow,
            unframe=request.unframe,
            delegate=request.delegate,
            io=request.io,
            behind=behind,
        )
    except BaseException:
        session.close()
        raise
    return OpenDump(session, arrivals, dump, goal, monotonic())


def _tell(request: Request, session: Session, host: Host, wanted: Asked) -> int:
    """Show observers the connection before the dump is requested; the flags that they want."""
    io, delegate = request.io, request.delegate
    io.server_id, io.user = request.identity.server_id or 0, request.source.user
    io.host, io.port = (host.name, host.port) if host.socket is None else (host.socket, 0)
    place = wanted if isinstance(wanted, Position) else request.mode.position
    io.log_name, io.log_pos = place.file, place.offset
    if delegate is None or delegate.is_empty:
        return io.flags
    io.connection = NetService(session.connection, request.source.name_at(host))
    io.flags = delegate.before_request_transmit(io, 0)
    return io.flags


def explained(request: Request, host: Host, error: ServerError) -> ServerError:
    """A server's error with the position that was requested, and with its exact cause.

    Servers give the same error for a log that was purged and for one that never existed. So this
    asks the server for its oldest log, on a separate connection.
    """
    asked = request.mode.position
    if not isinstance(error, LogReset) or not asked.file:
        return error
    error = LogReset(
        f"{asked} was requested. {error.message}", code=error.code, sqlstate=error.sqlstate
    )
    if _NO_SUCH_LOG not in error.message or asked.number is None:
        return error
    try:
        with Session.open(request.source, host, request.identity, wake=request.wake) as session:
            oldest = session.oldest_log()
    except TailraceError:
        return error
    if (file_number(oldest) or 0) <= asked.number:
        return error
    return LogPurged(
        f"{request.source.name_at(host)}: {asked.file}, to be read from {asked.offset} on, no"
        f" longer exists: the oldest log is {oldest}. Copy the data again and begin after the copy",
        code=error.code,
        sqlstate=error.sqlstate,
    )
