"""What Ctrl-C and SIGTERM do to a command that follows a log or a server."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from socket import socket, socketpair
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_STATUS: Final[dict[int, int]] = {signal.SIGINT: 130, signal.SIGTERM: 0}
"""The command's status, by the number of the signal that ended it."""


class Ending:
    """The signals that came: their ``numbers``, in order."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    @property
    def status(self) -> int:
        """The command's status: that of the first signal, 0 without one."""
        return _STATUS[self.numbers[0]] if self.numbers else 0


@contextmanager
def on_signals(
    stop: Callable[[], object], *, second: Literal["default", "interrupt", "stop"] = "default"
) -> Iterator[Ending]:
    """Let SIGINT and SIGTERM call ``stop``.

    It is called in a thread of its own: in a signal's handler it would wait forever for a lock that
    the main thread holds, and `threading.Event` has one. Python runs a handler in the main thread,
    which may wait for what only ``stop`` brings: so the thread reads the signals from a socket.
    A ``second`` signal does what it does by default, raises KeyboardInterrupt (``interrupt``), or
    calls ``stop`` once more.
    """
    ending = Ending()

    def handle(number: int, _frame: object) -> None:
        ending.numbers.append(number)
        if second == "interrupt" and len(ending.numbers) > 1:
            raise KeyboardInterrupt
        if second == "default":
            put_back()

    def put_back() -> None:
        while before:
            signal.signal(*before.popitem())

    def call(came: socket) -> None:
        with came:
            while number := came.recv(1):
                if number[0] in _STATUS:
                    stop()

    came, written = socketpair()
    written.setblocking(False)
    before: dict[int, Any] = {}
    wakeup = signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)
    try:
        for number in _STATUS:
            before[number] = signal.getsignal(number)
            signal.signal(number, handle)
        Thread(target=call, args=(came,), name="tailrace-signals", daemon=True).start()
        yield ending
    finally:
        put_back()
        signal.set_wakeup_fd(wakeup)
        written.close()


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

    Does nothing for other readers.
    """
    if not reader.follow:
        yield Ending()
        return
    with on_signals(reader.stop) as ending:
        yield ending
