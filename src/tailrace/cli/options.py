"""What the commands that read logs share: their options, and their messages on stderr."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

from cyclopts import Parameter

from tailrace.cli.kernels import reader_for
from tailrace.cli.lines import say
from tailrace.cli.rename import RenamingReader
from tailrace.cli.servers import check_file, names_server, server, tables_on
from tailrace.errors import UsageError
from tailrace.log.reader import Reader
from tailrace.position import Position
from tailrace.schema import Catalogue
from tailrace.selection import Selection, gtids_of
from tailrace.storage import LogSeries, find_all
from tailrace.table_filter import TableFilter
from tailrace.transports import elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tailrace.handlers import GroupFilter
    from tailrace.live.url import Source
    from tailrace.log.changes import Changes
    from tailrace.transports import Transport

Sources = Annotated[
    str,
    Parameter(
        help="Log files, folders of logs, or index files; their URLs, ``s3://`` and others, too; "
        "``-`` is standard input. ``mysql://user@host:3306`` (or ``mariadb://``) is a running "
        "server; its password is read from TAILRACE_PASSWORD, ~/.my.cnf or MYSQL_PWD, or "
        "prompted for.",
        name="source",
    ),
]
Tables = Annotated[
    tuple[str, ...],
    Parameter(
        name="--tables",
        help="Only these tables: patterns like ``shop.orders,shop.*``, with commas or repeated.",
        negative=(),
    ),
]
Exclude = Annotated[
    tuple[str, ...],
    Parameter(
        name="--exclude",
        help="Leave these tables out, even if ``--tables`` matches them; the same patterns. "
        "Their rows are not decoded, so this also skips tables that cannot be decoded.",
        negative=(),
    ),
]
From = Annotated[
    str | None,
    Parameter(
        name="--from",
        help="Begin at a position (``binlog.000003:1234``) or file, after GTIDs that were read "
        "already (``uuid:1-77``, ``0-1-77``), with the first transaction committed at a time or "
        "later (``2026-11-21T09:30:00``, UTC unless it has a zone, like ``+02:00``), or ``now``.",
    ),
]
Until = Annotated[
    str | None,
    Parameter(
        name="--until",
        help="End before the transaction at a position or time, or once all of some GTIDs were "
        "read.",
    ),
]
SchemaFile = Annotated[
    Path | None,
    Parameter(
        name="--schema",
        help="An SQL file of CREATE TABLEs (``mysqldump --no-data``), for logs without names.",
    ),
]
KeyringFile = Annotated[
    str | None,
    Parameter(
        name="--keyring",
        help="The file with the keys of encrypted logs: of MySQL's component_keyring_file or "
        "keyring_file, MariaDB's file_key_management (``file_key_management:FILE?filekey=FILE`` "
        "for an encrypted one), or Tailrace's own.",
    ),
]
SkipChecksums = Annotated[
    bool,
    Parameter(name="--skip-checksums", negative=(), help="Do not verify the events' checksums."),
]
IncludeGtids = Annotated[
    str | None,
    Parameter(
        name="--include-gtids",
        help="Only the transactions of these GTIDs: ``uuid:1-5:8``, or MariaDB's one by one, as "
        "``0-1-77,0-1-79``.",
    ),
]
ExcludeGtids = Annotated[
    str | None,
    Parameter(name="--exclude-gtids", help="Leave the transactions of these GTIDs out."),
]
SkipGtids = Annotated[
    bool,
    Parameter(
        name="--skip-gtids",
        negative=(),
        help="Write no GTIDs, as if the transactions had none: a server that executes them, as "
        "SQL or as a log of MySQL's, gives them new ones.",
    ),
]
ServerId = Annotated[
    int | None,
    Parameter(
        name="--server-id",
        help="Only the transactions that were first committed on the server with this id.",
    ),
]
SkipTornTail = Annotated[
    bool,
    Parameter(
        name="--skip-torn-tail",
        negative=(),
        help="Where a server's log file ends inside an event, as MariaDB leaves it after a crash, "
        "leave that out and continue with its next file; a line reports what was left out. (Like "
        "``?skip_torn_tail=1``. Files need no option: reading continues after a torn one.)",
    ),
]


def picked_transactions(
    include: str | None, exclude: str | None, server_id: int | None
) -> tuple[GroupFilter, ...]:
    """The transactions that ``--include-gtids``, ``--exclude-gtids`` and ``--server-id`` select."""
    picks: list[GroupFilter] = []
    if include is not None or exclude is not None:
        from tailrace.handlers import ByGtid  # noqa: PLC0415 - only where asked for

        only = None if include is None else gtids_of(include, "--include-gtids")
        without = () if exclude is None else gtids_of(exclude, "--exclude-gtids")
        picks.append(ByGtid(only, without=without))
    if server_id is not None:
        if not 0 <= server_id < 1 << 32:
            raise UsageError(f"--server-id is a number from 0 to 4294967295, and not {server_id}")
        from tailrace.handlers import ByServerId  # noqa: PLC0415 - as above

        picks.append(ByServerId({server_id}))
    return tuple(picks)


def say_if_none_picked(reader: Reader) -> None:
    """Report a log that has no transaction with the requested GTIDs or server id."""
    if reader.picks and not reader.picked and not reader.stopped:
        say(f"{reader.name}: no transaction has the requested GTIDs or server id")


def chosen_tables(tables: Sequence[str], exclude: Sequence[str]) -> TableFilter:
    """The tables that ``--tables`` and ``--exclude`` select, given with commas or repeated.

    It records the tables that it was queried for, for `check_tables`.
    """
    return TableFilter.of(patterns(tables) or None, patterns(exclude)).watched()


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
    logged = set(wants.met or ()).union(*(each.catalogue.names() for each in readers))
    there = {((names or {}).get(database, database), table) for database, table in logged}
    where = "in the log" if len(readers) == 1 else "in the logs"
    missing = wants.unmatched(there)
    if missing.names or missing.wildcards:
        for source in filter(None, map(_server_of, readers)):
            there |= tables_on(source)
            where = "in the log and on the server"
        missing = wants.unmatched(there)
    if (text := missing.left_out(where)) is not None:
        say(text)
    if (text := missing.missing(where)) is not None:
        if missing.names and all(map(_read_all, readers)):
            raise UsageError(text)
        say(text)


def say_what_is_not_there(wants: TableFilter, reader: Reader) -> None:
    """For a server whose log is followed: report requested tables that do not exist (yet)."""
    source = _server_of(reader)
    if wants.only is None or source is None:
        return
    if (text := wants.unmatched(tables_on(source)).missing("on the server (yet)")) is not None:
        say(text)


def _server_of(reader: Reader) -> Source | None:
    """The server whose log is read; None for files."""
    return _source_of(reader.transport)


def _source_of(log: LogSeries | Transport) -> Source | None:
    """The server of a log; None for files."""
    if not names_server(log.name):
        return None
    from tailrace.live.transport import ServerTransport  # noqa: PLC0415 - only of a server

    return log.source if isinstance(log, ServerTransport) else None


def _read_all(reader: Reader) -> bool:
    """Whether the whole log was requested and read."""
    source = _server_of(reader)
    from_start = source is None or source.start is None
    return (
        from_start and reader.selection == Selection() and not reader.picks and not reader.stopped
    )


def patterns(given: Sequence[str]) -> list[str]:
    """Patterns of tables that were given with commas or repeated."""
    return [pattern.strip() for each in given for pattern in each.split(",")]


def known_tables(schema: Path | None) -> Catalogue:
    """The user's schema file as a catalogue."""
    catalogue = Catalogue()
    if schema is not None:
        from tailrace.schema import load  # noqa: PLC0415 - only where one is given

        catalogue.given(load(schema))
    return catalogue


