"""A small believable shop and its warehouse: what the examples are recorded from."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from tools.servers import Server


class Day:
    """What happens on a server, from a moment on, by a random source and a clock of its own."""

    def __init__(self, server: Server, seed: int, opened: datetime) -> None:
        self._cursor = server.connection.cursor()
        self._connection = server.connection
        self._random = random.Random(seed)
        self._now = opened

    def _do(self, *statements: tuple[str, Sequence[Any]]) -> None:
        """Run statements as one transaction; a list of tuples makes one multi-row statement."""
        self._connection.begin()
        for sql, values in statements:
            if values and isinstance(values[0], tuple):
                self._cursor.executemany(sql, values)
            else:
                self._cursor.execute(sql, values)
        self._connection.commit()

    def _later(self, most: int, unit: str) -> datetime:
        self._now += timedelta(**{unit: self._random.randrange(1, most)})
        return self._now

    def ddl(self, *statements: str) -> None:
        for sql in statements:
            self._cursor.execute(sql)
