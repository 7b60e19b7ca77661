"""The logs that a command reads: files and servers, their readers, and what is said at the end."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tailrace.cli.output import say, say_names
from tailrace.columns.text.readers import reader_for
from tailrace.errors import AccessDenied, ConnectionLost, UsageError
from tailrace.events import TransactionPayloadEvent
from tailrace.handlers import Pipeline, Rename
from tailrace.live.scheme import names_server
from tailrace.log.reader import Reader
from tailrace.log.sources import Reading, is_whole, unmatched_in
from tailrace.position import Position
from tailrace.selection import Selection
from tailrace.table_filter import TableFilter
from tailrace.table_name import TableName
from tailrace.transports.base import check_among

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tailrace.handlers import GroupFilter
    from tailrace.live.transport import ServerTransport
    from tailrace.live.url import Source
    from tailrace.log.changes import Changes
    from tailrace.log.reader import Step, Wants
    from tailrace.schema.letter_case import LowerCase
    from tailrace.storage import LogSeries
    from tailrace.transports import Transport
    from tailrace.values.schema import TableSchema

_RETRY: Final = 60.0
"""Seconds for which a command that ends retries a broken connection."""
NO_SERVER: Final = "{} is not a server: give its URL, such as mysql://user@host/"
_ALMOST: Final = re.compile(r"(?:mysql|mariadb)[:/]", re.IGNORECASE)
_PASSWORD: Final = re.compile(r"(?:mysql|mariadb):(?://)?[^:/?#]*:(.*)@", re.IGNORECASE | re.DOTALL)


def parsed(url: str, *, follow: bool = False, skip_torn_tail: bool = False) -> Source:
    """The source of a server's URL; the user is asked for a password that it needs and lacks.

    A command that ends retries for a limited time, unless the URL sets a time; one that follows
    waits for its server from the start. ``skip_torn_tail`` is as in the URL. Raises UsageError, and
    what `with_password_asked` raises.
    """
    from tailrace.live.prompt import with_password_asked  # noqa: PLC0415 - only with a server
    from tailrace.live.url import Source  # noqa: PLC0415 - as above

    source = Source.parse(url, skip_torn_tail=skip_torn_tail or None)
    if source.retry is None and not follow:
        source = replace(source, retry=_RETRY)
    elif follow:
        source = replace(source, retry_first=True)
    return with_password_asked(source)


def server(url: str, *, follow: bool = False, skip_torn_tail: bool = False) -> ServerTransport:
    """The transport of a server's URL. Raises UsageError."""
    from tailrace.live.transport import ServerTransport  # noqa: PLC0415 - as above

    return ServerTransport(parsed(url, follow=follow, skip_torn_tail=skip_torn_tail))


def check_file(source: Source, place: Position) -> None:
    """Raise UsageError if a server has no log with the name in a position.

    If the user lacks the privilege, or the server cannot be reached, reading finds out.
    """
    from tailrace.live.session import Session  # noqa: PLC0415 - as above

    try:
        with Session.open(source) as session:
            names = [name for name, _ in session.logs()]
    except (AccessDenied, ConnectionLost):
        return
    if names:
        check_among(place, names, source.name)


def without_passwords(text: str, arguments: Sequence[str]) -> str:
    """A text that may quote arguments, with the passwords in their URLs removed."""
    for argument in arguments:
        found = _PASSWORD.search(argument)
        if found is not None and found[1]:
            text = text.replace(f":{found[1]}@", ":***@")
    return text


class RenamingReader(Reader):
    """A reader whose steps have the new names; ``wants`` is queried with those.

    Definitions, including those of the user's schema, use the names in the log.
    """

    def __init__(
        self,
        source: LogSeries | Transport,
        names: Mapping[str, str],
        *,
        wants: Wants,
        **settings: Any,
    ) -> None:
        super().__init__(
            source,
            wants=lambda database, table: wants(names.get(database, database), table),
            **settings,
        )
        self._names = names
        self._pipeline = Pipeline([Rename(names)])
        self._moved: dict[int, tuple[TableSchema, TableSchema]] = {}

    def __iter__(self) -> Iterator[Step]:
        self._pipeline.start()
        for step in super().__iter__():
            if isinstance(step.event, TransactionPayloadEvent):
                yield step  # the events inside follow, one by one
                continue
            for event in self._pipeline.process(step.event):
                yield step._replace(event=event, schema=self._renamed(step.schema))

    def _renamed(self, schema: TableSchema | None) -> TableSchema | None:
        """A table under its new name; the same object for the same table."""
        if schema is None or schema.database not in self._names:
            return schema
        known = self._moved.get(id(schema))
        if known is None or known[0] is not schema:
            moved = replace(schema, database=self._names[schema.database])
            known = self._moved[id(schema)] = schema, moved
        return known[1]


