"""Which host is tried, when, and for how long. No I/O and no clock: the caller gives the time."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from tailrace.errors import ConnectionLost, ServerError, TailraceError

if TYPE_CHECKING:
    from tailrace.live.url import Host, Source


LONGEST_PAUSE: Final = 30.0
_FIRST_PAUSE: Final = 0.2


class Pauses:
    """How long to wait before each attempt to connect: first not at all, then longer each time.

    Each pause is twice the one before, up to `LONGEST_PAUSE`, less a random part of up to a half,
    so that many readers of a restarted server do not reconnect at once. Call `reset` when data has
    come.
    """

    def __init__(self) -> None:
        self._next = 0.0

    def reset(self) -> None:
        """The next attempt is made at once."""
        self._next = 0.0

    def next(self) -> float:
        """Seconds before the next attempt."""
        pause = self._next
        self._next = min(max(2 * pause, _FIRST_PAUSE), LONGEST_PAUSE)
        return pause * random.uniform(0.5, 1)  # noqa: S311 - no secret


class Attempts:
    """The attempts to connect. A round tries each host once; rounds are separated by a pause.

        state      lost, a connection that was of use   failed, or lost at once
        at first   -                                    the next host; after the last: the error,
                                                        or with ``retry_first`` as connected
        connected  a new round, this host first         the next host; after the last: a pause, or
                                                        the error if no host of the round was merely
                                                        lost, or if time is up

    The next attempt is made at ``host``, at the time ``due``. With one host, only a lost connection
    leads to another attempt; with several, an error of one of them does not end the attempts.
    """

    def __init__(self, source: Source) -> None:
        self._hosts = source.hosts
        self._name = source.name
        self._patience = source.retry
        self._number = 0
        self._round: list[TailraceError] = []
        self._pauses = Pauses()
        self._may_retry = source.retry_first and source.retry != 0
        self._lost_at: float | None = None
        self.due = 0.0

    @property
    def host(self) -> Host:
        """The host that is tried next, or is connected."""
        return self._hosts[self._number]

    def connected(self) -> None:
        """A connection was made, and a dump requested."""
        self._may_retry = True

    def lost(self, error: ConnectionLost, now: float, *, proved: bool) -> None:
        """The connection broke; ``proved``: it was of use. Raises if that ends the attempts."""
        if not proved:
            self.failed(error, now)
            return
        self._round.clear()
        self._pauses.reset()
        self._lost_at = now
        self._later(error, now)

    def failed(self, error: TailraceError, now: float) -> None:
        """A host was not reached, or gave an error. Raises it if that ends the attempts."""
        is_lost = isinstance(error, ConnectionLost)
        if not is_lost and not (len(self._hosts) > 1 and isinstance(error, ServerError)):
            raise error
        self._round.append(error)
        self._number = (self._number + 1) % len(self._hosts)
        if len(self._round) < len(self._hosts):
            self.due = now
            return
        tried, self._round = self._round, []
        if not self._may_retry or not any(isinstance(each, ConnectionLost) for each in tried):
            raise tried[0]
        self._later(error, now)

    def _later(self, error: TailraceError, now: float) -> None:
        """Start a round after a pause. Raises ConnectionLost if no time is left for it."""
        since = self._lost_at = now if self._lost_at is None else self._lost_at
        self.due = now + self._pauses.next()
        if self._patience is None:
            return
        if now - since >= self._patience:
            raise ConnectionLost(
                f"{self._name}: no connection for {now - since:.0f} seconds, and retry allows for"
                f" {self._patience:g}: {error}"
            ) from error
        self.due = min(self.due, since + self._patience)
