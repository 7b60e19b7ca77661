"""What a caller wants to read: the logs of a source, and which part of them.

Every function that reads takes the same source and the same arguments, which are checked here, when
the function is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeGuard

from tailrace.arguments import check_type
from tailrace.constants import MAGIC
from tailrace.errors import NoSuchTable, UsageError
from tailrace.position import Position
from tailrace.printable import short_repr
from tailrace.schema.catalogue import Catalogue
from tailrace.schema.letter_case import lowers_names
from tailrace.selection import Selection, check_follow, one_start, start_of, until_of
from tailrace.storage import LogSeries, find_all
from tailrace.table_filter import TableFilter
from tailrace.transports import SeriesTransport, Transport, elsewhere, transport_of_parsed
from tailrace.warn import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tailrace.schema.letter_case import LowerCase
    from tailrace.selection import Bound, Start
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.layer import Layers
    from tailrace.table_filter import Unmatched
    from tailrace.table_name import TableName


class ParsedUrl(Protocol):
    """A URL of a server that was parsed: `tailrace.live.url.Source`."""

    @property
    def scheme(self) -> str:
        """The URL's scheme, whose transport takes the object."""


One: TypeAlias = str | Path | LogSeries | Transport | ParsedUrl
Source: TypeAlias = One | Sequence[One]
"""A path, a folder, an index, a URL, ``-``, a `LogSeries`, a transport, a server's parsed URL
(`tailrace.live.url.Source`), or several of these."""
AnyLog: TypeAlias = LogSeries | Transport


def logs_of(
    source: Source,
    keyring: Keyring | str | Path | None = None,
    layers: Layers | None = None,
) -> list[AnyLog]:
    """The logs of a source: first the series of its files, then servers and other transports.

    A text is a URL if it starts with ``scheme://``, or with a known scheme and a colon; else it is
    a path, or ``-`` for standard input. Files of one folder and base name are one series, in any
    order. ``keyring`` has the keys of encrypted files, ``layers`` are on files
    (`tailrace.storage.find`). Raises UsageError for no source, an unknown scheme, and either of the
    two without a file; StorageError if there is no log; and what factories of transports raise.
    """
    files: list[str | Path] = []
    found: list[AnyLog] = []
    others: list[AnyLog] = []
    for each in _several(source):
        if isinstance(each, LogSeries):
            found.append(each)
        elif isinstance(each, Path):
            files.append(each)
        elif isinstance(each, str):
            transport = elsewhere(each)
            if transport is None:
                files.append(each)
            else:
                others.append(transport)
        else:
            others.append(each if is_transport(each) else _parsed(each))
    if not files:
        name = found[0].name if found else others[0].name
        if keyring is not None:
            raise UsageError(f"{name}: a keyring has the keys of files: this source needs none")
        if layers is not None:
            raise UsageError(f"{name}: layers are of files that are given by path or URL")
    return [*find_all(files, keyring, layers), *found, *others]


def _several(source: Source) -> Sequence[One]:
    if isinstance(source, (str, bytes)) or not isinstance(source, Sequence):
        return (source,)
    if not source:
        raise UsageError(
            "give a log: a file, a folder of logs, an index file, - (stdin) or a server's URL"
            " (mysql://user@host)"
        )
    return source


def is_transport(source: object) -> TypeGuard[Transport]:
    """Whether an object is a transport."""
    return hasattr(source, "locate")


def _parsed(source: Any) -> Transport:
    """The transport of a server's parsed URL."""
    transport = transport_of_parsed(source)
    if transport is None:
        raise UsageError(
            "a log is a path, a URL, a list of these, a LogSeries or a transport, not"
            f" {short_repr(source)}"
        )
    return transport


def transport_of(
    source: Source,
    keyring: Keyring | str | Path | None = None,
    layers: Layers | None = None,
) -> Transport:
    """The transport of a source that is one log; arguments are those of `logs_of`.

    Raises UsageError if it holds several, and what `logs_of` raises.
    """
    log = one_log(source, keyring, layers, why="open one of them")
    return SeriesTransport(log) if isinstance(log, LogSeries) else log


def one_log(
    source: Source, keyring: Keyring | str | Path | None, layers: Layers | None, *, why: str
) -> AnyLog:
    """The log of a source that is one log; arguments are those of `logs_of`, ``why`` is said where
    it holds several.

    Raises UsageError then, and what `logs_of` raises.
    """
    log, *more = logs_of(source, keyring, layers)
    if more:
        names = ", ".join(each.name for each in (log, *more))
        raise UsageError(f"the source has several logs ({names}): {why}")
    return log


