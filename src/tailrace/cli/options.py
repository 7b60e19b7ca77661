"""The options that commands share: their declarations, and what their texts mean."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Group, Parameter

from tailrace.errors import UsageError
from tailrace.schema.letter_case import LowerCase
from tailrace.selection import gtids_of
from tailrace.table_filter import TableFilter, split_patterns
from tailrace.table_name import split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.handlers import GroupFilter

LAKE: Final = Group("Lake", sort_key=0)
SELECT: Final = Group("Select", sort_key=1)
OUTPUT: Final = Group("Output", sort_key=2)
READING: Final = Group("Reading", sort_key=3)

if TYPE_CHECKING:
    FileName = str
else:
    FileName = str | Path
    """Text; a shell completes names of files where an option has it."""

Plugins = Annotated[
    tuple[str, ...],
    Parameter(
        name="--plugin",
        metavar="NAME",
        group=READING,
        negative=(),
        help="An observer that is told of what is done: ``semisync.replica`` acknowledges what "
        "``receive`` has synced, or another package's.",
    ),
]
Sources = Annotated[
    FileName,
    Parameter(
        name="source",
        help="Log files, folders of logs, index files; their URLs, such as "
        "``s3://bucket/logs``; ``-`` for standard input; or ``mysql://user@host:3306/`` (or "
        "``mariadb://``) for a running server. A server's password is read from "
        "``TAILRACE_PASSWORD``, ``~/.my.cnf`` or ``MYSQL_PWD``; if none has it, you are asked.",
    ),
]
Tables = Annotated[
    tuple[str, ...],
    Parameter(
        name="--tables",
        metavar="PATTERNS",
        group=SELECT,
        negative=(),
        help="Only these tables, such as ``shop.orders,crm.*``. Give several with commas, or the "
        "option several times.",
    ),
]
Exclude = Annotated[
    tuple[str, ...],
    Parameter(
        name="--exclude",
        metavar="PATTERNS",
        group=SELECT,
        negative=(),
        help="Not these tables, even if ``--tables`` matches them. Their rows are not decoded, so "
        "this also skips tables that cannot be decoded.",
    ),
]
Start = Annotated[
    str | None,
    Parameter(
        name="--start",
        metavar="WHERE",
        group=SELECT,
        help="Begin there: a position (``binlog.000003:1234``, in standard input ``-:1234``), a "
        "file, a time (``2026-11-21T09:30:00``; it is UTC unless it has a zone, such as "
        "``+02:00``), GTIDs that were read already (``uuid:1-77``, ``0-1-77``), or ``now``.",
    ),
]
Until = Annotated[
    str | None,
    Parameter(
        name="--until",
        metavar="WHERE",
        group=SELECT,
        help="End there: before the first transaction at a position or a time, once all of some "
        "GTIDs were read, or at the present end (``now``).",
    ),
]
IncludeGtids = Annotated[
    str | None,
    Parameter(
        name="--include-gtids",
        metavar="GTIDS",
        group=SELECT,
        help="Only the transactions of these GTIDs: ``uuid:1-5:8``, or MariaDB's one by one, "
        "``0-1-77,0-1-79``.",
    ),
]
ExcludeGtids = Annotated[
    str | None,
    Parameter(
        name="--exclude-gtids",
        metavar="GTIDS",
        group=SELECT,
        help="Not the transactions of these GTIDs.",
    ),
]
ServerId = Annotated[
    int | None,
    Parameter(
        name="--server-id",
        metavar="NUMBER",
        group=SELECT,
        help="Only the transactions that were first committed on the server with this id.",
    ),
]
Follow = Annotated[
    bool,
    Parameter(
        name="--follow",
        group=READING,
        negative=(),
        help="Do not end at the present end: wait there for more, until Ctrl-C or SIGTERM.",
    ),
]
SchemaFile = Annotated[
    Path | None,
    Parameter(
        name="--schema",
        metavar="FILE",
        group=READING,
        help="An SQL file with the CREATE TABLE statements, made by ``mysqldump --no-data``, for "
        "logs that do not have the names of columns.",
    ),
]
LowerCaseNames = Annotated[
    LowerCase,
    Parameter(
        name="--lower-case-table-names",
        metavar="0|1|2",
        group=READING,
        help="The ``lower_case_table_names`` of the server that wrote the logs. A server is asked, "
        "and logs show it in most cases.",
    ),
]
KeyringFile = Annotated[
    FileName | None,
    Parameter(
        name="--keyring",
        metavar="FILE",
        group=READING,
        help="The file with the keys of encrypted logs: of MySQL's component_keyring_file or "
        "keyring_file, of MariaDB's file_key_management "
        "(``file_key_management:FILE?filekey=FILE`` if it is encrypted), or Tailrace's own.",
    ),
]
Layers = Annotated[
    tuple[str, ...],
    Parameter(
        name="--layers",
        metavar="NAME",
        group=READING,
        negative=(),
        help="How the files are packed, such as ``zstd``. Files named ``.zst`` do not need it. "
        "Give several layers by several options, the lowest first.",
    ),
]
SkipChecksums = Annotated[
    bool,
    Parameter(
        name="--skip-checksums",
        group=READING,
        negative=(),
        help="Do not verify the events' checksums.",
    ),
]
SkipTornTail = Annotated[
    bool,
    Parameter(
        name="--skip-torn-tail",
        group=READING,
        negative=(),
        help="If a server's log file ends inside an event, as after a crash of MariaDB, leave the "
        "event out, say so, and continue with the next file. (In files, a crash has left a mark, "
        "and no option is needed.)",
    ),
]
SkipGtids = Annotated[
    bool,
    Parameter(
        name="--skip-gtids",
        group=OUTPUT,
        negative=(),
        help="Write no GTIDs, so that a server which executes the output gives the transactions "
        "new ones.",
    ),
]
RewriteDb = Annotated[
    tuple[str, ...],
    Parameter(
        name="--rewrite-db",
        metavar="FROM=TO",
        group=OUTPUT,
        negative=(),
        help="Rename a database: in rows, and as the default database of statements, but not "
        "inside statements. ``--tables`` and ``--exclude`` use the new name. Give several by "
        "several options.",
    ),
]
Lake = Annotated[
    FileName,
    Parameter(
        name="--into",
        metavar="LAKE",
        group=LAKE,
        help="The lake: a folder, new or existing; for Iceberg also ``CATALOG.SCHEMA``.",
    ),
]
Cores = Annotated[
    int | None,
    Parameter(
        name="--cores",
        metavar="NUMBER",
        group=READING,
        help="How many cores to use; all by default.",
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


def chosen_tables(tables: Sequence[str], exclude: Sequence[str]) -> TableFilter:
    """The tables that ``--tables`` and ``--exclude`` select, given with commas or repeated.

    It records the tables that it was queried for, for `check_tables`.
    """
    return TableFilter.of(patterns(tables) or None, patterns(exclude)).watched()


def patterns(given: Sequence[str]) -> list[str]:
    """Patterns of tables that were given with commas or repeated."""
    return [pattern for each in given for pattern in split_patterns(each)]


def renamed_databases(given: Sequence[str]) -> dict[str, str]:
    """The names of ``--rewrite-db``. Raises UsageError."""
    names: dict[str, str] = {}
    for pair in given:
        old, mark, new = pair.partition("=")
        if not (old and mark and new):
            raise UsageError(f"--rewrite-db: give from=to, not {pair!r}")
        if names.setdefault(old, new) != new:
            raise UsageError(f"--rewrite-db: {old} cannot become both {names[old]} and {new}")
    return names


def key_columns(given: Sequence[str]) -> dict[str, list[str]]:
    """Each is ``shop.t=a,b``. Raises UsageError."""
    found: dict[str, list[str]] = {}
    for each in given:
        name, *columns = split(each, "=", most=1)
        parts = [column.strip() for text in columns for column in text.split(",")]
        if not parts or len([*split(name, ".")]) < 2 or not all(parts):
            raise UsageError(f"--keys {each}: give a table and its columns, as shop.orders=id,line")
        if name.strip() in found:
            raise UsageError(f"--keys {each}: the key of {name} is given twice")
        found[name.strip()] = parts
    return found


def check_cores(cores: int | None) -> None:
    """Raises UsageError for an invalid number of cores."""
    if cores is not None and not 1 <= cores <= (os.cpu_count() or 1) * 16:
        raise UsageError(f"--cores {cores}: give a number of cores from 1 on")
