"""The resume point in a source's log, and whether it still is the log that was read before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.errors import PipelineError, SchemaError
from tailrace.schema.catalogue_json import from_json, to_json
from tailrace.spark.manifest.manifest import SourceState
from tailrace.storage import LogSeries
from tailrace.storage.identity import check_read, digests

if TYPE_CHECKING:
    from tailrace.position import Position
    from tailrace.schema.catalogue import Catalogue
    from tailrace.spark.input.taken import Taken
    from tailrace.storage import LogFile

_REMEDY: Final = "bring the log's files back, or create a new lake"


def resume(series: LogSeries, state: SourceState) -> tuple[LogSeries, Position, Catalogue]:
    """Where to resume a source that was read up to ``state``.

    The files from the last one that was read on, where to begin in it, and the schema history at
    its start. So the files before may be purged, and are not gone through again. Raises what
    `check_source` raises, and `PipelineError` where the schema history is damaged.
    """
    log = check_source(series, state)
    left = series.files[series.files.index(log) :]
    try:
        catalogue = from_json(state.tables)
    except SchemaError as error:
        raise PipelineError(f"source {series.name}: the lake's manifest: {error}") from error
    return LogSeries(series.name, left), state.position, catalogue


def check_source(series: LogSeries, state: SourceState) -> LogFile:
    """The file in which a source was read up to ``state``.

    Raises `LogPurged`, `LogReset` where its log is not the one that was read.
    """
    return check_read(
        series,
        state.position,
        _REMEDY,
        lambda log: digests(log, state.offset) == (state.head, state.tail),
        state.files,
    )


def state_after(taken: Taken, before: SourceState | None) -> SourceState | None:
    """How far a source is read once all that was taken from it is in the lake."""
    series, splits = taken.series, taken.splits
    if not splits:
        return before
    last = splits[-1]
    sizes = dict(before.files) if before is not None else {}
    for log in series.files:
        if log.name == last.file:
            head, tail = digests(log, last.end)
            first = next(
                (each for each in splits if each.file == log.name and each.start == 4), None
            )
            if first is not None or before is None:
                tables = to_json((first or last).catalogue)
            else:
                tables = before.tables
            return SourceState(log.name, last.end, sizes, head, tail, tables, seen=taken.seen)
        sizes[log.name] = log.size
    raise PipelineError(f"source {series.name} has no file {last.file}, of which it has a split")
