"""Clients that commit for ever, and remember what they saw acknowledged."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any, Final

from pymysql.err import MySQLError

if TYPE_CHECKING:
    from tools.servers import Server

DATABASE: Final = "zeroloss"
TABLE: Final = (
    f"CREATE TABLE {DATABASE}.t (client INT, number INT, part INT, v LONGBLOB,"
    " PRIMARY KEY (client, number, part)) ENGINE=InnoDB"
)
_SIZES: Final = (0, 10, 10, 100, 100, 1000, 30_000, 400_000)


class Client:
    """One connection in a thread of its own. A commit is seen when the server has said OK."""

    def __init__(self, server: Server, number: int, seed: int) -> None:
        self.number = number
        self.seen: dict[int, int] = {}
        """What was acknowledged: a commit's number, and how many rows it has."""
        self.began = 0
        """Commits that were begun."""
        self._chance = random.Random(f"{seed} {number}")
        self._connection = server.connect(autocommit=False)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to commit."""
        self._thread.start()

    def join(self) -> None:
        """Until the server is gone."""
        self._thread.join(300)
        if self._thread.is_alive():
            raise RuntimeError(f"client {self.number} still waits for a server that is gone")

    def _run(self) -> None:
        try:
            with self._connection.cursor() as cursor:
                while True:
                    self._one(cursor)
        except (MySQLError, OSError):
            return  # the server is gone: what it did not say is not seen

    def _one(self, cursor: Any) -> None:
        chance = self._chance
        rows = 1 if chance.random() < 0.6 else chance.randrange(2, 12)
        self.began += 1
        size = chance.choice(_SIZES)
        cursor.executemany(
            f"INSERT INTO {DATABASE}.t VALUES (%s, %s, %s, REPEAT('x', %s))",
            [(self.number, self.began, part, size) for part in range(rows)],
        )
        if chance.random() < 0.1:
            self._connection.rollback()
            return
        if chance.random() < 0.02:  # it commits what was before
            cursor.execute(f"CREATE TABLE {DATABASE}.c{self.number}_{self.began} (a INT)")
        else:
            self._connection.commit()
        self.seen[self.began] = rows


class Load:
    """Several clients."""

    def __init__(self, server: Server, clients: int, seed: int) -> None:
        self.clients = [Client(server, number, seed) for number in range(clients)]
        for client in self.clients:
            client.start()

    def count(self) -> int:
        """How many commits were seen."""
        return sum(len(client.seen) for client in self.clients)

    def seen(self) -> dict[tuple[int, int], int]:
        """When the server is gone: the commits that were acknowledged, by client and number, and
        how many rows each has.
        """
        for client in self.clients:
            client.join()
        return {
            (client.number, number): rows
            for client in self.clients
            for number, rows in client.seen.items()
        }
