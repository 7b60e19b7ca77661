"""What commands that read logs have in common: their options, and what they say on stderr."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

from cyclopts import Parameter

from tailrace.cli.rename import RenamingReader
from tailrace.errors import UsageError
from tailrace.reader import Reader
from tailrace.schema import Catalogue, load
from tailrace.selection import Selection, wants
from tailrace.storage import find_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tailrace.records import Changes
    from tailrace.storage import LogSeries

Sources = Annotated[
    str,
    Parameter(
        help="Log files, folders of logs, or index files; their URLs, ``s3://`` and others, too; "
        "``-`` is standard input.",
        name="source",
    ),
]
Tables = Annotated[
    tuple[str, ...],
    Parameter(
        name="--tables",
        help="Only these tables: patterns as ``shop.orders,shop.*``, with commas or repeated.",
        negative=(),
    ),
]
From = Annotated[
    str | None,
    Parameter(
        name="--from",
        help="Begin with the transaction at a position (``binlog.000003:1234``), a GTID or a time "
        "(ISO-8601, in UTC), or the first behind it.",
    ),
]
Until = Annotated[
    str | None,
    Parameter(name="--until", help="End before the transaction at such a place."),
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


def say(text: str) -> None:
    """A line on stderr."""
    sys.stdout.flush()
    print(f"tailrace: {text}", file=sys.stderr)  # noqa: T201 - the command line's own voice


def split_patterns(tables: Sequence[str]) -> list[str]:
    """The patterns of ``--tables``, given with commas or one by one."""
    patterns = [pattern.strip() for each in tables for pattern in each.split(",")]
    if any(not pattern for pattern in patterns):
        raise UsageError("--tables: a pattern is empty")
    return patterns


def known_tables(schema: Path | None) -> Catalogue:
    """The user's schema file as a catalogue."""
    catalogue = Catalogue()
    if schema is not None:
        catalogue.given(load(schema))
    return catalogue


def readers(
    sources: Sequence[str],
    *,
    tables: Sequence[str] = (),
    start: str | None = None,
    end: str | None = None,
    schema: Path | None = None,
    keyring: str | None = None,
    skip_checksums: bool = False,
    names: Mapping[str, str] | None = None,
    rows: bool = True,
) -> Iterator[Reader]:
    """A reader for each series of logs that the sources hold, as the options say.

    ``names`` are databases to rename; ``tables`` are then the new names. Without ``rows`` no table
    is resolved: events are all that is looked at.
    """
    selection = Selection.parse(start, end)
    patterns = split_patterns(tables)
    series = find_series(sources, keyring)
    if len(series) > 1 and any(
        bound is not None and bound.position is not None
        for bound in (selection.start, selection.end)
    ):
        listed = ", ".join(each.name for each in series)
        raise UsageError(f"a position is one log's, and there are several ({listed}): give one")
    catalogue = known_tables(schema)
    make = partial(RenamingReader, names=names) if names else Reader
    for each in series:
        yield make(
            each,
            selection=selection,
            wants=wants((patterns or None) if rows else []),
            catalogue=catalogue,
            verify_checksums=not skip_checksums,
            notice=say,
        )


def find_series(sources: Sequence[str], keyring: str | None = None) -> list[LogSeries]:
    """The series of all sources. Raises UsageError where there is no source."""
    if not sources:
        raise UsageError("give a log: a file, a folder of logs, an index file or - (stdin)")
    return find_all(sources, keyring)


def say_how_it_ended(reader: Reader) -> None:
    """Tell of a log that is being written, and of events that were passed over."""
    log = reader.log
    if log.torn_tail is not None:
        say(f"{log.torn_tail}: the log ends inside an event; it is still written, or was cut off")
    if log.ignored:
        say(f"{log.ignored} events of unknown type, which the log marks ignorable, passed over")


def say_what_was_left(changes: Changes) -> None:
    """Tell of statements that were passed over, and of a transaction without an end."""
    name = changes.reader.series.name
    if changes.skipped_statements:
        say(
            f"{name}: {changes.skipped_statements} changes that were logged as statements "
            "skipped: their rows are not in the log"
        )
    if changes.unfinished:
        say(
            f"{name}: the log has no end of a transaction: its rows are left out "
            f"({changes.unfinished} rows events)"
        )


def standard_output() -> TextIO:
    """Stdout in UTF-8; what cannot be written is escaped."""
    out: Any = sys.stdout
    if hasattr(out, "reconfigure"):
        out.reconfigure(encoding="utf-8", errors="backslashreplace")
    stream: TextIO = out
    return stream
