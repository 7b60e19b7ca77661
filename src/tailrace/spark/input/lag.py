"""How far a reader is behind a log: in bytes (`tailrace.position.bytes_after`), and since when."""

from __future__ import annotations

import time
from collections import deque
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.errors import StorageError
from tailrace.storage.streams.base import read_exactly

if TYPE_CHECKING:
    from tailrace.storage import LogFile


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a reader is behind a log.

    ``since`` is the second of the first event that was not read, None where there is none or it
    has no time.
    """

    bytes: int
    since: float | None = None

    @property
    def seconds(self) -> float:
        """The age of the first event that was not read; 0 where there is none."""
        return 0.0 if self.since is None else max(time.time() - self.since, 0.0)


@dataclass(frozen=True)
class SourceMoment:
    """How far the lake has a source's log, while it is followed.

    ``lag_bytes`` counts what the source has and the lake has not, as far as that is known, when the
    batch is done; ``lag_seconds`` is the age of the first event that is not in the lake, 0 where
    there is none. ``gtid`` is the last transaction in the lake, None where it is not known.
    ``held`` is where an in-doubt XA transaction begins. ``full``: the source's log is not received
    further before the lake has some of it, for want of room on the disk.
    """

    name: str
    position: str | None
    lag_bytes: int
    lag_seconds: float
    gtid: str | None = None
    held: str | None = None
    connected: bool = True
    full: bool = False


class Rate:
    """Amounts a second, over the last ``within`` seconds."""

    def __init__(self, within: float = 10.0) -> None:
        self._within = within
        self._counts: deque[tuple[float, float, tuple[int, ...]]] = deque()

    def add(self, seconds: float, *amounts: int) -> list[float]:
        """Count a batch that took ``seconds`` and is done now: each of its amounts a second."""
        now = time.monotonic()
        self._counts.append((now, seconds, amounts))
        while self._counts[0][0] < now - self._within:
            self._counts.popleft()
        first, took, _ = self._counts[0]
        since = max(now - first + took, 1e-3)
        return [
            sum(each) / since for each in zip(*(some for *_, some in self._counts), strict=True)
        ]


def second_of(log: LogFile, offset: int) -> int | None:
    """The second of the event at an offset; None where it has none, or cannot be read."""
    try:
        with closing(log.open()) as file:
            return int.from_bytes(read_exactly(file, offset, 4), "little") or None
    except StorageError:
        return None
