"""The log of a running server as it comes, across breaks of the connection: `Feed`."""

from __future__ import annotations

import logging
import selectors
import socket
from bisect import bisect_left
from contextlib import suppress
from dataclasses import replace
from enum import Enum, auto
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tailrace.closing import Closing
from tailrace.constants import MAGIC
from tailrace.errors import (
    AccessDenied,
    ConnectionLost,
    LocalProtocolError,
    MalformedPacket,
    ProtocolError,
    ServerError,
    TailraceError,
    UsageError,
)
from tailrace.gtid import GtidState
from tailrace.live.by_gtid import DumpByGtid
from tailrace.live.by_position import DumpByPosition
from tailrace.live.chunks import END, Chunk, Expected, FileBegin
from tailrace.live.dump import QUIET
from tailrace.live.open_dump import DumpRequest, Mode, OpenDump, TornTail
from tailrace.live.place import LeftOff, Unproved
from tailrace.live.retry import Attempts
from tailrace.live.server_errors import is_torn, is_vanished
from tailrace.live.session import Identity, Session
from tailrace.observers import RelayIo
from tailrace.position import Position
from tailrace.selection import start_of
from tailrace.storage.search import Beginnings
from tailrace.times import Time
from tailrace.wire.packets import LARGEST
from tailrace.wire.unframe import unframe as in_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tailrace.live.chunks import Item
    from tailrace.live.dump import Unframe
    from tailrace.live.url import Source
    from tailrace.observers import RelayIoDelegate
    from tailrace.selection import Start

_log: Final = logging.getLogger("tailrace.live")
_LOOK_SECONDS: Final = 2.0
"""The least seconds between two queries for the end of a quiet source's log."""
_STALLS: Final = 3
"""Connections in a row that may break in the same large event before anything of it has come."""
_LITTLE: Final = 64 << 10
"""Bytes of an event that are not more than its header and what a network sends with it."""
_SECOND: Final = 1_000_000


class _State(Enum):
    """The state of a feed.

    =======  ===============================================================  ======
    state    take                                                             close
    =======  ===============================================================  ======
    NEW      tells observers that reading starts, then as OPEN                CLOSED
    OPEN     an item or None: OPEN; the end: ENDED; an error: FAILED          CLOSED
    ENDED    END                                                              CLOSED
    FAILED   the same error again                                             FAILED
    CLOSED   END                                                              CLOSED
    =======  ===============================================================  ======

    An open feed has a connection (`connected`), or makes one in the next `take`. The first `close`
    tells observers that reading ended, unless it never started.
    """

    NEW = auto()
    OPEN = auto()
    ENDED = auto()
    FAILED = auto()
    CLOSED = auto()


class _Came(Enum):
    """What a take from the dump resulted in; `Feed` has what it does about each."""

    ITEM = "a file's beginning or a chunk"
    NOTHING = "nothing in the given time"
    QUIET = "heartbeats alone"
    END = "the end of a dump that does not wait, at its goal"
    LOST = "a lost connection, or an end before the goal"
    LEFT_OFF = "a file's end without ROTATE or STOP"
    UNPROVED = "an event that does not show whether the start was one"
    TORN = "the server's error that its file ends inside an event"
    REJECTED = "another error of the server, inside a file"
    NOT_GIVEN = "an error of the server before a file's first event"


