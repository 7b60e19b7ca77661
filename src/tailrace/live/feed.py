"""The log of a running server as it comes, over breaks of the connection: `Feed`."""

from __future__ import annotations

import logging
import selectors
import socket
from contextlib import suppress
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Final

from tailrace.closing import Closing
from tailrace.constants import MAGIC
from tailrace.errors import (
    AccessDenied,
    ConnectionLost,
    LocalProtocolError,
    ServerError,
    TailraceError,
    UsageError,
)
from tailrace.gtid import GtidList, GtidSet
from tailrace.live.by_gtid import FeedByGtid
from tailrace.live.by_position import FeedByPosition
from tailrace.live.chunks import END, Chunk, EndOfDump, Expected, FileBegin
from tailrace.live.dump import QUIET
from tailrace.live.identity import Identity
from tailrace.live.link import OpenDump, Request, explained, open_link
from tailrace.live.place import LeftOff, Unproved
from tailrace.live.refusals import is_torn, is_vanished
from tailrace.live.retry import Attempts
from tailrace.live.session import Session
from tailrace.live.torn import TornTail, torn_tail
from tailrace.observers import RelayIo
from tailrace.position import Position
from tailrace.selection import Time, start_of
from tailrace.wire.unframe import unframe as in_python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.live.chunks import Item
    from tailrace.live.dump import Unframe
    from tailrace.live.url import Source
    from tailrace.observers import RelayIoDelegate
    from tailrace.selection import Start

_log: Final = logging.getLogger("tailrace.live")
_LOOK_SECONDS: Final = 2.0
"""A quiet source is asked where its log ends no more often than so, however fast its heartbeats."""


