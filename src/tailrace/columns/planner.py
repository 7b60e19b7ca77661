"""Splits of a log that grows: planned again and again, each byte of it gone through once."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace.columns.scan import Scan
from tailrace.columns.splits import undone_in
from tailrace.errors import BoundaryError, PipelineError
from tailrace.log import Log
from tailrace.position import Position
from tailrace.schema.catalogue import Catalogue
from tailrace.transactions import State
from tailrace.transactions.rollbacks import Rollbacks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tailrace.columns.split import Split
    from tailrace.events.base import Event
    from tailrace.storage import LogFile, LogSeries

LARGEST_SPLIT: Final = 64 << 20
SMALLEST_SPLIT: Final = 8 << 20
"""What is cut smaller costs more to begin than it saves."""


class SplitPlanner:
    """Plans the splits of one series from ``after`` on (None: from its begin).

    They have about ``target_bytes``; by default as many as give each core one, within limits.
    ``catalogue`` is what is known of tables where the file of ``after`` begins, or the first file.
    The splits of all calls of `plan`, one behind the other, are those of `plan_splits`, but for
    where they are cut. With ``hold`` they end before an XA transaction that is prepared and not
    decided, also in a payload, for its rows may still be taken back: `held` says where that is.
    For ``cascades`` see `Scan`.
    """

    def __init__(
        self,
        catalogue: Catalogue | None = None,
        after: Position | None = None,
        *,
        hold: bool = True,
        target_bytes: int | None = None,
        cascades: bool = False,
    ) -> None:
        self._cascades = cascades
        self._catalogue = catalogue.copy() if catalogue is not None else Catalogue()
        self._hold = hold
        self._target = target_bytes
        self._undone = _Undone(after)
        self._scans: deque[Scan] = deque()
        self._ends: dict[str, int] = {}

    @property
    def catalogue(self) -> Catalogue:
        """What is known of tables where it has come to; not to be changed."""
        return self._catalogue

    @property
    def server_version(self) -> str:
        """Of the server that wrote the file where it has come to; empty before the first."""
        return self._scans[-1].server_version if self._scans else ""

    @property
    def end(self) -> Position | None:
        """Where the splits end that were given."""
        return self._undone.end

    @property
    def held(self) -> Position | None:
        """Where the XA transaction begins that holds up what stands behind it."""
        return self._undone.undecided if self._hold else None

    def plan(self, series: LogSeries, *, enough: int | None = None) -> list[Split]:
        """The splits of what is new and whole in the series.

        With ``enough`` no further file is gone through once there are splits of so many bytes.
        Raises what `plan_splits` raises, and `PipelineError` where the file that was gone through
        last is not in the series any more.
        """
        splits: list[Split] = []
        left = self._left(series)
        for number, log in enumerate(left):
            if not self._scans or self._scans[-1].log.name != log.name:
                target = self._target or self._share(left[number:])
                self._scans.append(self._scan(series.name, log, target))
            scan = self._scans[-1]
            scan.log = log
            self._ends[log.name] = scan.scan()
            if self._undone.unmatched:
                self._look_into_payloads(series)
            splits += self._taken()
            if enough is not None and sum(each.end - each.start for each in splits) >= enough:
                break
        found = [replace(split, undone=undone_in(self._undone, split)) for split in splits]
        if found:
            self._undone.given(Position(found[-1].file, found[-1].end))
        return found

    def _left(self, series: LogSeries) -> tuple[LogFile, ...]:
        """The files from that on which is under way."""
        if self._scans:
            name = self._scans[-1].log.name
        elif self.end is not None:
            name = self.end.file
        else:
            return series.files
        names = [log.name for log in series.files]
        if name not in names:
            raise PipelineError(
                f"source {series.name}: {name} is gone, which was not read to its end: bring the "
                "file back, or create a new lake"
            )
        return series.files[names.index(name) :]

    def _begin(self, log: LogFile) -> int:
        return self.end.offset if self.end is not None and self.end.file == log.name else 4

    def _share(self, left: Sequence[LogFile]) -> int:
        """The bytes of a split where each core has one of what is left."""
        size = sum(log.size for log in left) - self._begin(left[0])
        return min(max(size // (os.cpu_count() or 1), SMALLEST_SPLIT), LARGEST_SPLIT)

    def _scan(self, source: str, log: LogFile, target: int) -> Scan:
        start = self._begin(log)
        state = self._scans[-1].state if self._scans else State.OUTSIDE
        return Scan(
            source,
            log,
            self._catalogue,
            self._undone,
            target,
            start,
            holding=self._hold,
            state=state,
            cascades=self._cascades,
        )

    def _taken(self) -> list[Split]:
        """What is known to be whole and decided, of all files that are under way."""
        splits: list[Split] = []
        held = self.held
        while True:
            scan = self._scans[0]
            name = scan.log.name
            here = held is not None and held.file == name
            end = self._ends[name]
            splits += scan.take(min(end, held.offset) if held is not None and here else end)
            if here or len(self._scans) == 1:
                return splits
            self._scans.popleft()
            del self._ends[name]

    def _look_into_payloads(self, series: LogSeries) -> None:
        """The scan does not look into payloads; where it might have to, the object path does."""
        found = _Undone(self.end)
        found.feed_all(Log(series, verify_checksums=False, expand_payloads=False))
        self._undone.ranges = found.ranges
        self._undone.unmatched = False


class _Undone(Rollbacks):
    """What was taken back, behind ``end``: up to there splits were given."""

    def __init__(self, end: Position | None) -> None:
        super().__init__()
        self.end = end

    def feed(self, event: Event, parts: Mapping[str, int]) -> None:
        """As for any; raises `BoundaryError` where rows are taken back that were given."""
        known = len(self.ranges)
        super().feed(event, parts)
        here = Position(event.file or "", event.offset or 0)
        for file, start, _ in self.ranges[known:]:
            if self.end is not None and Position(file, start) < self.end <= here:
                raise BoundaryError(
                    f"an XA transaction was rolled back whose rows were read up to {self.end} "
                    "before: copy its tables anew",
                    file=file,
                    offset=start,
                )

    @property
    def undecided(self) -> Position | None:
        """Where the first XA transaction begins that is prepared and not decided."""
        places = [group for group, _ in self._prepared.values()]
        if self.end is not None:
            places = [place for place in places if not place < self.end]
        return min(places, default=None)

    def given(self, end: Position) -> None:
        """Splits up to ``end`` were given: what was taken back before is of no use any more."""
        self.end = end
        self.ranges = [each for each in self.ranges if not Position(each[0], each[1]) < end]
