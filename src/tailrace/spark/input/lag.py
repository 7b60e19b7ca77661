"""What a log has after a place: how many bytes, and since when."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.errors import StorageError
from tailrace.position import Position
from tailrace.storage.streams.base import read_exactly

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def sizes(files: Iterable[LogFile]) -> list[tuple[str, int]]:
    """The names of files and their bytes."""
    return [(log.name, log.size) for log in files]


def bytes_after(
    files: Iterable[tuple[str, int]], place: Position | None, end: Position | None = None
) -> int:
    """The bytes that a log's files (their names and sizes) have after a place, up to an ``end``.

    Without a place all, without an end up to the log's. Negative where they end before the place.
    """
    total = 0
    for name, size in files:
        if place is not None and Position(name, 0) < Position(place.file, 0):
            continue
        if end is not None and Position(name, size) > end:
            size = end.offset if name == end.file else 0  # noqa: PLW2901
        total += size - (place.offset if place is not None and name == place.file else 0)
    return total


def second_of(log: LogFile, offset: int) -> int | None:
    """The second of the event at an offset; None where it has none, or cannot be read."""
    try:
        with closing(log.open()) as file:
            return int.from_bytes(read_exactly(file, offset, 4), "little") or None
    except StorageError:
        return None