@dataclass(frozen=True, slots=True)
class Reading:
    """The part of some logs that a caller wants to read.

    ``wants`` keeps the tables that it was asked about (`TableFilter.watched`), ``catalogue`` has
    the caller's definitions.
    """

    logs: tuple[AnyLog, ...]
    selection: Selection
    wants: TableFilter
    catalogue: Catalogue
    follow: bool

    @classmethod
    def of(
        cls,
        source: Source,
        *,
        start: Bound | None = None,
        until: Bound | None = None,
        follow: bool = False,
        tables: str | Sequence[str] | TableFilter | None = None,
        exclude: str | Sequence[str] | None = None,
        schema: str | Path | None = None,
        keyring: Keyring | str | Path | None = None,
        layers: Layers | None = None,
        lower_case_table_names: LowerCase = None,
    ) -> Self:
        """Check a caller's arguments.

        ``lower_case_table_names`` is that of the server that wrote the logs, None if the logs are
        to tell.

        Raises UsageError for arguments that do not fit, and what `logs_of` raises; SchemaError and
        StorageError for the ``schema`` file.
        """
        check_type("follow", follow, "bool")
        selection = Selection(start_of(start), until_of(until))
        if follow:
            check_follow(selection.end)
        wants = TableFilter.of(tables, exclude).watched()
        catalogue = catalogue_of(schema)
        logs = tuple(logs_of(source, keyring, layers))
        wants, case = as_named(wants, lower_case_table_names, logs)
        catalogue.lowers_names = lowers_names(case)
        _check_several(logs, selection, follow=follow)
        return cls(logs, selection, wants, catalogue, follow)

    def start_in(self, log: AnyLog) -> Start | None:
        """Where to begin in a log, whose URL may say so itself. Raises UsageError if both do."""
        return agreed_start(log, self.selection.start)

    def missing_tables(self, defined: Iterable[TableName]) -> str | None:
        """A sentence about wanted tables that none of the logs has, once they were read.

        ``defined`` are the tables that their DDL and the user define. None if none is missing, or
        if only a part of the logs was wanted, as of one that is followed: it has no end.
        """
        whole = not self.follow and all(is_whole(self.selection, log) for log in self.logs)
        if self.wants.only is None or not whole:
            return None
        unmatched, where = unmatched_in(self.logs, self.wants, defined)
        return unmatched.missing(where)

    def warn_of_missing(self, catalogues: Iterable[Catalogue]) -> None:
        """Warn of `missing_tables`; ``catalogues`` are those of the readers, at their end."""
        text = self.missing_tables(set().union(*(each.names() for each in catalogues)))
        if text is not None:
            warn(text, NoSuchTable)


def unmatched_in(
    logs: Sequence[AnyLog], wants: TableFilter, defined: Iterable[TableName]
) -> tuple[Unmatched, str]:
    """The patterns of ``wants`` that match no table, and where tables were looked for.

    ``defined`` are the tables that the logs and the user define, ``wants`` has those whose rows
    came. A server's log need not name all of its tables: it is asked if a wanted one is missing.
    """
    there = {*defined, *(wants.met or ())}
    unmatched = wants.unmatched(there)
    where = "in the log" if len(logs) == 1 else "in the logs"
    if unmatched.names or unmatched.wildcards:
        for log in logs:
            tables: Callable[[], set[TableName]] | None = getattr(log, "tables", None)
            if tables is not None:
                there |= tables()
                where = "in the log and on the server"
        unmatched = wants.unmatched(there)
    return unmatched, where


def as_named(
    wants: TableFilter, case: LowerCase, logs: Sequence[AnyLog]
) -> tuple[TableFilter, LowerCase]:
    """A filter in lower case, if the source puts names into it, and ``lower_case_table_names``.

    That is 0 or 1, or None if it is unknown: ``case``, if it is given, else what the servers say.
    """
    lowers = lowers_names(case)
    if lowers is None:
        lowers = server_lowers_names(logs)
    if lowers is None:
        return wants, None
    return (wants.lowered(), 1) if lowers else (wants, 0)


def server_lowers_names(logs: Sequence[AnyLog]) -> bool | None:
    """Whether servers put names into lower case, if logs are those of servers that agree."""
    asked = [getattr(log, "lowers_names", None) for log in logs]
    found = {each() for each in asked if each is not None}
    return found.pop() if len(found) == 1 and None not in asked else None


def catalogue_of(schema: str | Path | None) -> Catalogue:
    """The definitions of a user's SQL file. Raises UsageError, SchemaError, StorageError."""
    catalogue = Catalogue()
    if schema is not None:
        if not isinstance(schema, str | PathLike):
            raise UsageError(f"schema is the path of an SQL file, and not {short_repr(schema)}")
        from tailrace.schema.user_schema import load  # noqa: PLC0415 - seldom needed

        catalogue.given(load(schema))
    return catalogue


def agreed_start(log: AnyLog, start: object) -> Start | None:
    """The start for a log that may state one itself, as a server's URL.

    Raises UsageError if the two differ.
    """
    stated: Start | None = getattr(log, "start", None)
    return one_start(stated, start_of(start), log.name)


def is_whole(selection: Selection, log: AnyLog) -> bool:
    """Whether a selection is the whole log, up to its present end."""
    stated = getattr(log, "start", None)
    start = stated if selection.start is None else selection.start
    series = log.series if isinstance(log, SeriesTransport) else log
    if isinstance(start, Position) and isinstance(series, LogSeries):
        begins = start == Position(series.files[0].name, len(MAGIC))
    else:
        begins = start is None or start == "oldest"
    return begins and (selection.end is None or selection.end == "now")


def _check_several(logs: Sequence[AnyLog], selection: Selection, *, follow: bool) -> None:
    """Raise UsageError for what has a meaning in one log only."""
    places = (selection.start, selection.end)
    if len(logs) > 1 and (follow or any(isinstance(each, Position) for each in places)):
        listed = ", ".join(each.name for each in logs)
        what = "one log is followed" if follow else "a position is one log's"
        raise UsageError(f"{what}, and there are several ({listed}): give one")
    if follow and isinstance(logs[0], LogSeries) and logs[0].files[0].joined:
        raise UsageError(f"{logs[0].name}: a pipe has an end, and cannot be followed")
