"""The load: its clients' threads, and what they have done."""

from __future__ import annotations

import random
import threading
from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final, Self

from tools.campaign.columns import Types
from tools.load.actions import choose
from tools.load.client import Client, Plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.servers import Server

_PAUSE_SECONDS: Final = 0.01
"""So often a client looks whether a pause is over."""


class Load:
    """Clients that change a server's data at random, each in a thread; a context manager.

    It outlives the server's restarts: who loses the connection waits for the server (whose port may
    be another), clears up behind itself and goes on. The n-th action of a client is chosen by
    ``seed``, client and n alone; what becomes of it depends on the others, too.

    ``rate`` is how many actions a second all clients do together at most; None: as many as they
    can. ``large`` multiplies how often there are transactions of some MB (0: never), ``huge`` is
    about how many bytes the largest have, which are rarer still (0: none). ``statements`` logs some
    changes as statements (with INTVAR, RAND and USER_VAR events). ``flush`` rotates the log at
    times. ``own`` makes tables, alters and drops them: a mirror has more and more of them.
    ``compressed`` lets some of MySQL's clients write transaction payloads.
    """

    def __init__(
        self,
        server: Server,
        *,
        seed: int,
        clients: int = 4,
        tables: int = 4,
        rate: float | None = None,
        large: float = 1.0,
        huge: int = 24 << 20,
        statements: bool = False,
        flush: bool = True,
        own: bool = True,
        compressed: bool = True,
        database: str = "random_load",
    ) -> None:
        self.server = server
        self.seed = seed
        self._plan = Plan(database, tables, large, huge, statements, flush, own, compressed)
        self._pause = clients / rate if rate else 0.0
        self._count = clients
        self._clients: list[Client] = []
        self._threads: list[threading.Thread] = []
        self._ending = threading.Event()
        self._pausing = threading.Event()
        self._turns: list[threading.Lock] = []
        self._failures: list[BaseException] = []

    def start(self) -> None:
        """Make the tables, and let the clients begin. Raises what the server says to that."""
        types = Types(self.server)
        self._ending.clear()
        self._clients = [
            Client(self.server, number, self.seed, self._plan, types, self._ending)
            for number in range(self._count)
        ]
        self._clients[0].prepare()
        self._turns = [threading.Lock() for _ in self._clients]
        self._threads = [
            threading.Thread(target=self._run, args=(client, turn), name=f"load {client.number}")
            for client, turn in zip(self._clients, self._turns, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Have the clients end what they do, join them; raises where one of them failed.

        What is left prepared is ended, so that nothing holds a lock; the tables stay.
        """
        self._ending.set()
        for thread in self._threads:
            thread.join()
        self._threads = []
        if self._failures:
            raise self._failures[0]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing goes on inside: each client has ended its action, and begins no other."""
        self._pausing.set()
        try:
            with ExitStack() as turns:
                for turn in self._turns:
                    turns.enter_context(turn)
                yield
        finally:
            self._pausing.clear()

    @property
    def counts(self) -> Counter[str]:
        """How often each kind of action came to its end; `errors` and `reconnects` beside them."""
        found: Counter[str] = Counter()
        for client in self._clients:
            found.update(client.counts.copy())
        return found

    def acknowledged(self) -> set[tuple[int, int]]:
        """The (client, n) of each row of ``marks`` whose commit the server said was done.

        There may be others in the table, whose answer was lost.
        """
        return {(client.number, n) for client in self._clients for n in client.acknowledged.copy()}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self, client: Client, turn: threading.Lock) -> None:
        try:
            number = 0
            while not self._ending.is_set():
                if self._pausing.is_set():
                    self._ending.wait(_PAUSE_SECONDS)
                    continue
                rng = random.Random(f"{self.seed}/{client.number}/{number}")
                with turn:
                    client.run(choose(rng, self._plan), rng, number)
                number += 1
                if self._pause:
                    self._ending.wait(rng.uniform(0, 2 * self._pause))
        except BaseException as error:  # noqa: BLE001 - stop() raises it
            self._failures.append(error)
        finally:
            client.close()
