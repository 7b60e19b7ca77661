"""The end of a source's log, queried from time to time on a separate connection.

A feed knows the end only when it has reached it: as long as it lags behind, nothing that arrives
says by how much.
"""

from __future__ import annotations

import logging
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from tailrace.errors import TailraceError
from tailrace.live.session import Session
from tailrace.position import Position

if TYPE_CHECKING:
    from tailrace.live.session import Identity
    from tailrace.live.url import Source

_log: Final = logging.getLogger("tailrace.receiver")
_SECONDS: Final = 5.0
_FIRST_PAUSE: Final = 5.0
_LONGEST_PAUSE: Final = 300.0


class SourceEnd:
    """Queries in a separate thread, from the first `want` on, and at most once per `want`.

    It is a convenience: an error (a missing privilege, a lost connection) is logged, and makes the
    answer None; the query is repeated later.
    """

    def __init__(self, source: Source, identity: Identity) -> None:
        self._source = source
        self._identity = identity
        self._wanted = Event()
        self._closed = False
        self._thread: Thread | None = None
        self._sizes: dict[str, int] = {}
        self._end: Position | None = None
        self._refused = ""

    def want(self) -> None:
        """Request a query soon."""
        if self._thread is None:
            name = f"tailrace-end-{self._source.hosts[0]}"
            self._thread = Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        self._wanted.set()

    def ahead_of(self, position: Position, heard: Position | None) -> int | None:
        """Bytes from a position to the end; ``heard`` is a position that the log is known to have.

        None if it is unknown.
        """
        sizes, end = self._sizes, self._end
        if end is None and not self._refused:
            return None  # the stream alone does not show it: the next event may only be slow
        known = max((each for each in (end, heard) if each is not None), default=None)
        if known is None:
            return None
        if known <= position:
            return 0
        if known.file == position.file:
            return known.offset - position.offset
        if position.file not in sizes or known.file not in sizes:
            return None
        between = (
            size
            for name, size in sizes.items()
            if position < Position(name, 4) < Position(known.file, 4)
        )
        return sizes[position.file] - position.offset + sum(between) + known.offset

    def close(self) -> None:
        """Stop the queries, without waiting for an answer under way."""
        self._closed = True
        self._wanted.set()

    def _run(self) -> None:
        session: Session | None = None
        pause, wait = _FIRST_PAUSE, Event()
        while self._wanted.wait() and not self._closed:
            self._wanted.clear()
            try:
                if session is None:
                    session = Session.open(self._source, self._source.hosts[0], self._identity)
                self._ask(session)
                pause = _FIRST_PAUSE
                wait.wait(_SECONDS)
            except TailraceError as error:
                self._end = None
                if str(error) != self._refused:
                    self._refused = str(error)
                    _log.info("the end of the source's log could not be determined: %s", error)
                if session is not None:
                    session.close()
                    session = None
                wait.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        if session is not None:
            session.close()

    def _ask(self, session: Session) -> None:
        end = session.end()
        if end.file not in self._sizes or self._end is None or end.file != self._end.file:
            self._sizes = dict(session.logs())
        self._end = end
