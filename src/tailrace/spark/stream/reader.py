"""The streaming side of the data source ``binlog``: which part of the log is the next batch.

One instance lives in a process of the driver's as long as the query runs; it keeps the index of the
log (`Backlog`) and, of a server, the receiver. Tasks get splits and know nothing of it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader

from tailrace.errors import PipelineError
from tailrace.schema.user_schema import load
from tailrace.spark.input.backlog import Limits
from tailrace.spark.input.growing_log import open_log
from tailrace.spark.input.header_index import INNER_BYTES
from tailrace.spark.input.offset import Offset
from tailrace.spark.stream.reading import SplitPartition, read_changes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition

    from tailrace.position import Position
    from tailrace.spark.input.growing_log import GrowingLog
    from tailrace.spark.stream.options import Options

try:
    from pyspark.sql.streaming.datasource import (  # type: ignore[import-not-found] # from 4.2 on
        ReadAllAvailable,
        ReadMaxBytes,
        SupportsTriggerAvailableNow,
    )

    BASES: tuple[type, ...] = (SupportsTriggerAvailableNow,)
except ImportError:
    BASES = ()

Json = dict[str, Any]
_ALL = 1 << 62
_ONE_BATCH = (
    "tailrace: with trigger(availableNow=True) Spark before 4.2 takes one batch of"
    " maxBytesPerTrigger and maxTransactionsPerTrigger and ends: leave these options out there"
)
_FULL = (
    "tailrace: the server has more than option spoolLimit allows at once: with"
    " trigger(availableNow=True) Spark before 4.2 takes one batch of it and ends"
)


class StreamReader(DataSourceStreamReader, *BASES):  # type: ignore[misc]
    """Gives Spark offsets, and the splits between two of them.

    Before Spark 4.2 Spark does not pass the offset to resume from. It is that of the last batch
    planned, also after a restart, as Spark then has the last batch planned again at once. After the
    ``_seq`` ``since`` the one table of ``options`` must have the columns of ``target``; None: it
    need not.
    """

    def __init__(self, options: Options, target: pa.Schema, since: int | None = None) -> None:
        self._options = options
        self._target = target
        self._since = since if options.schema_change == "error" else None
        self._log: GrowingLog | None = None
        self._first: Json | None = None
        self._place: Json | None = None
        self._until: Position | None = None
        self._limits = Limits(options.max_bytes_per_trigger, options.max_transactions_per_trigger)
        self._to_say = None if BASES or self._limits == Limits() else _ONE_BATCH

    # --- what Spark calls ------------------------------------------------------------------------

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins, found out once."""
        if self._first is None:
            log = self._opened
            position = log.begin()
            self._first = log.backlog.offset(log.look(position), position, position).json()
        return self._first

    def latestOffset(self, start: Json | None = None, limit: Any = None) -> Json:  # noqa: N802
        """Where the next batch ends; the offset that it begins at where there is nothing new."""
        if self._to_say is not None:
            print(self._to_say, file=sys.stderr, flush=True)  # noqa: T201 - Spark hands it on
            self._to_say = None
        given = start if start is not None else self._place
        fresh = given is None
        if given is None:
            given = self.initialOffset()
        first = Offset.of(given)
        position = first.position
        log = self._opened
        limits = Limits() if type(limit).__name__ == "ReadAllAvailable" else self._limits
        series, end = log.next_end(first, limits, fresh=fresh)
        if fresh and log.is_full and not BASES:
            print(_FULL, file=sys.stderr, flush=True)  # noqa: T201 - as above
        if self._until is not None:
            end = min(end, max(self._until, position))
        if end == position:
            return given
        since = position if first.since == position else None
        return log.backlog.offset(series, end, since, after=position).json()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """The splits between two offsets, the same whenever it is asked."""
        self._place = end
        if start == end:
            return []
        first, last = Offset.of(start), Offset.of(end)
        begin = last.since or first.position
        if last.position < begin:
            raise PipelineError(f"the checkpoint has a batch from {begin} back to {last.position}")
        log = self._opened
        series = log.look(begin)
        if begin == first.position:
            first.check(series)
        last.check(series)
        log.backlog.reach(series, begin, last.position)
        splits = log.backlog.splits(series, begin, last.position, self._options.split)
        return [SplitPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes of a split, as Arrow batches."""
        return read_changes(partition, self._options, self._target, (), self._since)

    def commit(self, end: Json) -> None:
        """What is before an offset will not be read again."""
        place = Offset.of(end).position
        if self._log is not None:
            self._log.committed(place)

    def stop(self) -> None:
        """The query is over."""
        if self._log is not None:
            self._log.close()

    # --- what Spark calls from 4.2 on ------------------------------------------------------------

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's name
        """What the options allow a batch; the transactions of it we count ourselves."""
        if self._limits == Limits():
            return ReadAllAvailable()
        return ReadMaxBytes(self._options.max_bytes_per_trigger or _ALL)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """What the log has by now is all that the query reads."""
        self._until = self._opened.backlog.whole(self._opened.upto_now())

    def reportLatestOffset(self) -> Json | None:  # noqa: N802 - Spark's name
        """How far the log goes, for the query's progress."""
        if self._place is None or self._log is None:
            return None
        series = self._log.look(Offset.of(self._place).position)
        backlog = self._log.backlog
        return None if backlog.end is None else backlog.offset(series, backlog.end).json()

    # --- the log ---------------------------------------------------------------------------------

    @property
    def _opened(self) -> GrowingLog:
        if self._log is None:
            asked = self._options
            self._log = open_log(
                asked.path,
                asked.keyring,
                asked.start,
                asked.spool,
                asked.spool_limit,
                given=() if asked.schema is None else load(asked.schema),
                index=asked.index,
                inner=min(asked.split, INNER_BYTES),
                lowers_names=asked.lowers_names,
            )
        return self._log
