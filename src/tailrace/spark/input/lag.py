"""What a log has after a place: how many bytes, and since when."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.constants import MAGIC
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
    """The bytes of events that a log's files have after a place, up to an ``end``.

    ``files`` are names and sizes. Without a place all count, without an end those up to the log's.
    The sum is negative if the log ends before the place.
    """
    total = 0
    for name, size in files:
        here = Position(name, len(MAGIC))
        first = here if place is None or place.file != name else place
        last = max(here, Position(name, size)) if end is None or end.file != name else end
        if (place is None or first >= place) and (end is None or last <= end):
            total += last.offset - first.offset
    return total


def second_of(log: LogFile, offset: int) -> int | None:
    """The second of the event at an offset; None where it has none, or cannot be read."""
    try:
        with closing(log.open()) as file:
            return int.from_bytes(read_exactly(file, offset, 4), "little") or None
    except StorageError:
        return None
