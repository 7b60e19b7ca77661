"""Which transactions of a log are wanted: those between a start and an end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, Self

from tailrace.constants import MAGIC
from tailrace.errors import GtidError, UsageError
from tailrace.gtid import Gtid, GtidList, GtidSet, GtidState, MariadbGtid
from tailrace.log_name import file_number
from tailrace.position import Position
from tailrace.times import Time

if TYPE_CHECKING:
    from datetime import tzinfo


_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME: Final = re.compile(r"\d{4}-?\d\d-?\d\d[T ]\d", re.ASCII)
_POSITION: Final = re.compile(r"[^,]+:\d+", re.ASCII)
_MARIADB_GTIDS: Final = re.compile(r"\d+-\d+-\d+\s*(,|\Z)", re.ASCII)
_MYSQL_GTIDS: Final = re.compile(
    r"\{?[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}\}?\s*:",
    re.ASCII | re.IGNORECASE,
)
_ONE_GTID: Final = re.compile(r"[^:,]+(:[^:,\d][^:,]*)?:\s*\d+", re.ASCII)
_ENDS: Final = (
    "now, a position (binlog.000003:1234), a file, a time (2026-11-21T09:30:00) or GTIDs"
    " (uuid:1-77, 0-1-77)"
)
_STARTS: Final = f"oldest, {_ENDS}"


Start = Literal["oldest", "now"] | Position | GtidState | Time
"""Where reading begins: with the oldest log; at the log's present end; at a position where a
transaction ended; after GTIDs that were already read, with the transactions that are not among them
(for MariaDB's, in each domain, after the one that is named); with the first transaction that was
committed at a time or later."""
Bound = str | datetime | Time | Position | Gtid | MariadbGtid | GtidState
"""A `Start` or an `Until` as a caller gives it: a position, a time, GTIDs, or their text."""
Until = Literal["now"] | Position | GtidState | Time
"""Where reading ends: before the first transaction that begins at a position or after it, or was
committed at a time or later; once all of some GTIDs were read; at the present end."""


def start_of(given: object, name: str = "start") -> Start | None:
    """The start that a caller gave as an object or as text; None stays None.

    ``oldest``, ``now``, ``binlog.000003:1234``, ``binlog.000003`` (its first event), GTIDs of
    either flavour (with or without the prefix ``gtid:``), or a time in ISO-8601, which is UTC if it
    names no zone. One GTID alone means all of its source up to it: ``uuid:77`` is ``uuid:1-77``.
    Raises UsageError, in which ``name`` is the argument's name.
    """
    found = _bound(given, name, _STARTS)
    if isinstance(found, Gtid):
        return GtidSet({(found.uuid, found.tag): [(1, found.gno + 1)]})
    return found


def until_of(given: object, name: str = "until") -> Until | None:
    """The same for an end, where one GTID alone is just that one. Raises UsageError."""
    found = _bound(given, name, _ENDS)
    if found == "oldest":
        raise UsageError(f"{name}: oldest is the start of a log: nothing comes before it")
    if isinstance(found, Gtid):
        return GtidSet({(found.uuid, found.tag): [(found.gno, found.gno + 1)]})
    return found


def check_follow(until: Until | None) -> None:
    """Raise UsageError for the end of a log that is followed, if it is its present end."""
    if until == "now":
        raise UsageError("until: a followed log has no present end; leave follow out")


def gtids_of(text: str, name: str) -> GtidSet | frozenset[MariadbGtid]:
    """The transactions that a set of GTIDs names: ``uuid:1-5:8``, or MariaDB's, one by one.

    Raises UsageError, in which ``name`` is the argument's name.
    """
    try:
        if _MARIADB_GTIDS.match(text.strip()):
            return frozenset(MariadbGtid.parse(each) for each in text.split(","))
        found = GtidSet.parse(text)
    except GtidError as error:
        raise UsageError(f"{name}: {error}") from None
    if not found:
        raise UsageError(f"{name} is GTIDs (uuid:1-77, or MariaDB's 0-1-77,0-1-79), not {text!r}")
    return found


def one_start(stated: Start | None, given: Start | None, source: str) -> Start | None:
    """The start of a source whose URL may state one, if another may be given separately.

    Raises UsageError if the two differ.
    """
    if stated is not None and given is not None and stated != given:
        raise UsageError(
            f"{source}: its URL says to begin at {start_text(stated)}, and {start_text(given)} is"
            " given: leave one of the two out"
        )
    return stated if given is None else given


def start_text(start: Start) -> str:
    """A start on one line."""
    if isinstance(start, GtidState):
        return f"gtid:{start.text()}"
    return str(start)


def _bound(given: object, name: str, forms: str) -> Start | Gtid | None:
    if isinstance(given, str):
        return _parsed(given.strip(), name, forms)
    if isinstance(given, MariadbGtid):
        return GtidList([given])
    if isinstance(given, datetime):
        return _time(given, str(given), name, zone=None)
    if given is None or isinstance(given, Position | Gtid | GtidState | Time):
        return given
    raise UsageError(f"{name} is {forms}, and not {given!r}")


def _parsed(text: str, name: str, forms: str) -> Start | Gtid:
    word = text.lower()
    if word in {"oldest", "now"}:
        return "oldest" if word == "oldest" else "now"
    if word.startswith("gtid:"):
        return _gtids(text[len("gtid:") :].strip(), text, name, forms)
    if _DAY.fullmatch(text):
        raise UsageError(
            f"{name}: {text} may be a day or a GTID: write {text}T00:00:00 or gtid:{text}"
        )
    if _TIME.match(text):
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise UsageError(
                f"{name}: {text!r} is not a time, such as 2026-11-21T09:30:00"
            ) from None
        return _time(time, text, name, zone=UTC)
    if _MARIADB_GTIDS.match(text) or _MYSQL_GTIDS.match(text):
        return _gtids(text, text, name, forms)
    if _POSITION.fullmatch(text):
        return Position.parse(text)
    if file_number(text) is not None and not {":", ","} & {*text}:
        return Position(text, len(MAGIC))
    raise UsageError(f"{name} is {forms}, and not {text!r}")


def _gtids(text: str, given: str, name: str, forms: str) -> GtidState | Gtid:
    try:
        if _MARIADB_GTIDS.match(text):
            return GtidList.parse(text)
        if _ONE_GTID.fullmatch(text):
            return Gtid.parse(text)
        found = GtidSet.parse(text)
    except GtidError as error:
        raise UsageError(f"{name} is {forms}, and not {given!r}: {error}") from None
    if text and not found:
        raise UsageError(f"{name}: {given!r} names no transaction")
    return found


def _time(moment: datetime, text: str, name: str, *, zone: tzinfo | None) -> Time:
    if moment.tzinfo is None:
        if zone is None:
            raise UsageError(f"{name}: the datetime {text} has no tzinfo: give it one, such as UTC")
        moment = moment.replace(tzinfo=zone)
    return Time.of(moment)


@dataclass(frozen=True, slots=True)
class Selection:
    """The transactions from ``start`` on, up to ``end``. None leaves a side open.

    Transactions that begin inside are read to their end. Raises UsageError for a position or time
    as the end that is before the start.
    """

    start: Start | None = None
    end: Until | None = None

    def __post_init__(self) -> None:
        start, end = self.start, self.end
        turned = False
        if isinstance(start, Position) and isinstance(end, Position):
            turned = end < start
        elif isinstance(start, Time) and isinstance(end, Time):
            turned = end.microseconds < start.microseconds
        if turned:
            raise UsageError(f"until {end} is before start {start}: nothing is between them")

    @classmethod
    def parse(cls, start: object, end: object) -> Self:
        """Both bounds as a user of the command writes them (`start_of`, `until_of`)."""
        return cls(start_of(start, "--start"), until_of(end, "--until"))
