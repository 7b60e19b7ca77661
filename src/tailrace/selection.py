"""Which part of a log is asked for: tables by pattern, transactions by where they begin."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Self

from tailrace.errors import GtidError, UsageError
from tailrace.gtid import Gtid, MariadbGtid
from tailrace.position import Position
from tailrace.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Patterns = str | Sequence[str] | None
    TableName = tuple[str, str]

_WILD: Final = re.compile(r"[*?\[]")
_LISTED: Final = 10
"""Tables that an error lists, at most."""
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
    ``*`` and ``?``, and case counts; one without a point is a table in any database. Where ``met``
    is set (see `watched`), it gets the tables that were asked about.
    """

    only: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    met: set[TableName] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, tables: Patterns | TableFilter = None, exclude: Patterns = None) -> TableFilter:
        """From what a caller gave: one pattern as a text, or several; None where nothing.

        A filter is what it is. Raises UsageError for what is no pattern.
        """
        if isinstance(tables, TableFilter):
            return tables
        return cls(_patterns("tables", tables), _patterns("exclude", exclude) or ())

    @property
    def takes_all(self) -> bool:
        """Whether no table was chosen or excluded."""
        return self.only is None and not self.exclude

    def __call__(self, database: str, table: str) -> bool:
        """Whether a table is asked for."""
        if self.met is not None:
            self.met.add((database, table))
        name = f"{database}.{table}"
        return (self.only is None or _fits(name, self.only)) and not _fits(name, self.exclude)

    def watched(self) -> Self:
        """The same, which from now on keeps the tables that it is asked about in ``met``."""
        return replace(self, met=set())

    def unmatched(self, tables: Iterable[TableName]) -> Unmatched:
        """Which patterns fit none of the tables that there are."""
        names = sorted({f"{database}.{table}" for database, table in tables})
        only = [each for each in self.only or () if not _fit_one(names, each)]
        exclude = tuple(each for each in self.exclude if not _fit_one(names, each))
        return Unmatched(
            tuple(each for each in only if not _WILD.search(each)),
            tuple(each for each in only if _WILD.search(each)),
            tuple(each for each in exclude if not _WILD.search(each)),
            tuple(names),
            bool(only) and len(only) == len(self.only or ()),
        )


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Patterns that fit no table of ``tables``.

    ``names`` are those without ``*``, ``?`` and ``[``, ``wildcards`` the others; ``excluded`` are
    names that were to be left out. ``all`` says that no pattern of those wanted fits any table.
    """

    names: tuple[str, ...]
    wildcards: tuple[str, ...]
    excluded: tuple[str, ...]
    tables: tuple[str, ...]
    all: bool

    def missing(self, where: str) -> str | None:
        """A sentence on what is wanted and not there; None where all is.

        ``where`` is where it was looked for, as "in the log".
        """
        patterns = (*self.names, *self.wildcards)
        return self._sentence("no table fits", patterns, where) if patterns else None

    def left_out(self, where: str) -> str | None:
        """A sentence on names that were to be left out and are not there."""
        return self._sentence("nothing is excluded by", self.excluded, where)

    def _sentence(self, what: str, patterns: Sequence[str], where: str) -> str | None:
        if not patterns:
            return None
        text = f"{what} {', '.join(map(printable, patterns))} {where}"
        if not self.tables:
            return f"{text}: there are no tables"
        close = _close(patterns, self.tables)
        if close:
            text += f" (did you mean {' or '.join(map(printable, close))}?)"
        listed = [each for each in self.tables if each not in close][:_LISTED]
        more = len(self.tables) - len(close) - len(listed)
        there = [*close, *listed]
        are = "is" if len(self.tables) == 1 else "are"
        rest = f" and {more:,} more" if more else ""
        return f"{text}: there {are} {', '.join(map(printable, there))}{rest}"


def _close(patterns: Iterable[str], names: Sequence[str]) -> list[str]:
    """The names most like the patterns, by letters of any case."""
    found: dict[str, None] = {}
    for pattern in patterns:
        folded: dict[str, str] = {}
        for name in names:
            known = name if "." in pattern else name.partition(".")[2]
            folded.setdefault(known.casefold(), name)
        close = get_close_matches(pattern.casefold(), list(folded), n=2, cutoff=0.7)
        found |= dict.fromkeys(folded[each] for each in close)
    return list(found)


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


def _fit_one(names: Iterable[str], pattern: str) -> bool:
    return any(_fits(name, (pattern,)) for name in names)


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
