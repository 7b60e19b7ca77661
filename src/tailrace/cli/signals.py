"""What Ctrl-C and SIGTERM do to a command that follows a log or a server."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STATUS: Final[dict[int, int]] = {signal.SIGINT: 130, signal.SIGTERM: 0}
"""The command's status, by the number of the signal that ended it."""


@contextmanager
def on_signals(stop: Callable[[int], None]) -> Iterator[Callable[[], None]]:
    """Let SIGINT and SIGTERM call ``stop`` with their number; gives what ends that early."""
    before = {number: signal.signal(number, lambda n, _frame: stop(n)) for number in STATUS}

    def put_back() -> None:
        while before:
            signal.signal(*before.popitem())

    try:
        yield put_back
    finally:
        put_back()


class Ending:
    """Whether a signal ended the command, and its status in that case."""

    status = 0


class Follows(Protocol):
    """A reader, or a stream of events: it may follow its source."""

    @property
    def follow(self) -> bool:
        """Whether it waits for more at the end."""

    def stop(self) -> None:
        """Let it end at a transaction's end."""


@contextmanager
def until_stopped(reader: Follows) -> Iterator[Ending]:
    """Let Ctrl-C and SIGTERM end a reader that follows, at a transaction's end.

    A second signal ends the process in the default way. Does nothing for other readers.
    """
    ending = Ending()
    if not reader.follow:
        yield ending
        return

    def stop(number: int) -> None:
        put_back()
        ending.status = STATUS[number]
        reader.stop()

    with on_signals(stop) as put_back:
        yield ending
