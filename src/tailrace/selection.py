"""Which part of a log is asked for: tables by pattern, transactions by where they begin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Self

from tailrace.errors import GtidError, UsageError
from tailrace.gtid import Gtid, MariadbGtid
from tailrace.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Patterns = str | Sequence[str] | None

_FILE: Final = re.compile(r"[^:]+\.\d+", re.ASCII)
_POSITION: Final = re.compile(r"(?:.+\.\d+|-):\d+", re.ASCII)
"""``-`` is standard input."""
_MARIADB_GTID: Final = re.compile(r"\d+-\d+-\d+", re.ASCII)
_MYSQL_GTID: Final = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TableFilter:
    """Which tables are asked for: called with a database and a table, it says whether they are.

    ``only`` are patterns of the tables that are wanted (None: all; an empty tuple: none),
    ``exclude`` of those that are not, whatever ``only`` says. A pattern is ``database.table`` with
    ``*`` and ``?``, and case counts; one without a point is a table in any database.
    """

    only: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, tables: Patterns = None, exclude: Patterns = None) -> Self:
        """From what a caller gave: one pattern as a text, or several; None where nothing.

        Raises UsageError for what is no pattern.
        """
        return cls(_patterns("tables", tables), _patterns("exclude", exclude) or ())

    @property
    def takes_all(self) -> bool:
        """Whether no table was chosen or excluded."""
        return self.only is None and not self.exclude

    def __call__(self, database: str, table: str) -> bool:
        """Whether a table is asked for."""
        name = f"{database}.{table}"
        return (self.only is None or _fits(name, self.only)) and not _fits(name, self.exclude)


def _patterns(name: str, given: Patterns) -> tuple[str, ...] | None:
    if given is None:
        return None
    try:
        patterns = (given,) if isinstance(given, str) else tuple(given)
    except TypeError:
        patterns = (given,)  # type: ignore[assignment]  # what it is, is said below
    for each in patterns:
        if not isinstance(each, str):
            raise UsageError(f"{name}: a pattern is text like 'shop.*', and not {each!r}")
        if not each.strip():
            raise UsageError(f"{name}: a pattern is empty")
    return patterns


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, each if "." in each else f"*.{each}") for each in patterns)


@dataclass(frozen=True, slots=True)
class Bound:
    """A place between transactions: exactly one of the three is set.

    ``position`` is met by transactions that begin there or behind, ``gtid`` (its text) by the
    transaction of that GTID and all behind it, ``time`` (microseconds UTC) by the first that was
    committed then or later and all behind it.
    """

    position: Position | None = None
    gtid: str | None = None
    time: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """``binlog.000003:1234``, ``binlog.000003``, a GTID of either flavour, or ISO-8601 in UTC.

        Raises UsageError.
        """
        text = text.strip()
        if _POSITION.fullmatch(text):
            return cls(position=Position.parse(text))
        if _FILE.fullmatch(text) and not text[:4].isdigit():
            return cls(position=Position(text, 4))
        try:
            if _MARIADB_GTID.fullmatch(text) and not _is_date(text):
                return cls(gtid=str(MariadbGtid.parse(text)))
            if _MYSQL_GTID.match(text):
                return cls(gtid=str(Gtid.parse(text)))
        except GtidError as error:
            raise UsageError(str(error)) from None
        return cls(time=_microseconds(text))

    def met(self, start: Position, gtid: str | None, time: int) -> bool:
        """Whether a transaction that begins at ``start`` is at this place or behind it."""
        if self.position is not None:
            return start >= self.position
        if self.gtid is not None:
            return gtid == self.gtid
        return self.time is not None and time >= self.time

    def __str__(self) -> str:
        if self.time is not None:
            return (_EPOCH + timedelta(microseconds=self.time)).isoformat()
        return str(self.position or self.gtid)


def _is_date(text: str) -> bool:
    """``2026-11-21`` is a day, not a MariaDB GTID: a domain of four digits, a server below 13."""
    return re.fullmatch(r"\d{4}-\d\d-\d\d", text) is not None


def _microseconds(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"not a place in a log: {text!r} (a position is binlog.000003:1234, a GTID "
            "uuid:number or domain-server-number, a time 2026-11-21T09:30:00, in UTC)"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Selection:
    """The transactions from ``start`` (inclusive) up to ``end`` (exclusive), by where they begin.

    What begins inside is read to its end. None leaves a side open.
    """

    start: Bound | None = None
    end: Bound | None = None

    @classmethod
    def parse(cls, start: str | None, end: str | None) -> Self:
        """Both bounds as a user writes them (see `Bound.parse`)."""
        return cls(
            None if start is None else Bound.parse(start),
            None if end is None else Bound.parse(end),
        )


def time_text(microseconds: int) -> str:
    """UTC, with microseconds where there are any."""
    try:
        moment = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:  # no clock of a server says so
        return f"{microseconds} µs"
    return moment.isoformat(" ").removesuffix("+00:00")
