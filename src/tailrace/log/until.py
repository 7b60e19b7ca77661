"""Where reading a series of files ends, found before it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.constants import MAGIC
from tailrace.errors import UsageError
from tailrace.log.events import awaited_of
from tailrace.position import Position
from tailrace.storage import EventReader, LogSeries
from tailrace.transports import SeriesTransport, check_among
from tailrace.transports.until import FARTHEST, EndFinder

if TYPE_CHECKING:
    from tailrace.selection import Start, Until


def end_in(
    series: LogSeries, until: Until | None, start: Start | None, begin: Position
) -> Position | None:
    """Where reading a series from ``begin`` ends; None for its present end.

    Its transactions' first events are read up to there. Raises UsageError for a position in a file
    that the series does not have, GTIDs that are not in it, and for a pipe.
    """
    if until is None or until == "now":
        return None
    if series.files[0].joined:
        raise UsageError(
            f"{series.name}: what comes through a pipe is read as batches to its end only"
        )
    names = [file.name for file in series.files]
    at = begin
    if isinstance(until, Position):
        check_among(until, names, series.name)
        if until <= begin:
            return begin
        at = begin if until.file == begin.file else Position(until.file, len(MAGIC))
    finder = EndFinder(until, awaited_of(until, start, begin, SeriesTransport(series)))
    files = series.files[names.index(at.file) :]
    if isinstance(until, Position):
        files = files[:1]  # no transaction of an earlier file reaches into it
    records = (
        (file.name, offset, raw)
        for file in files
        for offset, raw in EventReader(file, start=at.offset if file is files[0] else None)
    )
    found = finder.find(records)
    if found is None:
        finder.check_met(series.name, files[-1].name)
        if isinstance(until, Position):
            return Position(until.file, FARTHEST)
    return found
