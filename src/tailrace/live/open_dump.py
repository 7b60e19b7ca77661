"""One connection to a source with a dump on it, and queries on a second, separate connection."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeAlias

from tailrace.errors import AccessDenied, LogPurged, LogReset, ServerError, TailraceError
from tailrace.live.by_gtid import DumpByGtid
from tailrace.live.by_position import DumpByPosition
from tailrace.live.dump import Arrivals, Dump
from tailrace.live.net import NetService
from tailrace.live.place import Place
from tailrace.live.server_errors import is_of_start
from tailrace.live.session import Session
from tailrace.log_name import LogName
from tailrace.position import Position
from tailrace.storage.identity import was_purged

if TYPE_CHECKING:
    import socket

    from tailrace.gtid import GtidState
    from tailrace.live.dump import Unframe
    from tailrace.live.session import Identity
    from tailrace.live.url import Host, Source
    from tailrace.observers import RelayIo, RelayIoDelegate

Mode: TypeAlias = DumpByPosition | DumpByGtid

SILENT_PERIODS: Final = 2
"""Heartbeat periods without a byte after which a connection is given up."""
_NO_SUCH_LOG: Final = "Could not find first log file name"


@dataclass(slots=True)
class OpenDump:
    """A session and the dump on it.

    ``goal`` is what a dump that does not wait has to reach: a server that shuts down ends it early,
    with the same packet as at the log's end. None if the goal is unknown, or the dump waits.
    """

    session: Session
    arrivals: Arrivals
    dump: Dump
    goal: Position | GtidState | None
    since: float
    given: bool = False
    """Whether the dump has given a chunk."""

    @property
    def proved(self) -> bool:
        """Whether the connection was of use: then a break of it starts a new round of attempts."""
        lived = self.arrivals.heard_at - self.since
        return self.given or (self.dump.place.reading and lived > self.arrivals.silence)

    def close(self) -> None:
        """Close the connection."""
        self.arrivals.close()
        self.session.close()


@dataclass(frozen=True, slots=True)
class TornTail:
    """The end of a source's file, from ``offset`` on: an incomplete event, which is left out.

    After a crash, MariaDB keeps such an end and starts a new file; MySQL truncates its file. At
    every attempt the source sends the whole events and then an error: the torn event never comes.
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


@dataclass(frozen=True, slots=True)
class DumpRequest:
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
    mode: Mode

    def connect(self, host: Host) -> Session:
        """A session on a new connection to a host. Raises what `Session.open` raises."""
        return Session.open(self.source, host, self.identity, wake=self.wake)

    def open(self, host: Host) -> OpenDump:
        """Connect to a host and ask for the dump. Raises what `Session` and observers raise."""
        session = self.connect(host)
        try:
            asked, behind = self.mode.begin(session)
            session.prepare(asked)
            flags = self._tell(session, host)
            goal = None if self.follow else self.mode.goal(session)
            stream = session.request(asked, block=self.follow, flags=flags)
            arrivals = Arrivals(
                stream.detach(),
                name=session.name,
                silence=SILENT_PERIODS * self.source.heartbeat,
                wake=self.wake,
            )
            dump = Dump(
                arrivals,
                Place(
                    asked if isinstance(asked, Position) else None,
                    source=session.name,
                    proved=self.mode.proved,
                    resumed=self.mode.resumed,
                    ends=self.mode.ends,
                    skips_torn=self.source.skip_torn_tail,
                ),
                source=session.name,
                endless=self.follow,
                unframe=self.unframe,
                delegate=self.delegate,
                io=self.io,
                behind=behind,
            )
        except BaseException:
            session.close()
            raise
        return OpenDump(session, arrivals, dump, goal, monotonic())

    def _tell(self, session: Session, host: Host) -> int:
        """Show observers the connection before the dump is requested; the flags that they want."""
        io, place = self.io, self.mode.position
        io.server_id, io.user = self.identity.server_id or 0, self.source.user
        io.host, io.port = (host.name, host.port) if host.socket is None else (host.socket, 0)
        io.log_name, io.log_pos = place.file, place.offset
        if self.delegate is not None and not self.delegate.is_empty:
            io.connection = NetService(session.connection, session.name)
            io.flags = self.delegate.before_request_transmit(io, 0)
        return io.flags

    # --- on a connection separate from the dump's ------------------------------------------------

    def log_end(self, host: Host) -> Position:
        """Where the host's log ends now. Raises what `Session` raises."""
        with self.connect(host) as session:
            return session.end()

    def torn_tail(self, host: Host, place: Position) -> TornTail | None:
        """The torn end of a file whose last whole event ends at ``place``, by the host's list of
        its logs; None if the list has no file after it.

        Without the privilege for the list, the next file is the one with the next number. Raises
        what `Session.open` raises.
        """
        with self.connect(host) as session:
            try:
                logs = session.logs()
            except AccessDenied:
                return TornTail(place.file, place.offset, None, LogName(place.file).next)
        for (name, size), (following, _) in pairwise(logs):
            if name == place.file:
                return TornTail(name, place.offset, max(size - place.offset, 0), following)
        return None

    def explained(self, host: Host, error: ServerError) -> ServerError:
        """A server's error with the position that was requested, and with its exact cause.

        Servers give the same error for a log that was purged and for one that never existed: the
        host's oldest log shows which.
        """
        asked = self.mode.position
        if not asked.file or not (isinstance(error, LogReset) or is_of_start(error)):
            return error
        error = error.reworded(f"{asked} was requested. {error.message}")
        if _NO_SUCH_LOG not in (error.text or ""):
            return error
        try:
            with self.connect(host) as session:
                oldest = session.oldest_log()
        except TailraceError:
            return error
        if not was_purged(asked.file, oldest):
            return error
        return error.reworded(
            f"{self.source.name_at(host)}: {asked.file}, to be read from {asked.offset} on, no"
            f" longer exists: the oldest log is {oldest}. Copy the data again and begin after the"
            " copy",
            LogPurged,
        )
