"""Which host is tried when, and when that ends. No I/O and no clock: the caller says the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import ConnectionLost, ServerError, TailraceError
from tailrace.live.resume import Pauses

if TYPE_CHECKING:
    from tailrace.live.url import Host, Source


class Attempts:
    """The attempts to connect. A round tries each host once; a pause lies between rounds.

        state      lost, a connection that was of use   failed, or lost at once
        at first   -                                    the next host; behind the last: the error,
                                                        or with ``retry_first`` as connected
        connected  a new round, this host first         the next host; behind the last: a pause, or
                                                        the error where no host of the round was but
                                                        lost, or time is up

    ``host`` is where the next attempt is made, ``due`` when. With one host, only a lost connection
    leads to another attempt; with several, what one of them refuses does not end it.
    """

    def __init__(self, source: Source) -> None:
        self._hosts = source.hosts
        self._name = source.name
        self._patience = source.retry
        self._number = 0
        self._round: list[TailraceError] = []
        self._pauses = Pauses()
        self._goes_on = source.retry_first and source.retry != 0
        self._lost_at: float | None = None
        self.due = 0.0

    @property
    def host(self) -> Host:
        """The host that is tried next, or is connected."""
        return self._hosts[self._number]

    def connected(self) -> None:
        """A connection was made, and a dump requested."""
        self._goes_on = True

    def lost(self, error: ConnectionLost, now: float, *, proved: bool) -> None:
        """The connection broke; ``proved``: it was of use. Raises where that is the end."""
        if not proved:
            self.failed(error, now)
            return
        self._round.clear()
        self._pauses.reset()
        self._lost_at = now
        self._later(error, now)

    def failed(self, error: TailraceError, now: float) -> None:
        """A host was not reached, or refused. Raises the error where that is the end."""
        is_lost = isinstance(error, ConnectionLost)
        if not is_lost and not (len(self._hosts) > 1 and isinstance(error, ServerError)):
            raise error
        self._round.append(error)
        self._number = (self._number + 1) % len(self._hosts)
        if len(self._round) < len(self._hosts):
            self.due = now
            return
        tried, self._round = self._round, []
        if not self._goes_on or not any(isinstance(each, ConnectionLost) for each in tried):
            raise tried[0]
        self._later(error, now)

    def _later(self, error: TailraceError, now: float) -> None:
        """The next round, behind a pause. Raises ConnectionLost where no time is left for it."""
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