def readers(
    sources: Sequence[str],
    *,
    follow: bool = False,
    wants: TableFilter,
    start: str | None = None,
    end: str | None = None,
    schema: Path | None = None,
    lower_case_table_names: LowerCase = None,
    keyring: str | None = None,
    skip_checksums: bool = False,
    names: Mapping[str, str] | None = None,
    rows: bool = True,
    kernels: tuple[str, ...] = (),
    picks: Sequence[GroupFilter] = (),
    gtids: bool = True,
    skip_torn_tail: bool = False,
    layers: Sequence[str] = (),
) -> Iterator[Reader]:
    """A reader for each series of logs in the sources, configured by the options.

    ``names`` are databases to rename; ``wants`` is then queried with the new names. Without
    ``rows`` no table is resolved: only events are used. With ``follow`` there must be one log. With
    the names of ``kernels`` the reader may be one that also gives stretches
    (`tailrace.columns.text.readers`).
    """
    selection = Selection.parse(start, end)
    reading = Reading.of(
        with_servers(sources, follow=follow, skip_torn_tail=skip_torn_tail),
        start=selection.start,
        until=selection.end,
        follow=follow,
        tables=wants,
        schema=schema,
        lower_case_table_names=lower_case_table_names,
        keyring=keyring,
        layers=layers or None,
    )
    if isinstance(selection.end, Position) and not follow:
        for each in reading.logs:
            if (source := _source_of(each)) is not None:
                check_file(source, selection.end)
    for each in reading.logs:
        make = reader_for(each, kernels) if kernels and not follow else Reader
        yield (partial(RenamingReader, names=names) if names else make)(
            each,
            follow=follow,
            selection=selection,
            wants=(wants.lowered() if reading.catalogue.lowers_names else wants)
            if rows
            else TableFilter(()),
            catalogue=reading.catalogue,
            verify_checksums=not skip_checksums,
            notice=say,
            picks=picks,
            gtids=gtids,
        )


def check_urls(sources: Sequence[str]) -> None:
    """Raise UsageError for a source that seems to be a server's URL with a mistake."""
    for each in sources:
        if _ALMOST.match(each) and not names_server(each) and not Path(each).exists():
            raise UsageError(f"{each}: there is no such file; a server is mysql://user@host/")


def with_servers(
    sources: Sequence[str], *, follow: bool = False, skip_torn_tail: bool = False
) -> list[str | Transport]:
    """The sources, where a server's URL is its transport (`server`)."""
    check_urls(sources)
    return [
        server(each, follow=follow, skip_torn_tail=skip_torn_tail) if names_server(each) else each
        for each in sources
    ]


def as_read(wants: TableFilter, reader: Reader) -> TableFilter:
    """The requested tables, by the names that the reader's source has."""
    return wants.lowered() if reader.lowers_names else wants


def check_tables(
    wants: TableFilter, readers: Iterable[Reader], names: Mapping[str, str] | None = None
) -> None:
    """Check that the requested tables exist, once the readers are at their end.

    ``wants`` is the filter that they used (`TableFilter.watched`), ``names`` are databases that
    were renamed. A table that only the log's statements mention exists, and so does one that is on
    the server now but has nothing in the log. Patterns that match nothing are reported. For names
    UsageError is raised, if the whole log was read: a part of it need not have them.
    """
    if wants.only is None and not wants.exclude:
        return
    readers = list(readers)
    new, tables = names or {}, {table for each in readers for table in each.catalogue.names()}
    defined = {TableName(new.get(database, database), table) for database, table in tables}
    missing, where = unmatched_in([each.transport for each in readers], wants, defined)
    if (text := missing.left_out(where)) is not None:
        say(text)
    if (text := missing.missing(where)) is not None:
        if missing.names and all(map(_read_all, readers)):
            raise UsageError(text)
        say(text)


def say_what_is_not_there(wants: TableFilter, reader: Reader) -> None:
    """For a server whose log is followed: report requested tables that do not exist (yet)."""
    tables = getattr(reader.transport, "tables", None)
    if wants.only is None or tables is None:
        return
    if (text := wants.unmatched(tables()).missing("on the server (yet)")) is not None:
        say(text)


def _source_of(log: LogSeries | Transport) -> Source | None:
    """The server of a log; None for files."""
    if not names_server(log.name):
        return None
    from tailrace.live.transport import ServerTransport  # noqa: PLC0415 - only of a server

    return log.source if isinstance(log, ServerTransport) else None


def _read_all(reader: Reader) -> bool:
    """Whether the whole log was requested and read."""
    return is_whole(reader.selection, reader.transport) and not reader.picks and not reader.stopped


def say_where_names_are_from(readers: Iterable[Reader]) -> None:
    """Report tables whose column names do not come from the log; of a followed log, it was said."""
    say_names(
        {table: text for each in readers if not each.follow for table, text in each.names.items()}
    )


def say_how_it_ended(reader: Reader) -> None:
    """Report a log that is being written, skipped events, and an empty log."""
    say_if_none_picked(reader)
    log = reader.log
    if log.torn_tail is not None:
        say(
            f"{log.torn_tail}: the log ends inside an event; it is still being written,"
            " or was cut off"
        )
    if log.ignored:
        say(f"{log.ignored} events of unknown type, which the log marks ignorable, were skipped")


def say_if_none_picked(reader: Reader) -> None:
    """Report a log that has no transaction with the requested GTIDs or server id."""
    if reader.picks and not reader.picked and not reader.stopped:
        say(f"{reader.name}: no transaction has the requested GTIDs or server id")


def say_what_was_left(changes: Changes) -> None:
    """Report statements that were skipped, and a transaction without an end."""
    name = changes.reader.name
    if changes.skipped_statements:
        say(
            f"{name}: {changes.skipped_statements} changes that were logged as statements "
            "were skipped: their rows are not in the log"
        )
    if changes.escapes.count:
        say(
            f"{name}: {changes.escapes.count} records hold surrogates, which are not valid UTF-8:"
            " they are escaped, as \\ud83d"
        )
    if changes.prepared:
        say(
            f"{name}: {changes.prepared} XA transactions are prepared and have not ended: their"
            " rows are left out"
        )
    if changes.unfinished and not changes.reader.stopped:
        say(
            f"{name}: the log does not have a transaction's end: its rows are left out "
            f"({changes.unfinished} rows events)"
        )
