"""Which tables are wanted, by patterns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Self

from tailrace.errors import UsageError
from tailrace.printable import printable
from tailrace.schema.letter_case import lowered
from tailrace.table_name import TableName, pieces, quoted_part, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Patterns = str | Sequence[str] | None

_WILD: Final = re.compile(r"[*?\[]")
_LITERAL: Final = re.compile(r"\[[*?\[]\]")
_LISTED: Final = 10
"""The most tables that an error lists."""


@dataclass(frozen=True, slots=True)
class TableFilter:
    """A filter of tables: called with a database and a table, it says whether they are wanted.

    ``only`` are patterns of the wanted tables (None: all; an empty tuple: none), ``exclude`` of
    those to leave out, even if ``only`` wants them. A pattern is ``database.table`` with ``*`` and
    ``?``, and case counts; one without a dot is a table in any database. Text in backticks is
    literal, dots included (`tailrace.table_name`); if there are several dots outside them, each may
    be the one between database and table. If ``met`` is set (see `watched`), the tables that were
    asked about are added to it.
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
            self.met.add(TableName(database, table))
        if (database, table) in self.also:
            return True
        wanted = self.only is None or _fits(database, table, self.only)
        return wanted and not _fits(database, table, self.exclude)

    def of_database(self, database: str) -> bool | None:
        """Whether all tables of a database are wanted, whatever their names; None: some may be."""
        if any(each.database == database for each in self.also):
            return None
        if _covers(database, self.exclude):
            return False
        if self.only is None or _covers(database, self.only):
            return None if _touches(database, self.exclude) else True
        return None if _touches(database, self.only) else False

    def excludes(self, database: str, table: str) -> bool:
        """Whether a pattern of ``exclude`` matches a table."""
        return _fits(database, table, self.exclude)

    def with_also(self, names: frozenset[TableName]) -> Self:
        """A copy that wants these tables, too, whatever its patterns."""
        return replace(self, also=names) if names else self

    def lowered(self) -> Self:
        """A copy for a source that puts names into lower case (``lower_case_table_names``)."""
        only = None if self.only is None else tuple(map(lowered, self.only))
        return replace(self, only=only, exclude=tuple(map(lowered, self.exclude)))

    def watched(self) -> Self:
        """A copy that from now on keeps the tables that it is asked about in ``met``."""
        return replace(self, met=set())

    def unmatched(self, tables: Iterable[TableName]) -> Unmatched:
        """Which patterns match none of the given tables."""
        names = sorted({TableName(*each) for each in tables})
        missing = [each for each in self.only or () if not _fit_one(names, each)]
        exclude = tuple(each for each in self.exclude if not _fit_one(names, each))
        return Unmatched(
            tuple(each for each in missing if only_name(each) is not None),
            tuple(each for each in missing if only_name(each) is None),
            tuple(each for each in exclude if only_name(each) is not None),
            tuple(map(str, names)),
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


def only_name(pattern: str) -> TableName | None:
    """The only name that a pattern matches; None if it may match several.

    Its database is empty if the pattern has none: it may match in several databases then.
    """
    (database, table), *others = _globs(pattern)
    if others or _WILD.search(_LITERAL.sub("", f"{database or ''}.{table}")):
        return None
    return TableName(_LITERAL.sub(_literal, database or ""), _LITERAL.sub(_literal, table))


def _literal(found: re.Match[str]) -> str:
    return found[0][1]


def split_patterns(text: str) -> list[str]:
    """The patterns of a text with commas; a comma in backticks or brackets is part of a name."""
    return [each.strip() for each in split(text, ",")]


def _close(patterns: Iterable[str], names: Sequence[str]) -> list[str]:
    """The names most similar to the patterns, ignoring case."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for what is missing

    found: dict[str, None] = {}
    for pattern in patterns:
        folded: dict[str, str] = {}
        for name in names:
            known = name if "." in pattern else quoted_part(TableName.parse(name).table)
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
        if any(each[start:end] == "`" for _, start, end in pieces(each)):
            raise UsageError(f"{name}: a backtick of {each!r} is not closed (double one in a name)")
    return patterns


def _fit_one(names: Iterable[TableName], pattern: str) -> bool:
    return any(_fits(*name, (pattern,)) for name in names)


def _covers(database: str, patterns: Iterable[str]) -> bool:
    """Whether one pattern matches all tables of a database."""
    return any(
        not table.strip("*") and _is_of(database, outer)
        for each in patterns
        for outer, table in _globs(each)
    )


def _touches(database: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern may match a table of a database."""
    return any(_is_of(database, outer) for each in patterns for outer, _ in _globs(each))


def _fits(database: str, table: str, patterns: Iterable[str]) -> bool:
    return any(
        fnmatchcase(table, inner) and _is_of(database, outer)
        for each in patterns
        for outer, inner in _globs(each)
    )


def _is_of(database: str, outer: str | None) -> bool:
    return outer is None or fnmatchcase(database, outer)


@lru_cache(maxsize=1 << 10)
def _globs(pattern: str) -> tuple[tuple[str | None, str], ...]:
    """What a pattern says of database and table; None for any database.

    Several if it has more than one dot outside backticks and brackets.
    """
    text, dots = "", []
    for quoted, start, end in pieces(pattern):
        if quoted is None and pattern[start:end] == ".":
            dots.append(len(text))
        text += pattern[start:end] if quoted is None else _WILD.sub(r"[\g<0>]", quoted)
    return tuple((text[:at], text[at + 1 :]) for at in dots) or ((None, text),)
