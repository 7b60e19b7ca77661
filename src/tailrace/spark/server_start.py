"""Where a new lake begins in a server's log, by its URL; written down before anything is copied.

    lake/_tailrace/sources/db1.example.org_3306.begin.json    {"version": 1, "file": …, "offset": …}

A run that ends before it has committed anything is gone on with from there: what ``now`` meant at
first is not asked again.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace.errors import PipelineError, UsageError
from tailrace.gtid import GtidSet
from tailrace.live.identity import Identity
from tailrace.live.session import Session
from tailrace.live.since import find_time
from tailrace.live.transport import ServerStream
from tailrace.position import Position
from tailrace.selection import Time, start_text
from tailrace.storage.search import Beginnings

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.live.url import Source
    from tailrace.storage import LogFile

_VERSION: Final = 1


def begin_of(source: Source, path: Path) -> Position | None:
    """Where a new lake begins in a server's log; None: at its oldest. ``path`` is where that is
    written down, or was.

    Raises UsageError for GTIDs with gaps, PipelineError for a file that is not ours, and what
    asking the server raises.
    """
    if path.exists():
        return load(path)
    place = _found(source)
    if place is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"version": _VERSION, "file": place.file, "offset": place.offset})
        new = path.with_suffix(".new")
        new.write_text(f"{text}\n", encoding="utf-8")
        new.replace(path)
    return place


def load(path: Path) -> Position:
    """What was written down. Raises PipelineError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["version"] == _VERSION:
            return Position(str(found["file"]), int(found["offset"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise PipelineError(f"{path}: it does not say where this lake begins: create a new lake")


def _found(source: Source) -> Position | None:
    start = source.start
    if start is None or start == "oldest" or isinstance(start, Position):
        return start if isinstance(start, Position) else None
    with Session.open(source, source.hosts[0], Identity()) as session:
        end = session.end()
        if start == "now":
            return end
        if isinstance(start, Time):
            return find_time(session, start.microseconds)
    if isinstance(start, GtidSet) and any(
        len(runs) > 1 or runs[0][0] != 1 for runs in start.sources.values()
    ):
        raise UsageError(
            f"{source.name}: the GTIDs to begin after have gaps ({start_text(start)[:200]}), and a"
            " mirror begins at one place: give ?position=FILE:OFFSET"
        )
    alone = replace(source, start=None, server_id=None)
    with closing(iter(ServerStream(alone, start, follow=False))) as records:
        for first in Beginnings(records, end):
            return Position(first.file or "", first.offset or 0)
    return end


def check_begin(log: LogFile, place: Position) -> None:
    """Raise UsageError where no transaction begins or ends at a place of a log."""
    begins = Beginnings.of([log])
    for event in begins:
        if (event.offset or 0) >= place.offset:
            if event.offset == place.offset:
                return
            break
    if begins.end.offset != place.offset:
        raise UsageError(
            f"no transaction begins at {place}: a mirror begins where one ended, as {begins.end}"
        )
