"""Offsets of a streaming query: text that says how far the log was read, and of which log."""

from __future__ import annotations

import datetime as dt
import hashlib
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from tailrace.constants import MAGIC
from tailrace.errors import GtidError, PipelineError, UsageError
from tailrace.position import Position
from tailrace.spark.input.lag import Lag
from tailrace.storage.identity import check_read, digests
from tailrace.storage.streams.base import read_exactly

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.storage import LogFile, LogSeries

_DAMAGE: Final = (
    *(KeyError, TypeError, ValueError, AttributeError, ArithmeticError),
    *(UsageError, GtidError),
)
QUERY: Final = "copy the data again, and begin a new query with a checkpoint of its own"
"""What to do about a streaming query whose log is gone."""
_MARK: Final = 16
_LENGTH_AT: Final = len(MAGIC) + 9
"""Where the length of a log's first event stands, 4 bytes."""


@dataclass(frozen=True, slots=True)
class Offset:
    """A place in a log, always where a transaction ends.

    ``gtids`` are those up to there as the log has them, None where it has none. ``mark`` is a
    digest of the bytes around it, by which the log is known again. ``since`` is where the query
    began, in offsets that may be its first. Spark asks again for the first offset of a query that
    dies in its first batch, and ``now`` is another place then. ``read`` is how many bytes of log
    are between it and the offset before. ``behind`` is what the log had after it when the batch was
    planned, None: nothing. Both are for monitoring (`tailrace.spark.stream.listener`).
    """

    position: Position
    gtids: str | None
    mark: str
    since: Position | None = None
    read: int | None = None
    behind: Lag | None = None

    def check(self, series: LogSeries) -> None:
        """Raise `LogPurged`, `LogReset` where a log is not the one that a query has read."""
        check_read(
            series,
            self.position,
            QUERY,
            lambda log: not self.mark or mark_of(log, self.position.offset) == self.mark,
        )

    def json(self) -> dict[str, Any]:
        """As Spark keeps it in the checkpoint: equal offsets give equal text."""
        found: dict[str, Any] = {"file": self.position.file, "position": self.position.offset}
        if self.gtids is not None:
            found["gtid"] = self.gtids
        found["mark"] = self.mark
        if self.since is not None:
            found["since"] = str(self.since)
        if self.read is not None:
            found["read"] = self.read
        if self.behind is not None:
            found["behind"] = {"bytes": self.behind.bytes}
            if (second := self.behind.since) is not None:
                time = dt.datetime.fromtimestamp(int(second), dt.UTC)
                found["behind"]["since"] = time.isoformat()
        return found

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """What `json` made. Raises `PipelineError` for what is no offset of ours."""
        try:
            since, behind = given.get("since"), given.get("behind")
            return cls(
                Position(str(given["file"]), int(given["position"])),
                given.get("gtid"),
                str(given["mark"]),
                None if since is None else Position.parse(since),
                given.get("read"),
                None if behind is None else Lag(int(behind["bytes"]), _second(behind.get("since"))),
            )
        except _DAMAGE as error:
            raise PipelineError(
                f"the checkpoint has the offset {given!r}, which is none of format binlog"
                f" ({error}): begin the query with another checkpoint"
            ) from None


def _second(text: str | None) -> int | None:
    return None if text is None else int(dt.datetime.fromisoformat(text).timestamp())


def mark_of(log: LogFile, offset: int) -> str:
    """A digest of a log's first event, and of its bytes before ``offset``; "" where not even that
    event is there.

    Raises StorageError where the log cannot be read up to there.
    """
    if log.size < _LENGTH_AT + 4:
        return ""
    with closing(log.open()) as file:
        size = int.from_bytes(read_exactly(file, _LENGTH_AT, 4), "little")
    first = len(MAGIC) + size
    if log.size < max(first, offset):
        return ""
    head, tail = digests(log, max(offset, first))
    return hashlib.sha256(f"{head} {tail}".encode()).hexdigest()[:_MARK]
