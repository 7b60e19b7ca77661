"""Where reading a series of files as batches begins, and what must be known there."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Self

from tailrace.columns.read.committed import committed_in
from tailrace.columns.read.scan import Scan
from tailrace.columns.read.split import check_names
from tailrace.errors import UsageError
from tailrace.gtid import GtidState
from tailrace.position import Position
from tailrace.storage import EventReader
from tailrace.transaction import State
from tailrace.transaction.committed import TO_THE_END, Range, Rollbacks
from tailrace.transports import SeriesTransport
from tailrace.transports.gtids import already_read, locate_gtids, read_after

if TYPE_CHECKING:
    from tailrace.schema.catalogue import Catalogue
    from tailrace.selection import Start
    from tailrace.storage import LogFile, LogSeries


@dataclass
class Begin:
    """Where reading a series begins: ``catalogue`` has the tables known at ``position``.

    ``read_already`` are ranges to leave out after it: GTIDs that were read may have gaps.
    """

    series: LogSeries
    position: Position
    catalogue: Catalogue
    read_already: list[Range] = field(default_factory=list)
    _not_committed: list[Range] | None = None

    @classmethod
    def of(cls, series: LogSeries, start: Start | None, known: Catalogue) -> Self:
        """A start's position in a series; ``known`` are the user's definitions.

        Raises UsageError for a start that is not there, GtidError for GTIDs that the logs do not
        hold, StorageError for names that are not UTF-8.
        """
        check_names(series)
        if start is None or start == "oldest":
            return cls(series, Position(series.files[0].name, 4), known.copy())
        if series.files[0].joined:
            raise UsageError(
                f"{series.name}: what comes through a pipe is read as batches from its start only"
            )
        left: list[Range] = []
        if isinstance(start, GtidState):
            read = already_read(start)
            position = locate_gtids(series.files, read)
            left = read_after(series.files, position, read)
        else:
            position = SeriesTransport(series).locate(start)
        return cls(series, position, known_at(series, position, known), left)

    @property
    def is_whole(self) -> bool:
        """Whether it is the start of the whole series, and nothing is left out."""
        return self.position == Position(self.series.files[0].name, 4) and not self.read_already

    @property
    def files(self) -> tuple[LogFile, ...]:
        """The files from the position on."""
        names = [log.name for log in self.series.files]
        return self.series.files[names.index(self.position.file) :]

    def left_out(self, file: str) -> list[tuple[int, int]]:
        """The ranges of a file that were rolled back or already read.

        The series is scanned once for all files, and again for the last one, which may have grown.
        """
        last = self.series.files[-1].name
        if self._not_committed is None or file == last:
            self._not_committed = committed_in(self.series).left_out
        ranges = self._not_committed + self.read_already
        return sorted((start, end) for name, start, end in ranges if name == file)


def known_at(series: LogSeries, place: Position, known: Catalogue) -> Catalogue:
    """The tables known at a position of a series, by the DDL before it.

    Raises StorageError where no event begins there.
    """
    catalogue = known.copy()
    (log,) = (log for log in series.files if log.name == place.file)
    for _ in islice(EventReader(log, start=place.offset), 2):
        pass  # the iterator raises if no event begins at the position
    state = int(State.OUTSIDE)
    for log in series.files:
        here = log.name == place.file
        start = place.offset if here else TO_THE_END
        scan = Scan(series.name, log, catalogue, Rollbacks(), TO_THE_END, start, state=state)
        splits = scan.run()
        if here:
            return splits[0].catalogue if splits else catalogue
        state = scan.state
    return catalogue
