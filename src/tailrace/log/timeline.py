"""Changes over time, by table, in a bounded number of intervals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

_DAY: Final = 86_400
_WIDTHS: Final = (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200, _DAY)
"""Seconds of an interval, then doubled: each divides the next, so that intervals merge whole."""
_MOST_INTERVALS: Final = 240
_MOST_CELLS: Final = 1 << 16


class Interval(NamedTuple):
    """A table's changed rows in an interval, and the bytes of their events.

    ``start`` is the interval's first second, UTC.
    """

    start: int
    changes: int
    bytes: int


@dataclass(slots=True)
class Timeline:
    """Changed rows and bytes by table and interval; statements that define something by interval.

    Intervals have ``width`` seconds and begin at its multiples. The width grows, so that there are
    at most 240 intervals from the first to the last, and at most 65,536 counts besides each
    table's first. It depends on what was added, and not on the order: parts of a log that are
    counted separately give the counts of the whole.
    """

    width: int = 1
    _tables: dict[str, dict[int, list[int]]] = field(default_factory=dict)
    _definitions: dict[int, int] = field(default_factory=dict)
    _cells: int = 0
    _first: int | None = None
    _last: int = 0

    def cover(self, first: int, last: int) -> int:
        """Widen the intervals for changes between two seconds; gives their width in seconds."""
        self._reach(first)
        self._reach(last)
        return self.width

    def add(self, table: str, second: int, changes: int, size: int) -> None:
        """Count rows that were changed in a second (UTC), and the bytes of their events."""
        self._reach(second)
        self._count(self._tables.setdefault(table, {}), second // self.width, changes, size)
        self._fit()

    def add_definition(self, second: int, number: int = 1) -> None:
        """Count statements that define something, executed in a second (UTC)."""
        self._reach(second)
        self._define(second // self.width, number)
        self._fit()

    def merge(self, other: Timeline) -> None:
        """Add the counts of another part of the log."""
        while self.width < other.width:
            self._widen()
        if other._first is not None:
            self.cover(other._first, other._last)
        for table, cells in other._tables.items():
            mine = self._tables.setdefault(table, {})
            for at, (changes, size) in cells.items():
                self._count(mine, at * other.width // self.width, changes, size)
        for at, number in other._definitions.items():
            self._define(at * other.width // self.width, number)
        self._fit()

    def within(self, most: int) -> Timeline:
        """The same counts in at most so many intervals."""
        found = Timeline()
        found.merge(self)
        while found.intervals > most:
            found._widen()
        return found

    @property
    def intervals(self) -> int:
        """The number of intervals from the first to the last."""
        if self._first is None:
            return 0
        return self._last // self.width - self._first // self.width + 1

    def tables(self) -> dict[str, list[Interval]]:
        """By table, in order of their names, the intervals in which it changed, in order."""
        return {
            table: [Interval(at * self.width, *counts) for at, counts in sorted(cells.items())]
            for table, cells in sorted(self._tables.items())
        }

    def definitions(self) -> list[tuple[int, int]]:
        """The first second of each interval that has such statements, and their number."""
        return [(at * self.width, number) for at, number in sorted(self._definitions.items())]

    def _reach(self, second: int) -> None:
        self._first = second if self._first is None else min(self._first, second)
        self._last = max(self._last, second)
        while self.intervals > _MOST_INTERVALS:
            self._widen()

    def _count(self, cells: dict[int, list[int]], at: int, changes: int, size: int) -> None:
        found = cells.get(at)
        if found is None:
            found = cells[at] = [0, 0]
            self._cells += 1
        found[0] += changes
        found[1] += size

    def _define(self, at: int, number: int) -> None:
        self._definitions[at] = self._definitions.get(at, 0) + number

    def _fit(self) -> None:
        """Merge intervals while there are too many counts."""
        while self._cells - len(self._tables) > _MOST_CELLS:
            self._widen()

    def _widen(self) -> None:
        before = self.width
        self.width = next((each for each in _WIDTHS if each > before), 2 * before)
        self._cells = 0
        for table, cells in self._tables.items():
            merged: dict[int, list[int]] = {}
            for at, (changes, size) in cells.items():
                self._count(merged, at * before // self.width, changes, size)
            self._tables[table] = merged
        definitions, self._definitions = self._definitions, {}
        for at, number in definitions.items():
            self._define(at * before // self.width, number)
