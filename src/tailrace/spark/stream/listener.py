"""Streaming queries over format ``binlog``, seen while they run: rate, lag and position.

    spark.streams.addListener(tailrace.spark.listener())

A line a batch on stderr, or a `StreamMoment` to a function of the user's.
"""

from __future__ import annotations

import ast
import json
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from tailrace.errors import PipelineError
from tailrace.printable import printable, size
from tailrace.spark.input.lag import Rate, SourceMoment
from tailrace.spark.input.offset import Offset

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )


@dataclass(frozen=True)
class StreamMoment:
    """A batch of a streaming query, or that nothing is new (``rows`` 0, the batch as before).

    ``query`` is its name, else its id. ``rows`` and ``read`` (bytes of log) are the batch's,
    ``seconds`` what it took; rates are a second, over the last 10 seconds or the last batch.
    ``sources`` are the logs that the query reads, named by their number among its sources: where it
    is, and what that log had behind it when the batch was planned.
    """

    query: str
    batch: int
    rows: int
    read: int
    seconds: float
    row_rate: float
    byte_rate: float
    sources: tuple[SourceMoment, ...]

    def __str__(self) -> str:
        """One line."""
        places = "; ".join(_place(source) for source in self.sources)
        rates = f"{self.row_rate:,.0f} rows/s  {size(round(self.byte_rate))}/s"
        return f"{self.query}: batch {self.batch}, {places}  {rates}"


class BinlogListener(StreamingQueryListener):
    """Tells of each batch of each query that has a source of format ``binlog``, and of no other.

    Spark calls it from a thread of its own. What ``on_moment`` raises, Spark logs and passes over.
    """

    def __init__(self, on_moment: Callable[[StreamMoment], None]) -> None:
        super().__init__()
        self._on_moment = on_moment
        self._rates: dict[str, Rate] = {}
        self._latest: dict[str, StreamMoment] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """A batch is done, or nothing was new."""
        progress = event.progress
        offsets = [
            (place, end)
            for place, source in enumerate(progress.sources)
            if (end := _offset(source.endOffset)) is not None
        ]
        if not offsets:
            return
        run = str(progress.runId)
        rows = progress.numInputRows
        is_new = rows or any(each.startOffset != each.endOffset for each in progress.sources)
        read = sum(offset.read or 0 for _, offset in offsets) if is_new else 0
        seconds = progress.durationMs.get("triggerExecution", progress.batchDuration) / 1000
        row_rate, byte_rate = self._rates.setdefault(run, Rate()).add(seconds, rows, read)
        moment = StreamMoment(
            progress.name or str(progress.id),
            progress.batchId,
            rows,
            read,
            seconds,
            row_rate,
            byte_rate,
            tuple(
                SourceMoment(
                    str(place),
                    str(offset.position),
                    0 if offset.behind is None else offset.behind.bytes,
                    0.0 if offset.behind is None else offset.behind.seconds,
                    offset.gtids,
                )
                for place, offset in offsets
            ),
        )
        self._latest[run] = moment
        self._on_moment(moment)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing was new for a while."""
        run = str(event.runId)
        if (latest := self._latest.get(run)) is None:
            return
        row_rate, byte_rate = self._rates[run].add(0.0, 0, 0)
        sources = tuple(replace(each, lag_bytes=0, lag_seconds=0.0) for each in latest.sources)
        nothing: dict[str, Any] = {"rows": 0, "read": 0, "seconds": 0.0, "sources": sources}
        self._on_moment(replace(latest, row_rate=row_rate, byte_rate=byte_rate, **nothing))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Forget it."""
        self._rates.pop(str(event.runId), None)
        self._latest.pop(str(event.runId), None)


def listener(on_moment: Callable[[StreamMoment], None] | None = None) -> BinlogListener:
    """What to give to ``spark.streams.addListener``: lines on stderr, or calls of ``on_moment``."""
    return BinlogListener(on_moment or _print)


def _print(moment: StreamMoment) -> None:
    print(printable(str(moment)), file=sys.stderr, flush=True)  # noqa: T201 - what was asked for


def _offset(text: Any) -> Offset | None:
    """An offset of our source; None for those of others.

    Spark Connect gives the text of a dictionary for it.
    """
    for read in (json.loads, ast.literal_eval):
        with suppress(TypeError, ValueError, SyntaxError, AttributeError, PipelineError):
            return Offset.of(read(text))
    return None


def _place(source: SourceMoment) -> str:
    lag = "up to date"
    if source.lag_bytes or source.lag_seconds:
        lag = f"{source.lag_seconds:.1f} s, {size(source.lag_bytes)} behind"
    return f"{source.position}  {lag}"
