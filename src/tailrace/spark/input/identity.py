"""Whether a source's log is still the one that was read, by what a lake or a checkpoint knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.spark.input.offset import mark_of
from tailrace.storage.identity import check_read, digests

if TYPE_CHECKING:
    from tailrace.spark.input.offset import Offset
    from tailrace.spark.manifest.manifest import SourceState
    from tailrace.storage import LogSeries

_LAKE: Final = "bring the log's files back, or create a new lake"
QUERY: Final = "copy the data again, and begin a new query with a checkpoint of its own"
"""What to do about a streaming query whose log is gone."""


def check_source(series: LogSeries, state: SourceState) -> None:
    """Raise `LogPurged`, `LogReset` where a log is not the one that a lake has read."""
    check_read(
        series,
        state.position,
        _LAKE,
        lambda log: digests(log, state.offset) == (state.head, state.tail),
        state.files,
    )


def check_offset(series: LogSeries, offset: Offset) -> None:
    """Raise `LogPurged`, `LogReset` where a log is not the one that a query has read."""
    check_read(
        series,
        offset.position,
        QUERY,
        lambda log: not offset.mark or mark_of(log, offset.position.offset) == offset.mark,
    )
