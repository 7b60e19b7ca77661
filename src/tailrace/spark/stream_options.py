"""The options that only a stream of the data source ``binlog`` has."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from tailrace.errors import GtidError, UsageError
from tailrace.gtid import GtidList, GtidSet
from tailrace.position import Position

if TYPE_CHECKING:
    from collections.abc import Mapping

STREAMING: Final = frozenset(
    {"start", "maxbytespertrigger", "maxtransactionspertrigger", "spool", "index", "schemachange"}
)
"""Their names, in lower case."""
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*")
_POSITION: Final = re.compile(r"[^:,]*\.\d+:\d+")
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time to begin at: microseconds UTC."""

    microseconds: int


Start = Literal["oldest", "now"] | Position | GtidSet | GtidList | Moment


@dataclass(frozen=True)
class StreamOptions:
    """What is asked for of a stream; ``spool`` and ``index`` are folders.

    ``schema_change`` says what happens where the one table of a query gets other columns.
    """

    start: Start = "oldest"
    max_bytes: int | None = None
    max_transactions: int | None = None
    spool: str | None = None
    index: str | None = None
    schema_change: Literal["error", "ignore"] = "error"

    @classmethod
    def of(cls, given: Mapping[str, str]) -> StreamOptions:
        """Understand what was given to ``.option(…)``; raises UsageError, GtidError."""
        options = {name.lower(): value for name, value in given.items()}
        return cls(
            parse_start(options.get("start", "oldest")),
            _count(options, "maxBytesPerTrigger"),
            _count(options, "maxTransactionsPerTrigger"),
            options.get("spool"),
            options.get("index"),
            choice(options, "schemaChange", ("error", "ignore")),
        )


def refuse_streaming(given: Mapping[str, str]) -> None:
    """Raise UsageError where a batch read is given options of streams."""
    if found := sorted(name for name in given if name.lower() in STREAMING):
        raise UsageError(f"option {found[0]} is for spark.readStream: a batch reads all there is")


def parse_start(text: str) -> Start:
    """``oldest``, ``now``, ``binlog.000003:1234``, a set of GTIDs, or a time with its zone.

    Raises UsageError, GtidError.
    """
    text = text.strip()
    if text.lower() == "oldest":
        return "oldest"
    if text.lower() == "now":
        return "now"
    if _TIME.fullmatch(text):
        return _moment(text)
    if _POSITION.fullmatch(text):
        return Position.parse(text)
    if text.lower().startswith("gtid:"):
        text = text[len("gtid:") :]
    elif _DAY.fullmatch(text):
        raise UsageError(
            f"option start: {text} may be a day or a GTID: write {text}T00:00:00Z or gtid:{text}"
        )
    try:
        return GtidSet.parse(text) if ":" in text or not text else GtidList.parse(text)
    except GtidError as error:
        raise UsageError(
            f"option start is oldest, now, a position (binlog.000003:1234), a set of GTIDs or a"
            f" time (2026-11-21T12:00:00Z), and not {text!r}: {error}"
        ) from None


def _moment(text: str) -> Moment:
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"option start is no time: {error}") from None
    if time.tzinfo is None:
        raise UsageError(f"option start: {text} says no zone: write {text}Z for UTC, or +02:00")
    return Moment((time - _EPOCH) // dt.timedelta(microseconds=1))


def choice(options: Mapping[str, str], name: str, values: tuple[str, ...]) -> Any:
    """One of the values that an option may have, the first by default; raises UsageError."""
    value = options.get(name.lower(), values[0]).lower()
    if value not in values:
        raise UsageError(f"option {name} is {' or '.join(values)}, and not {value!r}")
    return value


def _count(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or not int(text):
        raise UsageError(f"option {name} is a number above 0, and not {text!r}")
    return int(text)