class Feed(Closing):
    """A server's log, past and new events, as `FileBegin` and `Chunk`; it reconnects after breaks.

    ``start`` (None: the source's start, ``oldest`` by default) chooses between two modes.

    By position (``oldest``, ``now``, a Position, a Time): the feed gives all bytes of the files,
    each once. After a break it resumes on the same server, with the very next event, also inside a
    transaction. It takes a server and a file for the same if the server's UUID (MySQL has one) and
    the file's format description, which has the server id and the second of its creation, are the
    same as before. ``expected`` says what these were when ``start`` was reached, so that the first
    connection is checked, too. A position that the source does not have is a LogReset only if it
    was reached before, in this feed or by ``expected``; else it is a ServerError.

    By GTID (a GtidSet or GtidList; several hosts in the source): the feed gives whole transactions.
    After a break it resumes on any of the hosts, with all transactions that are not in ``gtids``.
    An unfinished transaction is held up to 16 MiB; a larger one is given as it comes. If the
    connection breaks inside a larger one and another server continues, the part is void: a
    `FileBegin` comes before its end, and then the whole transaction comes again
    (`tailrace.live.by_gtid`). Files and offsets are those of the host that is read; the
    files lack the transactions that it leaves out because we have them.

    The first connection's failure is raised at once, unless ``source.retry_first``. Later, a lost
    connection is tried again with growing pauses for ``source.retry`` seconds, and then
    ConnectionLost is raised. If the source no longer finds its own file, or its log ends before the
    position that is read, the feed reconnects, which shows whether the log was reset. Every other
    error is raised at once (by GTID, only if every host of a round gave such an error and none was
    merely lost): LogPurged, LogReset, GtidsAhead, DuplicateServerId, AccessDenied, ProtocolError,
    errors of observers. Each further `take` raises the same error again. After an error and at the
    end the connection is closed. With observers it stays open until `close`: events that they queue
    after the end may still be acknowledged.

    If a file of the source ends inside an event, the source says so, and that is an error. With
    ``source.skip_torn_tail`` reading continues in its next file, if it has one. A warning names
    what was left out, and ``torn`` lists it.

    With ``follow`` false the feed ends at the log's end. ``delegate`` calls the observers with
    ``io``. ``unframe`` is `tailrace.wire.unframe.unframe` or an equivalent. ``identity`` is our
    server id and UUID for the source. Only one thread may call `take`; any may call `close`.
    """

    def __init__(
        self,
        source: Source,
        *,
        start: Start | None = None,
        follow: bool = True,
        delegate: RelayIoDelegate | None = None,
        unframe: Unframe = in_python,
        expected: Expected | None = None,
        identity: Identity | None = None,
    ) -> None:
        self.source = source
        wanted = start_of(start)
        self.start: Start = source.start or "oldest" if wanted is None else wanted
        self.identity = identity or Identity()
        self.io = RelayIo()
        self.reconnects = 0
        self.torn: list[TornTail] = []
        self._mode: Mode = self._mode_of(self.start, expected or Expected(reached=False))
        self._attempts = Attempts(source)
        self._link: OpenDump | None = None
        self._session: Session | None = None
        self._heard: tuple[Position | None, float] = (None, monotonic())
        self._out: Iterator[FileBegin | Chunk] = iter(())
        self._delegate = delegate
        self._woken, self._wake = socket.socketpair()
        self._request = DumpRequest(
            source=source,
            identity=self.identity,
            follow=follow,
            unframe=unframe,
            delegate=delegate,
            io=self.io,
            wake=self._woken,
            mode=self._mode,
        )
        self._said = ""
        self._vanished_at: Position | None = None
        self._stalled: tuple[Position | None, int] = (None, 0)
        """Where connections broke in a row in a large event that did not come, and how many."""
        self._may_ask = True
        self._next_look = monotonic() + _LOOK_SECONDS
        self._lock = RLock()
        self._closing = False  # `close` was called, maybe while a take waits
        self._state = _State.NEW
        self._failure: TailraceError | None = None

    def _mode_of(self, start: Start, expected: Expected) -> Mode:
        if isinstance(start, GtidState):
            return DumpByGtid(start)
        if len(self.source.hosts) == 1:
            return DumpByPosition(start, expected, find_time)
        if isinstance(start, Position | Time):
            what = "a position" if isinstance(start, Position) else "the position of a time"
            raise UsageError(
                f"{self.source.name}: {what} belongs to one server: with several hosts, begin"
                " after GTIDs, or with oldest or now"
            )
        return DumpByGtid(start)

    # --- where it stands -------------------------------------------------------------------------

    @property
    def position(self) -> Position:
        """The position after what was given; by GTID in the files of the host that gave it."""
        return self._mode.position

    @property
    def gtids(self) -> GtidState | None:
        """By GTID, the start and what was given; None by position, and as long as it is unknown."""
        return self._mode.gtids

    @property
    def _from(self) -> str:
        """Where reading resumes, in words."""
        if self.position.file:
            return f"after {self.position}"
        gtids = self.gtids
        if not gtids:
            return "from the start of the oldest log"
        return f"after {gtids.text()}"[:200]

    @property
    def session(self) -> Session | None:
        """The session of the current or last connection; None before the first."""
        return self._session

    @property
    def expected(self) -> Expected:
        """The identity of the source and the current file, for a feed that resumes from here."""
        return self._mode.known

    @property
    def heard(self) -> Position | None:
        """The source's own position, from the last heartbeat or event that came."""
        link = self._link
        return self._heard[0] if link is None else link.dump.place.heard or self._heard[0]

    @property
    def heard_at(self) -> float:
        """When the last bytes came, by `time.monotonic`."""
        link = self._link
        return self._heard[1] if link is None else link.arrivals.heard_at

    @property
    def connected(self) -> bool:
        """Whether there is a connection with a dump on it."""
        return self._link is not None

    def pending(self) -> bool:
        """Whether bytes have come that the next take would process.

        They may be a heartbeat or a part of an event: give `take` a timeout if it must not wait.
        """
        return self._link is not None and self._link.dump.pending()

    # --- taking ----------------------------------------------------------------------------------

    def take(self, timeout: float | None = None) -> Item | None:
        """The next item; None if nothing came in ``timeout`` seconds; END at the end.

        Connects, and reconnects after breaks. An attempt to connect may outlast the timeout by the
        source's ``connect_timeout`` and the time of its queries; `close` ends it. The item of the
        previous call becomes invalid.
        """
        deadline = None if timeout is None else monotonic() + timeout
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if self._closing or self._state is _State.ENDED:
                return END
            try:
                item = self._take(deadline)
            except TailraceError as error:
                self._fail(error)
                raise
            except BaseException:  # an interrupt: the item that was about to be given is lost
                self._fail(
                    LocalProtocolError(
                        f"{self.source.name}: the feed was interrupted inside take: make another"
                        " feed that starts after what was taken"
                    )
                )
                raise
            if item is not END and not self._closing:
                return item
            self._state = _State.ENDED
            if self._closing or self._delegate is None or self._delegate.is_empty:
                self._drop()
            return END

    def records(self) -> Iterator[tuple[str, int, bytes]]:
        """The events with their files and offsets, to the end; a file begins with its description,
        also where it is entered later.
        """
        while (item := self.take()) is not END:
            if isinstance(item, Chunk):
                yield from item.records()
            elif isinstance(item, FileBegin):
                yield item.file, len(MAGIC), item.description

    def _fail(self, error: TailraceError) -> None:
        self._state, self._failure = _State.FAILED, error
        self._drop()

    def _take(self, deadline: float | None) -> Item | None:
        if self._state is _State.NEW:
            self._state = _State.OPEN
            if self._delegate is not None:
                self._delegate.thread_start(self.io)
        while not self._closing:
            given = next(self._out, None)
            if given is not None:
                if self._link is not None and isinstance(given, Chunk):
                    self._link.given = True
                return given
            link = self._link or self._connect(deadline)
            if link is None:
                return None
            came, what = self._next(link, deadline)
            if came is _Came.END:
                return END
            if came is _Came.NOTHING:
                return None
            self._STEPS[came](self, link, what)
        return END

    def _next(self, link: OpenDump, deadline: float | None) -> tuple[_Came, Any]:
        """What comes of the dump next: an item, or an error that may be no end."""
        try:
            item = link.dump.take(deadline)
        except ConnectionLost as error:
            return _Came.LOST, error
        except LeftOff as sign:
            return _Came.LEFT_OFF, sign
        except Unproved as sign:
            return _Came.UNPROVED, sign
        except ServerError as error:
            if not link.dump.place.reading:
                return _Came.NOT_GIVEN, error
            return _Came.TORN if is_torn(error.message) else _Came.REJECTED, error
        if item is None:
            return _Came.QUIET if link.dump.place.quiet >= QUIET else _Came.NOTHING, None
        if item is not END:
            return _Came.ITEM, item
        if self._mode.reached(link.goal):
            link.dump.check_end()
            return _Came.END, None
        return _Came.LOST, ConnectionLost(f"{link.session.name} ended the dump early")

    def _accept(self, link: OpenDump, item: FileBegin | Chunk) -> None:
        self._out = self._mode.accept(item, link.dump.place)

    def _lost(self, link: OpenDump, error: ConnectionLost) -> None:
        place = self._from
        self._check_stalled(link, error)
        self._drop()
        self._attempts.lost(error, monotonic(), proved=link.proved)
        _log.warning("%s; resuming %s", error, place)

    def _check_stalled(self, link: OpenDump, error: ConnectionLost) -> None:
        """Raise MalformedPacket if the source begins a large event again and again, and does not
        send it.
        """
        size, came = link.dump.awaited
        if size < LARGEST or came > _LITTLE:
            self._stalled = (None, 0)
            return
        before, number = self._stalled
        where = link.dump.place.position
        self._stalled = where, number + 1 if before == where else 1
        if self._stalled[1] == _STALLS:
            raise MalformedPacket(
                f"{link.session.name}: the event at {where} has more than {size:,} bytes, but each"
                f" of {_STALLS} connections sent {came:,} of them at most ({error}): check the"
                " source and any proxy"
            ) from error

    def _left_off(self, _: OpenDump, sign: LeftOff) -> None:
        """Reconnect: a source that was reset continues as if its new files followed this one."""
        del sign
        _log.info("%s: the file ends without ROTATE or STOP; reconnecting", self.position)
        self._drop()
        self._mode.ends = self.position

    def _unproved(self, _: OpenDump, sign: Unproved) -> None:
        del sign
        _log.info("%s: reading the file from its beginning to verify it", self.position)
        self._drop()
        self._mode.read_from_begin()

    def _not_given(self, link: OpenDump, error: ServerError) -> None:
        self._drop()
        self._attempts.failed(self._request.explained(link.session.host, error), monotonic())
        _log.warning("%s", error)

    def _look_again(self, _: OpenDump, error: ServerError) -> None:
        """Reconnect if the source no longer has the file that is read: the new dump's error shows
        why. Raises ``error`` if it has another cause, or comes at the same position again.
        """
        if not is_vanished(error) or self._vanished_at == self.position:
            raise error
        self._vanished_at = self.position
        _log.info("%s; reconnecting", error)
        self._drop()

    def _skip_torn_tail(self, link: OpenDump, error: ServerError) -> None:
        """Continue after a file that ends inside an event. Raises the error if that is not wanted,
        or if the source has no file after it.
        """
        if not self.source.skip_torn_tail:
            raise error
        tail = self._request.torn_tail(link.session.host, link.dump.place.position)
        if tail is None or not self._mode.skip_torn_tail(Position(tail.next, len(MAGIC))):
            raise error.reworded(
                f"{error.message}; it has no next file in which reading could resume"
            )
        self._drop()
        if tail not in self.torn:
            self.torn.append(tail)
            _log.warning("%s: %s", link.session.name, tail)

    def _look_at_end(self, link: OpenDump, _: None) -> None:
        """Reconnect if the source's log ends before the position that is read: the log was reset,
        and the dump waits at the end of a file that no longer exists.
        """
        place = link.dump.place
        place.quiet = 0
        if not self._may_ask or monotonic() < self._next_look:
            return
        self._next_look = monotonic() + _LOOK_SECONDS
        try:
            end = self._request.log_end(link.session.host)
        except AccessDenied:
            self._may_ask = False
        except TailraceError as error:
            _log.info("the end of the source's log could not be determined: %s", error)
        else:
            if end < place.position:
                _log.info("%s: its log ends at %s; reconnecting", link.session.name, end)
                self._drop()

    _STEPS: ClassVar[dict[_Came, Callable[[Feed, OpenDump, Any], None]]] = {
        _Came.ITEM: _accept,
        _Came.QUIET: _look_at_end,
        _Came.LOST: _lost,
        _Came.LEFT_OFF: _left_off,
        _Came.UNPROVED: _unproved,
        _Came.TORN: _skip_torn_tail,
        _Came.REJECTED: _look_again,
        _Came.NOT_GIVEN: _not_given,
    }
    """What the feed does; after it, it reads on, on the same connection or on the next."""

    def _connect(self, deadline: float | None) -> OpenDump | None:
        """A connection with a dump on it; None if the time is up or the feed is being closed."""
        attempts = self._attempts
        while self._wait_until(attempts.due, deadline):
            host = attempts.host
            try:
                link = self._request.open(host)
            except TailraceError as error:
                if self._closing:
                    return None
                attempts.failed(error, monotonic())
                if str(error) != self._said:
                    _log.warning("%s; trying again", error)
                self._said = str(error)
                continue
            self._said = ""
            self.reconnects += self._session is not None
            self._link, self._session = link, link.session
            self._mode.linked(link.session)
            attempts.connected()
            _log.info("%s: reading %s", link.session.name, self._from)
            return link
        return None

    def _wait_until(self, due: float, deadline: float | None) -> bool:
        """Wait until ``due``; False if ``deadline`` comes first, or the feed is closed."""
        until = due if deadline is None else min(due, deadline)
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            selector.select(max(until - monotonic(), 0))
        return not self._closing and monotonic() >= due

    # --- the end ---------------------------------------------------------------------------------

    def _drop(self) -> None:
        """Close the connection, and drop bytes that were not given yet."""
        self._out = iter(())
        link, self._link = self._link, None
        if link is not None:
            self._heard = (link.dump.place.heard, link.arrivals.heard_at)
            link.close()

    def _tell_stop(self) -> None:
        """Tell observers that the reader ended, once."""
        delegate, self._delegate = self._delegate, None
        if self._state is _State.NEW or delegate is None:
            return
        try:
            delegate.thread_stop(self.io)
        except TailraceError as second:
            if self._failure is None:
                raise
            self._failure.add_note(f"and then: {second}")

    def close(self) -> None:
        """Close the connection. A `take` that waits returns END, and so does each later one.

        It may be called from any thread. An attempt to connect is abandoned. Observers are told
        here that the reader ended: events that were taken may have been queued until now.
        """
        self._closing = True
        with suppress(OSError):
            self._wake.send(b"\0")
        with self._lock:
            self._drop()
            self._wake.close()
            self._woken.close()
            self._tell_stop()
            if self._state is not _State.FAILED:
                self._state = _State.CLOSED


def find_time(session: Session, time: int) -> Position:
    """The start of the first transaction that was committed at ``time`` (microseconds UTC) or
    later.

    Unlike `tailrace.storage.search.find_time` it does not read all logs, which a server would have
    to send: the log is found by binary search, by the seconds in which the logs were created, and
    read by feeds of its own. The server's clock must not have been set back between logs. The
    session is asked for the names of the logs. Raises AccessDenied if that needs a privilege.
    """
    names = [name for name, _ in session.logs()]
    # a separate server id: the session's own dump has the given one
    source = replace(session.source, hosts=(session.host,), start=None, server_id=None)
    number = bisect_left(
        names[1:], True, key=lambda name: (_first_second(source, name) + 1) * _SECOND > time
    )
    begin = Position(names[number], len(MAGIC))
    with Feed(source, start=begin, follow=False) as feed:
        return Beginnings(feed.records(), begin).since(time)


def _first_second(source: Source, name: str) -> int:
    """The second of a log's first event."""
    with Feed(source, start=Position(name, len(MAGIC)), follow=False) as feed:
        item = feed.take()
        if not isinstance(item, FileBegin):
            raise ProtocolError(f"{source.name}: {name} does not begin with its description")
        return int.from_bytes(item.description[:4], "little")
