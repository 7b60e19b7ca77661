"""Splits of logs: of a series, of one that grows (each byte is gone through once), of a file."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace.columns.read.blocks import Blocks
from tailrace.columns.read.scan import FLAGS_AT, Scan, is_in_use
from tailrace.columns.read.split import Split, overlapping
from tailrace.constants import HEADER_SIZE, MAGIC, EventFlag
from tailrace.errors import LogError, PipelineError
from tailrace.events.header import EventHeader
from tailrace.log import Log
from tailrace.position import Position
from tailrace.schema.catalogue import Catalogue
from tailrace.transactions import State
from tailrace.transactions.committed import Committed
from tailrace.transactions.rollbacks import TO_THE_END, Rollbacks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.storage import LogFile, LogSeries

LARGEST_SPLIT: Final = 64 << 20
SMALLEST_SPLIT: Final = 8 << 20
"""What is cut smaller costs more to begin than it saves."""


class SplitPlanner:
    """Plans the splits of one series from ``after`` on (None: from its begin).

    They have about ``target_bytes``; by default as many as give each core one, within limits.
    ``catalogue`` is what is known of tables where the file of ``after`` begins, or the first file.
    With ``hold`` they end before an XA transaction that is prepared and not
    decided, also in a payload, for its rows may still be rolled back: `held` says where that is.
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
        self._rollbacks = Rollbacks(after)
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
        return self._rollbacks.delivered

    @property
    def held(self) -> Position | None:
        """Where the XA transaction begins that holds up what stands behind it."""
        return self._rollbacks.undecided if self._hold else None

    def plan(self, series: LogSeries, *, enough: int | None = None) -> list[Split]:
        """The splits of what is new and whole in the series.

        With ``enough`` no further file is gone through once there are splits of so many bytes.
        Raises `BoundaryError` where rows that were given were rolled back, `PipelineError` where
        the file that was gone through last is not in the series any more.
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
            if self._rollbacks.unmatched:
                self._look_into_payloads(series)
            splits += self._taken()
            if enough is not None and sum(each.end - each.start for each in splits) >= enough:
                break
        found = [replace(split, left_out=_left_out_in(self._rollbacks, split)) for split in splits]
        if found:
            self._rollbacks.deliver(Position(found[-1].file, found[-1].end))
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
            self._rollbacks,
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
        found = Committed(self.end)
        found.feed_all(Log(series, verify_checksums=False, expand_payloads=False))
        self._rollbacks.ranges = found.rollbacks.ranges
        self._rollbacks.unmatched = False


def plan_splits(
    series: LogSeries, *, target_bytes: int = LARGEST_SPLIT, catalogue: Catalogue | None = None
) -> list[Split]:
    """Cut a series into splits of about ``target_bytes`` each; a file has at least one.

    A transaction of more bytes is cut inside, where the rows of a statement begin; what a payload
    holds compressed is not. Only headers and statements are looked at. ``catalogue`` is what is
    known of tables before the first file. What lies behind the last transaction that ended in a
    file is left out: it is still being written, or was cut off.
    """
    return SplitPlanner(catalogue, hold=False, target_bytes=target_bytes).plan(series)


def _left_out_in(rollbacks: Rollbacks, split: Split) -> tuple[tuple[int, int], ...]:
    """The ranges of a split that were rolled back."""
    here = [(start, end) for file, start, end in rollbacks.ranges if file == split.file]
    return overlapping(here, split.start, split.end)


def is_written(log: LogFile) -> bool:
    """Whether a file's first event says that it is being written, or was when a server crashed."""
    with Blocks(log) as blocks:
        blocks.check_magic()
        return is_in_use(blocks)


def whole_file(source: str, log: LogFile, catalogue: Catalogue) -> Split:
    """The split that is all of a file. Where that is being written, up to its last whole event."""
    if log.size <= len(MAGIC) + FLAGS_AT or not is_written(log):
        return Split(source, log, 4, log.size, catalogue)
    scan = Scan(source, log, catalogue.copy(), Rollbacks(), TO_THE_END, 4)
    try:
        scan.run()
    except LogError:  # whoever reads the split meets it, too
        return Split(source, log, 4, log.size, catalogue)
    end = log.size if _is_damaged(log, scan.whole) else scan.whole
    return Split(source, log, 4, end, catalogue)


def _is_damaged(log: LogFile, offset: int) -> bool:
    """Whether the event that is only begun there cannot be one that is being written: its header
    says that it ends elsewhere.
    """
    if log.size - offset < HEADER_SIZE:
        return False
    with Blocks(log) as blocks:
        header = EventHeader.parse(b"".join(blocks.read(offset, offset + HEADER_SIZE)))
        flags = b"".join(blocks.read(len(MAGIC) + FLAGS_AT, len(MAGIC) + FLAGS_AT + 1))
    relay = bool(flags[0] & EventFlag.RELAY_LOG)
    return not relay and header.log_pos not in {0, (offset + header.length) & 0xFFFFFFFF}
