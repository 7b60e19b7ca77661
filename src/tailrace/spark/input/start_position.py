"""Where reading begins: in a server's log by its URL, in files by position or GTIDs.

Where a new lake begins in a server's log is written down before anything is copied:

    lake/_tailrace/sources/db1.example.org_3306.begin.json
    {"version": 1, "file": "binlog.000003", "offset": 1234, "start": "now"}

The next run continues from there where this one was killed or had nothing to commit: what ``now``
meant at first is not asked again. A URL with another start begins there, and so does the next run
after one that was rejected.
"""

from __future__ import annotations

import json
import shutil
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace.constants import MAGIC
from tailrace.errors import StorageError, UsageError
from tailrace.gtid import GtidSet
from tailrace.live.feed import find_time
from tailrace.live.session import Session
from tailrace.live.transport import ServerStream, ServerTransport
from tailrace.log.events import gtids_at
from tailrace.log_name import file_number
from tailrace.position import Position
from tailrace.printable import printable
from tailrace.selection import start_text
from tailrace.spark.manifest.damage import reading_file
from tailrace.spark.manifest.json_file import read_json
from tailrace.spark.manifest.on_disk import write_file
from tailrace.storage.search import Beginnings, gtids_before
from tailrace.times import Time
from tailrace.transports import SeriesTransport
from tailrace.transports.base import check_among
from tailrace.transports.gtids import Awaited, already_read, locate_gtids, read_after

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.gtid import GtidState
    from tailrace.live.url import Source
    from tailrace.storage import LogFile, LogSeries

_VERSION: Final = 1
SUFFIX: Final = ".begin.json"


def begin_of(source: Source, path: Path, end: Position | None) -> tuple[Position | None, bool]:
    """Where a new lake begins in a server's log (None: at its oldest), and whether that was
    determined now. ``path`` is where it is written down, or was; ``end`` where the log ended, if
    that was asked.

    Where the URL says another start than that of before, what was received since that is deleted.
    Raises UsageError for GTIDs of which some come after the place, PipelineError for a file that
    is not ours, and what asking the server raises.
    """
    given = None if source.start is None else start_text(source.start)
    if path.exists():
        place, start = load(path)
        if given in {None, start}:
            return place, False
        forget(path)
    found = located(source, end)
    if found is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "version": _VERSION,
            "file": found.file,
            "offset": found.offset,
            "start": given,
        }
        write_file(path, json.JSONEncoder().iterencode(content))
    return found, found is not None


def forget(path: Path) -> None:
    """Delete where a lake was to begin, and what was received from there on."""
    shutil.rmtree(path.with_name(path.name.removesuffix(SUFFIX)), ignore_errors=True)
    path.unlink(missing_ok=True)


def load(path: Path) -> tuple[Position, str]:
    """What was written down: the place, and the start in the URL. Raises PipelineError."""
    with reading_file(path, "where this lake begins (create a new lake)"):
        found = read_json(path)
        file, offset, start = found["file"], found["offset"], found["start"]
        whole = type(file) is str and type(offset) is int and type(start) is str
        if found["version"] != _VERSION or not whole:
            raise ValueError("its version or its values are not ours")
        return Position(file, offset), start


def located(source: Source, end: Position | None) -> Position | None:
    """Where a server's log is to be read from by the start in its URL; None: from its oldest file.
    ``end`` is as in `begin_of`.

    Raises UsageError for GTIDs of which some come after the place, and what asking it raises.
    """
    start = source.start
    if start is None or start == "oldest" or isinstance(start, Position):
        return start if isinstance(start, Position) else None
    if start == "now" and end is not None:
        return end
    with Session.open(source) as session:
        end = session.end()
        if start == "now":
            return end
        if isinstance(start, Time):
            return find_time(session, start.microseconds)
    alone = replace(source, start=None, server_id=None)
    place = end
    with closing(iter(ServerStream(alone, start, follow=False))) as records:
        for first in Beginnings(records, end):
            place = Position(first.file or "", first.offset or 0)
            break
    log = ServerTransport(alone)
    logged = gtids_at(log, end)
    if isinstance(start, GtidSet) and isinstance(logged, GtidSet):
        start &= logged  # others never come from this server
    later = Awaited(start)
    later.without(gtids_at(log, place))
    if later.left:
        raise _gap(source.name, place, later.left)
    return place


def after_gtids(series: LogSeries, start: GtidState) -> Position:
    """The same of a log in files, for GTIDs. Raises UsageError, GtidError."""
    read = already_read(start)
    place = locate_gtids(series.files, read)
    if gaps := read_after(series.files, place, read):
        raise _gap(series.name, place, f"some that are (at {gaps[0][0]}:{gaps[0][1]})")
    return place


def _gap(name: str, place: Position, later: str) -> UsageError:
    return UsageError(
        f"{name}: the GTIDs to begin after have a gap: the first transaction that is not among them"
        f" begins at {place}, and {printable(later)[:200]} come after it, and would be read again:"
        " give a position (FILE:OFFSET)"
    )


def check_begin(series: LogSeries, place: Position) -> None:
    """Raise UsageError where a place is not between the transactions of a log.

    Events of the server's own may stand there, as those by which MariaDB notes a checkpoint.
    """
    check_among(place, [log.name for log in series.files], series.name)
    files = [log for log in series.files if log.name == place.file]
    with suppress(StorageError):
        is_before_event = len(MAGIC) <= place.offset < files[0].size
        if is_before_event and SeriesTransport(series).begin_of(place) == place:
            return
    begins = Beginnings.of(files)
    if begins.allows(place):
        return
    raise UsageError(
        f"no transaction begins at {place}: reading begins where one ended, as {begins.end}"
    )


def is_first(log: LogFile) -> bool:
    """Whether a file is the first that its server wrote: number 1, and no GTIDs before it."""
    if file_number(log.name) != 1:
        return False
    try:
        return not gtids_before(log)[1]
    except StorageError:
        return False
