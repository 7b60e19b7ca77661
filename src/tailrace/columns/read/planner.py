"""Splits of logs: of a series, of a growing one (each byte is scanned once), of a file."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace.columns.read.blocks import Blocks
from tailrace.columns.read.scan import Scan
from tailrace.columns.read.split import Split, check_names, overlapping
from tailrace.constants import EventFlag
from tailrace.errors import LogError
from tailrace.log.events import Log
from tailrace.position import Position
from tailrace.schema.catalogue import Catalogue
from tailrace.storage.identity import file_read
from tailrace.transaction import State
from tailrace.transaction.committed import TO_THE_END, Committed, Rollbacks
from tailrace.transports import SeriesTransport

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tailrace.storage import LogFile, LogSeries

LARGEST_SPLIT: Final = 64 << 20
SMALLEST_SPLIT: Final = 8 << 20
"""A smaller split costs more to start than it saves."""


class SplitPlanner:
    """Plans the splits of one series from ``after`` on (None: from its beginning).

    They have about ``target_bytes``; by default, each core gets one split, within limits.
    ``catalogue`` has the tables known where the file of ``after`` begins, or the first file.
    With ``hold`` they end before an in-doubt XA transaction (prepared, neither committed nor rolled
    back), also in a payload, as its rows may still be rolled back: `held` is its position.
    For ``cascades`` see `Scan`; ``cuts`` are positions at which splits begin, as there. The log was
    known up to ``seen`` when the splits before ``after`` were planned.
    """

    def __init__(
        self,
        catalogue: Catalogue | None = None,
        after: Position | None = None,
        *,
        hold: bool = True,
        target_bytes: int | None = None,
        cascades: bool = False,
        cuts: Collection[Position] = (),
        seen: Position | None = None,
    ) -> None:
        self._cascades = cascades
        self._cuts = cuts
        self._catalogue = catalogue.copy() if catalogue is not None else Catalogue()
        self._hold = hold
        self._target = target_bytes
        self._rollbacks = Rollbacks(after, seen)
        self._scans: deque[Scan] = deque()
        self._ends: dict[str, int] = {}

    @property
    def catalogue(self) -> Catalogue:
        """The tables known at the scan's position; not to be changed."""
        return self._catalogue

    @property
    def server_version(self) -> str:
        """The version of the server that wrote the file at the scan's position; empty at first."""
        return self._scans[-1].server_version if self._scans else ""

    @property
    def end(self) -> Position | None:
        """The end of the splits that were given."""
        return self._rollbacks.delivered

    @property
    def seen(self) -> Position | None:
        """Up to where the log was known when the splits were planned."""
        return self._rollbacks.seen

    @property
    def held(self) -> Position | None:
        """The start of the in-doubt XA transaction that holds up the splits after it."""
        return self._rollbacks.in_doubt if self._hold else None

    def plan(self, series: LogSeries, *, enough: int | None = None) -> list[Split]:
        """The splits of the new and whole transactions in the series.

        With ``enough`` no further file is scanned once there are splits of that many bytes; but,
        with ``hold``, up to where the log was known before: `seen` does not go back. Raises
        `BoundaryError` if rows that were already given were rolled back, and `LogPurged` or
        `LogReset` if the file that was scanned last is not in the series any more.
        """
        check_names(series)
        splits: list[Split] = []
        left = self._left(series)
        for number, log in enumerate(left):
            if not self._scans or self._scans[-1].log.name != log.name:
                target = self._target or self._share(left[number:])
                self._scans.append(self._scan(series.name, log, target))
            scan = self._scans[-1]
            scan.log = log
            self._ends[log.name] = scan.scan()
            if self._rollbacks.unmatched:
                self._look_into_payloads(series)
            splits += self._taken()
            if enough is None or (self._hold and self.seen is not None and self._here < self.seen):
                continue
            if sum(each.end - each.start for each in splits) >= enough:
                break
        found = [replace(split, left_out=_left_out_in(self._rollbacks, split)) for split in splits]
        if found:
            self._rollbacks.deliver(Position(found[-1].file, found[-1].end), self._here)
        return found

    @property
    def _here(self) -> Position:
        """Where the last whole event ends that was scanned."""
        return Position(self._scans[-1].log.name, self._scans[-1].whole)

    def _left(self, series: LogSeries) -> tuple[LogFile, ...]:
        """The files that are not finished, from the current one on."""
        place = self._here if self._scans else self.end
        if place is None:
            return series.files
        log = file_read(series, place, "bring the log's files back, or create a new lake")
        return series.files[series.files.index(log) :]

    def _begin(self, log: LogFile) -> int:
        return self.end.offset if self.end is not None and self.end.file == log.name else 4

    def _share(self, left: Sequence[LogFile]) -> int:
        """The bytes of a split if each core gets one of the rest."""
        size = sum(log.size for log in left) - self._begin(left[0])
        return min(max(size // (os.cpu_count() or 1), SMALLEST_SPLIT), LARGEST_SPLIT)

    def _scan(self, source: str, log: LogFile, target: int) -> Scan:
        start = self._begin(log)
        state = self._scans[-1].state if self._scans else State.OUTSIDE
        return Scan(
            source,
            log,
            self._catalogue,
            self._rollbacks,
            target,
            start,
            holding=self._hold,
            state=state,
            cascades=self._cascades,
            cuts=[cut.offset for cut in self._cuts if cut.file == log.name],
        )

    def _taken(self) -> list[Split]:
        """The splits up to where all is whole and nothing is in doubt, of all files under way."""
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
        """Look into payloads by the object path if that may be needed; the scan does not do it."""
        found = Committed(self.end, self.seen)
        found.feed_all(Log(series, verify_checksums=False, expand_payloads=False))
        self._rollbacks.ranges = found.rollbacks.ranges
        self._rollbacks.unmatched = False


def plan_splits(
    series: LogSeries, *, target_bytes: int = LARGEST_SPLIT, catalogue: Catalogue | None = None
) -> list[Split]:
    """Cut a series into splits of about ``target_bytes`` each; a file has at least one.

    A larger transaction is cut inside, where the rows of a statement begin; the compressed events
    of a payload are never cut. Only headers and statements are read. ``catalogue`` has the tables
    known before the first file. What comes after the last transaction that ended in a file is left
    out: it is still being written, or was cut off. Raises TruncatedEvent if the first file ends
    inside its first event.
    """
    SeriesTransport(series).peek()
    return SplitPlanner(catalogue, hold=False, target_bytes=target_bytes).plan(series)


def _left_out_in(rollbacks: Rollbacks, split: Split) -> tuple[tuple[int, int], ...]:
    """The ranges of a split that were rolled back."""
    here = [(start, end) for file, start, end in rollbacks.ranges if file == split.file]
    return overlapping(here, split.start, split.end)


def is_written(log: LogFile) -> bool:
    """Whether a file's first event says that it is being written, or was when a server crashed."""
    with Blocks(log) as blocks:
        blocks.check_magic()
        return bool(blocks.file_flags() & EventFlag.IN_USE)


def whole_file(source: str, log: LogFile, catalogue: Catalogue) -> Split:
    """A split of a whole file; if it is being written, up to its last whole event."""
    if not is_written(log):
        return Split(source, log, 4, log.size, catalogue)
    scan = Scan(source, log, catalogue.copy(), Rollbacks(), TO_THE_END, 4)
    try:
        scan.run()
    except LogError:  # whoever reads the split raises it as well
        return Split(source, log, 4, log.size, catalogue)
    return Split(source, log, 4, scan.whole, catalogue)
