"""The resume point in a source's log, and whether it still is the log that was read before."""

from __future__ import annotations

import hashlib
from contextlib import closing
from typing import TYPE_CHECKING, Final

from tailrace.errors import KeyMissing, PipelineError, SchemaError, StorageError
from tailrace.schema.catalogue_json import from_json, to_json
from tailrace.spark.manifest.manifest import SourceState
from tailrace.storage import LogSeries
from tailrace.storage.head import lasting

if TYPE_CHECKING:
    from tailrace.position import Position
    from tailrace.schema.catalogue import Catalogue
    from tailrace.spark.taken import Taken
    from tailrace.storage import LogFile

_DIGESTED: Final = 4096


def resume(series: LogSeries, state: SourceState) -> tuple[LogSeries, Position, Catalogue]:
    """Where to resume a source that was read up to ``state``.

    The files from the last one that was read on, where to begin in it, and the schema history at
    its start. So the files before may be purged, and are not gone through again. Raises
    `PipelineError` where its log is not that which was read: a file is gone, has shrunk, or has
    other bytes.
    """
    files = {log.name: log for log in series.files}
    for name, size in state.files.items():
        if (log := files.get(name)) is not None and log.size != size:
            raise _changed(log, f"it had {size} bytes and has {log.size}")
    log = files.get(state.file)
    if log is None:
        raise PipelineError(
            f"source {series.name}: {state.file} is gone, which the lake has up to {state.offset}; "
            "what was written to it since is missing: bring the file back, or create a new lake"
        )
    if log.size < state.offset:
        raise _changed(log, f"it was read up to {state.offset} and has {log.size} bytes")
    if digests(log, state.offset) != (state.head, state.tail):
        raise _changed(log, f"its bytes up to {state.offset} are not those that were read")
    left = series.files[series.files.index(log) :]
    try:
        catalogue = from_json(state.tables)
    except SchemaError as error:
        raise PipelineError(f"source {series.name}: the lake's manifest: {error}") from error
    return LogSeries(series.name, left), state.position, catalogue


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


def grown(series: LogSeries, state: SourceState | None) -> int:
    """Bytes that the log's files have and the lake has not, at most."""
    total = 0
    for log in series.files:
        if state is None or log.name not in state.files:
            total += log.size
    if state is not None and any(log.name == state.file for log in series.files):
        total -= state.offset
    return total


def digests(log: LogFile, offset: int) -> tuple[str, str]:
    """Digests of a log's first bytes, and of the last ones before ``offset``; of the plain log."""
    count = min(_DIGESTED, offset)
    try:
        with closing(log.open()) as file:
            head, tail = lasting(file, 0, count), lasting(file, offset - count, count)
    except StorageError as error:
        if isinstance(error, KeyMissing):
            raise
        raise PipelineError(str(error)) from error
    return hashlib.sha256(head).hexdigest(), hashlib.sha256(tail).hexdigest()


def _changed(log: LogFile, how: str) -> PipelineError:
    return PipelineError(
        f"{log.path} is not the log that the lake was made from: {how}; "
        "create a new lake, or bring the log back"
    )