class Feed(Closing):
    """What a server's log holds and what comes, as `FileBegin` and `Chunk`; breaks are mended.

    ``start`` (None: the source's, and where that is not said ``oldest``) chooses between two modes.

    By position (``oldest``, ``now``, a Position, a Time): what is given are the files' bytes, each
    once. A break is mended on the same server, with the very next event, also inside a transaction.
    It is the same server and file where its UUID (MySQL has one) and the format description of the
    file, which tells the server id and the second of its begin, are those of before; ``expected``
    says what these were when ``start`` was reached, so that the first connection is checked, too.

    By GTID (a GtidSet or GtidList; several hosts in the source): whole transactions are given, and
    a break is mended on any of the hosts, with all that is not in ``gtids``. An unfinished
    transaction is held up to 16 MiB; a larger one is given as it comes. Where its connection breaks
    and another server continues, it is void: a `FileBegin` comes before its end, and then all of it
    again (`tailrace.live.whole_transactions`). Files and offsets are those of the
    host that is read; what it leaves out because we have it is left out of its files, too.

    The first connection's failure is raised at once, unless ``source.retry_first``. Later, a lost
    connection is tried again with growing pauses for ``source.retry`` seconds, and then
    ConnectionLost is raised. Where the source no longer finds its own file, or its log ends before
    the place that is read, it is connected to anew, which tells whether it was reset. Everything
    else is raised at once (by GTID, when no host of a round was but lost): LogPurged, LogReset,
    GtidsAhead, DuplicateServerId, AccessDenied, ProtocolError, what observers raise. An error is
    raised again by each further `take`; behind it and at the end the connection is closed. With
    observers it is open until `close`: what they queue after the end may still be acknowledged.

    Where a file of the source ends inside an event, the source says so, and that is an error; with
    ``source.skip_torn_tail`` reading goes on in its next file, if it has one. A warning names what
    was left out, and ``torn`` lists it.

    ``follow`` false ends at the log's end. ``delegate`` has the observers: told of ``io``.
    ``unframe`` is `tailrace.wire.unframe.unframe` or what does the same. ``identity`` is who we are
    to the source. One thread takes; `close` may be called from any.
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
        self._mode = self._mode_of(self.start, expected or Expected())
        self._attempts = Attempts(source)
        self._link: OpenDump | None = None
        self._session: Session | None = None
        self._heard: tuple[Position | None, float] = (None, monotonic())
        self._out: Iterator[FileBegin | Chunk] = iter(())
        self._delegate = delegate
        self._woken, self._wake = socket.socketpair()
        self._request = Request(
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
        self._may_ask = True
        self._next_look = monotonic() + _LOOK_SECONDS
        self._lock = RLock()
        self._closing = self._started = self._over = False
        self._failure: BaseException | None = None

    def _mode_of(self, start: Start, expected: Expected) -> FeedByPosition | FeedByGtid:
        if isinstance(start, GtidSet | GtidList):
            return FeedByGtid(start)
        if len(self.source.hosts) == 1:
            return FeedByPosition(start, expected)
        if isinstance(start, Position | Time):
            what = "a position" if isinstance(start, Position) else "the place of a time"
            raise UsageError(
                f"{self.source.name}: {what} is of one server: with several hosts, begin"
                " behind GTIDs, or with oldest or now"
            )
        return FeedByGtid(start)

    # --- where it stands -------------------------------------------------------------------------

    @property
    def position(self) -> Position:
        """Behind what was given; by GTID in the files of the host that gave it."""
        return self._mode.position

    @property
    def gtids(self) -> GtidSet | GtidList | None:
        """By GTID, what was given, with the start; None by position, and before it is known."""
        return self._mode.gtids

    @property
    def _from(self) -> str:
        """From where it reads on, in words."""
        if self.position.file:
            return f"after {self.position}"
        gtids = self.gtids
        if not gtids:
            return "from the oldest log on"
        return f"after {gtids.text()}"[:200]

    @property
    def session(self) -> Session | None:
        """The session of the connection there is, or that was last; None before the first."""
        return self._session

    @property
    def expected(self) -> Expected:
        """What the source and the file at hand are, for a feed that is to go on from here."""
        return self._mode.known

    @property
    def heard(self) -> Position | None:
        """Where the source stands, from the last heartbeat or event that came."""
        link = self._link
        return self._heard[0] if link is None else link.dump.place.heard or self._heard[0]

    @property
    def heard_at(self) -> float:
        """When the last bytes came, by `time.monotonic`."""
        link = self._link
        return self._heard[1] if link is None else link.arrivals.heard_at

    @property
    def connected(self) -> bool:
        """Whether there is a connection with a dump on it; else it is made, or none yet."""
        return self._link is not None

    def pending(self) -> bool:
        """Whether bytes have come that the next take would look at.

        They may be a heartbeat, or a part of an event: take with a timeout where waiting matters.
        """
        return self._link is not None and self._link.dump.pending()

    # --- taking ----------------------------------------------------------------------------------

    def take(self, timeout: float | None = None) -> Item | None:
        """What comes next; None where nothing came in ``timeout`` seconds; END at the end.

        Connects, and mends breaks. An attempt to connect may outlast the timeout, by the source's
        ``connect_timeout`` and what its questions take; `close` ends it. What was taken before is
        no longer valid.
        """
        deadline = None if timeout is None else monotonic() + timeout
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if self._over or self._closing:
                return END
            try:
                item = self._take(deadline)
            except TailraceError as error:
                self._failure = error
                self._stop()
                raise
            except BaseException:  # an interrupt: what was about to be given is lost
                self._failure = LocalProtocolError(
                    f"{self.source.name}: the feed was interrupted inside take: make another, to go"
                    " on behind what was taken"
                )
                self._stop()
                raise
            if item is END or self._closing:
                self._over = True
                if self._closing or self._delegate is None or self._delegate.is_empty:
                    self._stop()
                return END
            return item

    def _take(self, deadline: float | None) -> Item | None:
        if not self._started:
            self._started = True
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
            try:
                item = link.dump.take(deadline)
            except ConnectionLost as error:
                self._lost(error, link)
                continue
            except LeftOff:
                _log.info("%s: the file ends unannounced; looking again", self.position)
                self._drop()
                self._mode.ends = self.position
                continue
            except Unproved:
                _log.info("%s: read from its file's begin, to prove the start", self.position)
                self._drop()
                self._mode.read_from_begin()
                continue
            except ServerError as error:
                if link.dump.place.reading:
                    if is_torn(error.message):
                        self._skip_torn_tail(error, link)
                    else:
                        self._look_again(error)
                    continue
                self._drop()
                self._attempts.failed(
                    explained(self._request, link.session.host, error), monotonic()
                )
                _log.warning("%s", error)
                continue
            if item is END and not self._mode.reached(link.goal):
                self._lost(ConnectionLost(f"{link.session.name} ended the dump early"), link)
                continue
            if item is None and link.dump.place.quiet >= QUIET:
                self._look_at_end(link)
                continue
            if item is None or isinstance(item, EndOfDump):
                return item
            self._out = self._mode.accept(item, link.dump.place)
        return END

    def _lost(self, error: ConnectionLost, link: OpenDump) -> None:
        place = self._from
        self._drop()
        self._attempts.lost(error, monotonic(), proved=link.proved)
        _log.warning("%s; going on %s", error, place)

    def _look_again(self, error: ServerError) -> None:
        """Connect anew where the file that is read is gone from under the source: what that meets
        tells why. Raises the error where it is another, or comes at the same place again.
        """
        if not is_vanished(error) or self._vanished_at == self.position:
            raise error
        self._vanished_at = self.position
        _log.info("%s; looking again", error)
        self._drop()

    def _skip_torn_tail(self, error: ServerError, link: OpenDump) -> None:
        """Read on after a file that ends inside an event. Raises the error where that is not
        wanted, or the source has no file after it.
        """
        if not self.source.skip_torn_tail:
            raise error
        place = link.dump.place.position
        tail = torn_tail(self._request, link.session.host, place)
        if tail is None or not self._mode.skip_torn_tail(Position(tail.next, len(MAGIC))):
            raise type(error)(
                f"{error.message}; it has no other file with which reading could go on",
                code=error.code,
                sqlstate=error.sqlstate,
            )
        self._drop()
        if tail not in self.torn:
            self.torn.append(tail)
            _log.warning("%s: %s", link.session.name, tail)

    def _look_at_end(self, link: OpenDump) -> None:
        """Connect anew where the source's log ends before the place that is read: it was reset, and
        its dump waits at the end of a file that is no longer there.
        """
        place = link.dump.place
        place.quiet = 0
        if not self._may_ask or monotonic() < self._next_look:
            return
        self._next_look = monotonic() + _LOOK_SECONDS
        try:
            with Session.open(
                self.source, link.session.host, self.identity, wake=self._woken
            ) as session:
                end = session.end()
        except AccessDenied:
            self._may_ask = False
        except TailraceError as error:
            _log.info("where the source's log ends is not known: %s", error)
        else:
            if end < place.position:
                _log.info("%s: its log ends at %s; looking again", link.session.name, end)
                self._drop()

    def _connect(self, deadline: float | None) -> OpenDump | None:
        """A connection with a dump on it; None where the time is up, or on closing."""
        attempts = self._attempts
        while self._wait_until(attempts.due, deadline):
            host = attempts.host
            try:
                link = open_link(self._request, host)
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
        """Wait; False where ``deadline`` comes first, or the feed is closed."""
        until = due if deadline is None else min(due, deadline)
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            selector.select(max(until - monotonic(), 0))
        return not self._closing and monotonic() >= due

    # --- the end ---------------------------------------------------------------------------------

    def _drop(self) -> None:
        """Close the connection, and forget what came and was not given."""
        self._out = iter(())
        link, self._link = self._link, None
        if link is not None:
            self._heard = (link.dump.place.heard, link.arrivals.heard_at)
            link.close()

    def _stop(self) -> None:
        """Nothing more is read."""
        self._drop()
        self._mode.close()

    def _tell_stop(self) -> None:
        """Tell observers that the reader ended, once."""
        delegate, self._delegate = self._delegate, None
        if not self._started or delegate is None:
            return
        try:
            delegate.thread_stop(self.io)
        except TailraceError as second:
            if self._failure is None:
                raise
            self._failure.add_note(f"and then: {second}")

    def close(self) -> None:
        """Close the connection; a take that waits gives END, and so does each later one.

        From any thread. A connection that is being made is given up. Observers are told here that
        the reader ended: what was taken may have been queued until now.
        """
        self._closing = True
        with suppress(OSError):
            self._wake.send(b"\0")
        with self._lock:
            self._over = True
            self._stop()
            self._wake.close()
            self._woken.close()
            self._tell_stop()
