"""Which tables are wanted, by patterns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Self

from tailrace.errors import UsageError
from tailrace.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Patterns = str | Sequence[str] | None
    TableName = tuple[str, str]

_WILD: Final = re.compile(r"[*?\[]")
_LITERAL: Final = re.compile(r"\[[*?\[]\]")
_LISTED: Final = 10
"""The most tables that an error lists."""


@dataclass(frozen=True, slots=True)
class TableFilter:
    """A filter of tables: called with a database and a table, it says whether they are wanted.

    ``only`` are patterns of the wanted tables (None: all; an empty tuple: none), ``exclude`` of
    those to leave out, even if ``only`` wants them. A pattern is ``database.table`` with ``*`` and
    ``?``, and case counts; one without a point is a table in any database. If ``met`` is set (see
    `watched`), the tables that were asked about are added to it.
    """

    only: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    met: set[TableName] | None = field(default=None, compare=False, repr=False)
    also: frozenset[TableName] = frozenset()
    """Tables that are wanted as well (see `with_also`)."""

    @classmethod
    def of(cls, tables: Patterns | TableFilter = None, exclude: Patterns = None) -> TableFilter:
        """A filter from a caller's arguments: one pattern as a text, or several; None for no
        filter.

        A filter is returned as it is, with ``exclude`` added. Raises UsageError for arguments that
        are not patterns.
        """
        if isinstance(tables, TableFilter):
            more = _patterns("exclude", exclude) or ()
            return replace(tables, exclude=(*tables.exclude, *more)) if more else tables
        return cls(_patterns("tables", tables), _patterns("exclude", exclude) or ())

    @property
    def takes_all(self) -> bool:
        """Whether no pattern was given: all tables are wanted."""
        return self.only is None and not self.exclude

    def __call__(self, database: str, table: str) -> bool:
        """Whether a table is wanted."""
        if self.met is not None:
            self.met.add((database, table))
        if (database, table) in self.also:
            return True
        name = f"{database}.{table}"
        return (self.only is None or _fits(name, self.only)) and not _fits(name, self.exclude)

    def of_database(self, database: str) -> bool | None:
        """Whether all tables of a database are wanted, whatever their names; None: some may be."""
        if _covers(database, self.exclude):
            return False
        if self.only is None or _covers(database, self.only):
            return None if _touches(database, self.exclude) else True
        return None if _touches(database, self.only) else False

    def excludes(self, database: str, table: str) -> bool:
        """Whether a pattern of ``exclude`` matches a table."""
        return _fits(f"{database}.{table}", self.exclude)

    def with_also(self, names: frozenset[TableName]) -> Self:
        """A copy that wants these tables, too, whatever its patterns."""
        return replace(self, also=names) if names else self

    def watched(self) -> Self:
        """A copy that from now on keeps the tables that it is asked about in ``met``."""
        return replace(self, met=set())

    def unmatched(self, tables: Iterable[TableName]) -> Unmatched:
        """Which patterns match none of the given tables."""
        names = sorted({f"{database}.{table}" for database, table in tables})
        missing = [each for each in self.only or () if not _fit_one(names, each)]
        exclude = tuple(each for each in self.exclude if not _fit_one(names, each))
        return Unmatched(
            tuple(each for each in missing if only_name(each) is not None),
            tuple(each for each in missing if only_name(each) is None),
            tuple(each for each in exclude if only_name(each) is not None),
            tuple(names),
            bool(missing) and len(missing) == len(self.only or ()),
        )


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Patterns that match no table of ``tables``.

    ``names`` are those that match one name only, ``wildcards`` the others; ``excluded`` are names
    in ``exclude``. ``all`` says that no wanted pattern matches any table.
    """

    names: tuple[str, ...]
    wildcards: tuple[str, ...]
    excluded: tuple[str, ...]
    tables: tuple[str, ...]
    all: bool

    def missing(self, where: str) -> str | None:
        """A sentence about wanted tables that are missing; None if none is.

        ``where`` is where they were searched, such as "in the log".
        """
        patterns = (*self.names, *self.wildcards)
        return self._sentence("no table fits", patterns, where) if patterns else None

    def left_out(self, where: str) -> str | None:
        """A sentence about excluded names that match no table."""
        return self._sentence("nothing is excluded by", self.excluded, where)

    def _sentence(self, what: str, patterns: Sequence[str], where: str) -> str | None:
        if not patterns:
            return None
        text = f"{what} {', '.join(map(printable, patterns))} {where}"
        if any("," in each for each in patterns):
            text += " (a text is one pattern: give several as a list)"
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


def only_name(pattern: str) -> str | None:
    """The only name that a pattern matches, such as ``a*b`` of ``a[*]b``; None if it may match
    several.
    """
    if _WILD.search(_LITERAL.sub("", pattern)):
        return None
    return _LITERAL.sub(lambda found: found[0][1], pattern)


def pattern_of(name: str) -> str:
    """The pattern that matches this name and no other."""
    return _WILD.sub(r"[\g<0>]", name)


def _close(patterns: Iterable[str], names: Sequence[str]) -> list[str]:
    """The names most similar to the patterns, ignoring case."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for what is missing

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


def _covers(database: str, patterns: Iterable[str]) -> bool:
    """Whether one pattern matches all tables of a database."""
    return any(
        each.endswith("*") and fnmatchcase(f"{database}.", each[:-1])
        for each in map(_with_database, patterns)
    )


def _touches(database: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern may match a table of a database."""
    return any(
        fnmatchcase(database, each[:at])
        for each in map(_with_database, patterns)
        for at, letter in enumerate(each)
        if letter == "."
    )


def _with_database(pattern: str) -> str:
    return pattern if "." in pattern else f"*.{pattern}"


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, _with_database(each)) for each in patterns)