def readers(
    sources: Sequence[str],
    *,
    follow: bool = False,
    wants: TableFilter,
    start: str | None = None,
    end: str | None = None,
    schema: Path | None = None,
    keyring: str | None = None,
    skip_checksums: bool = False,
    names: Mapping[str, str] | None = None,
    rows: bool = True,
    kernels: tuple[str, ...] = (),
    picks: Sequence[GroupFilter] = (),
    gtids: bool = True,
    skip_torn_tail: bool = False,
) -> Iterator[Reader]:
    """A reader for each series of logs in the sources, configured by the options.

    ``names`` are databases to rename; ``wants`` is then queried with the new names. Without
    ``rows`` no table is resolved: only events are used. With ``follow`` there must be one log. With
    the names of ``kernels`` the reader may be one that also gives stretches
    (`tailrace.cli.kernels`).
    """
    selection = Selection.parse(start, end)
    logs = find_logs(sources, keyring, follow=follow, skip_torn_tail=skip_torn_tail)
    places = (selection.start, selection.end)
    if len(logs) > 1 and (follow or any(isinstance(each, Position) for each in places)):
        listed = ", ".join(each.name for each in logs)
        what = "one log is followed" if follow else "a position is one log's"
        raise UsageError(f"{what}, and there are several ({listed}): give one")
    if follow and isinstance(logs[0], LogSeries) and logs[0].files[0].joined:
        raise UsageError(f"{logs[0].name}: a pipe has an end: --follow is for files and servers")
    catalogue = known_tables(schema)
    if isinstance(selection.end, Position) and not follow:
        for each in logs:
            if (source := _source_of(each)) is not None:
                check_file(source, selection.end)
    for each in logs:
        make = reader_for(each, kernels) if kernels and not follow else Reader
        yield (partial(RenamingReader, names=names) if names else make)(
            each,
            follow=follow,
            selection=selection,
            wants=wants if rows else TableFilter(()),
            catalogue=catalogue,
            verify_checksums=not skip_checksums,
            notice=say,
            picks=picks,
            gtids=gtids,
        )


def find_logs(
    sources: Sequence[str],
    keyring: str | None = None,
    *,
    follow: bool = False,
    skip_torn_tail: bool = False,
) -> list[LogSeries | Transport]:
    """The series of all sources, and the transports of those that are not files, like servers.

    Raises UsageError if there is no source.
    """
    if not sources:
        raise UsageError(
            "give a log: a file, a folder of logs, an index file, - (stdin) or a server's URL"
            " (mysql://user@host)"
        )
    files: list[str] = []
    others: list[Transport] = []
    for source in sources:
        if names_server(source):
            transport: Transport | None = server(
                source, follow=follow, skip_torn_tail=skip_torn_tail
            )
        else:
            transport = elsewhere(source)
        if transport is None:
            files.append(source)
        else:
            others.append(transport)
    if keyring is not None and not files:
        raise UsageError("--keyring has the keys of files: a server sends its log decrypted")
    return [*find_all(files, keyring), *others]


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


def standard_output() -> TextIO:
    """Stdout in UTF-8; characters that cannot be encoded are escaped."""
    out: Any = sys.stdout
    if hasattr(out, "reconfigure"):
        out.reconfigure(encoding="utf-8", errors="backslashreplace")
    stream: TextIO = out
    return stream
