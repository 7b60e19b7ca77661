"""The options that commands share: their declarations, and what their texts mean."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tailrace.errors import UsageError
from tailrace.schema import Catalogue
from tailrace.selection import gtids_of
from tailrace.table_filter import TableFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.handlers import GroupFilter

Sources = Annotated[
    str,
    Parameter(
        help="Log files, folders of logs, or index files; their URLs, ``s3://`` and others, too; "
        "``-`` is standard input, read in its place among them. ``mysql://user@host:3306`` (or "
        "``mariadb://``) is a running server; its password is read from TAILRACE_PASSWORD, "
        "~/.my.cnf or MYSQL_PWD, or prompted for.",
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
Start = Annotated[
    str | None,
    Parameter(
        name="--start",
        help="Begin at a position (``binlog.000003:1234``, of standard input ``-:1234``) or file, "
        "after GTIDs that were read already (``uuid:1-77``, ``0-1-77``), with the first "
        "transaction committed at a time or later (``2026-11-21T09:30:00``, UTC unless it has a "
        "zone, like ``+02:00``), or ``now``.",
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
Follow = Annotated[
    bool,
    Parameter(
        name="--follow",
        negative=(),
        help="Do not end at the present end: wait there for more, until Ctrl-C or SIGTERM.",
    ),
]
Lake = Annotated[
    str,
    Parameter(
        name="--into",
        help="The lake: a new or existing folder; for Iceberg also ``CATALOG.SCHEMA``.",
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
Layers = Annotated[
    tuple[str, ...],
    Parameter(
        name="--layers",
        negative=(),
        help="A layer on the files, as ``zstd``; repeated, the lowest first. Files named ``.zst`` "
        "are read without it.",
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
RewriteDb = Annotated[
    tuple[str, ...],
    Parameter(
        name="--rewrite-db",
        help="Rename a database, ``from=to`` (repeatable): in rows, and as the default database of "
        "statements; names inside statements stay. ``--tables`` and ``--exclude`` use the new "
        "names.",
        negative=(),
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
    return [pattern.strip() for each in given for pattern in each.split(",")]


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


def known_tables(schema: Path | None) -> Catalogue:
    """The user's schema file as a catalogue."""
    catalogue = Catalogue()
    if schema is not None:
        from tailrace.schema import load  # noqa: PLC0415 - only where one is given

        catalogue.given(load(schema))
    return catalogue


def keys(given: Sequence[str]) -> dict[str, list[str]]:
    """Each is ``shop.t=a,b``. Raises UsageError."""
    found: dict[str, list[str]] = {}
    for each in given:
        name, equals, columns = each.partition("=")
        parts = [column.strip() for column in columns.split(",")]
        if not equals or "." not in name or not all(parts):
            raise UsageError(f"--key {each}: give a table and its columns, as shop.orders=id,line")
        if name.strip() in found:
            raise UsageError(f"--key {each}: the key of {name} is given twice")
        found[name.strip()] = parts
    return found


def check_cores(cores: int | None) -> None:
    """Raises UsageError for an invalid number of cores."""
    if cores is not None and not 1 <= cores <= (os.cpu_count() or 1) * 16:
        raise UsageError(f"--cores {cores}: give a number of cores from 1 on")
