"""Sets of numbers as runs: the transaction numbers of one source in a GTID set."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Intervals:
    """A sorted set of numbers as half-open runs ``[start, end)`` that neither touch nor overlap."""

    __slots__ = ("ends", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.starts, self.ends, strict=True)

    def __len__(self) -> int:
        return len(self.starts)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self.starts, number) - 1
        return at >= 0 and number < self.ends[at]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Intervals):
            return NotImplemented
        return self.starts == other.starts and self.ends == other.ends

    __hash__ = None  # type: ignore[assignment]  # it changes

    def copy(self) -> Intervals:
        """An independent copy."""
        new = Intervals()
        new.starts, new.ends = self.starts.copy(), self.ends.copy()
        return new

    def add(self, start: int, end: int) -> None:
        """Add ``[start, end)``, joining runs that it touches; adding at the end is nearly free."""
        if end <= start:
            return
        starts, ends = self.starts, self.ends
        if not ends or start > ends[-1]:
            starts.append(start)
            ends.append(end)
            return
        first = bisect_right(starts, start) - 1  # the run that begins at or before start
        if first < 0 or ends[first] < start:
            first += 1
        last = bisect_right(starts, end)  # past the last run that begins at or before end
        if first < last:
            start, end = min(start, starts[first]), max(end, ends[last - 1])
        starts[first:last] = [start]
        ends[first:last] = [end]

    @classmethod
    def of(cls, runs: Iterable[tuple[int, int]]) -> Intervals:
        """The set of these runs, in any order."""
        new = cls()
        for start, end in sorted(runs):
            new.add(start, end)
        return new

    def minus(self, other: Intervals) -> Intervals:
        """The numbers that are here but not in ``other``; linear in both."""
        new = Intervals()
        at = 0
        for start, end in self:
            left = start
            while at < len(other) and other.ends[at] <= left:
                at += 1
            look = at
            while look < len(other) and other.starts[look] < end:
                if other.starts[look] > left:
                    new.add(left, other.starts[look])
                left = other.ends[look]
                look += 1
            new.add(left, end)
            at = max(at, look - 1)
        return new

    def meet(self, other: Intervals) -> Intervals:
        """The numbers that are in both; linear in both."""
        new = Intervals()
        mine = theirs = 0
        while mine < len(self) and theirs < len(other):
            new.add(
                max(self.starts[mine], other.starts[theirs]),
                min(self.ends[mine], other.ends[theirs]),
            )
            if self.ends[mine] < other.ends[theirs]:
                mine += 1
            else:
                theirs += 1
        return new
