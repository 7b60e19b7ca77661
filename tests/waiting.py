"""Waiting in tests: for a condition, never for a time."""

from __future__ import annotations

import io
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tools.servers import Server

DEADLINE: Final = 300.0
"""Seconds; a machine with much else to do takes long for what is soon done otherwise."""


def wait_for(
    met: Callable[[], Any], what: Any = "", seconds: float = DEADLINE, every: float = 0.01
) -> Any:
    """What ``met`` gives as soon as it is true; AssertionError, with ``what``, after ``seconds``.

    ``what`` may be a function: of what to say then.
    """
    deadline = time.monotonic() + seconds
    while not (found := met()):
        if time.monotonic() > deadline:
            text = what() if callable(what) else what
            raise AssertionError(f"not met within {seconds:g} s: {text or met}")
        time.sleep(every)
    return found


def wait_for_steps(count: Callable[[], int], chance: random.Random, most: int) -> None:
    """Wait until something has gone on by a random number of steps: a moment to kill it at."""
    wanted = count() + chance.randint(0, most)
    wait_for(lambda: count() >= wanted, "it does not go on", every=0.001)


def in_thread(act: Callable[..., Any], *given: Any, **named: Any) -> Future[Any]:
    """What a function gives or raises that runs in a thread of its own."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(act(*given, **named))
        except BaseException as error:  # noqa: BLE001 - `ended` raises it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def ended(*futures: Future[Any]) -> list[Any]:
    """What they gave, when all have ended; what the first raised that raised something."""
    return [each.result(DEADLINE) for each in futures]


def next_second() -> None:
    """Wait until the clock shows another second: a log's description says the second only."""
    now = int(time.time())
    wait_for(lambda: int(time.time()) != now)


class Said(io.TextIOBase):
    """A stream that another thread writes to: `capsys` may lose what is written as it is read."""

    def __init__(self):
        self.parts = []

    def write(self, text):
        self.parts.append(text)
        return len(text)

    @property
    def lines(self):
        """Those that are whole."""
        return "".join(self.parts).split("\n")[:-1]


def purge(server: Server, to: str) -> None:
    """Have a server delete its logs before one.

    It keeps those that it still sends, and MariaDB those that a checkpoint may need.
    """

    def purged() -> bool:
        server.checkpoint()
        server.execute(f"PURGE BINARY LOGS TO '{to}'")
        return server.binlogs()[0].name == to

    wait_for(purged, f"{server.name} keeps {server.binlogs()[0].name}", every=0.05)
