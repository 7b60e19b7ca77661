"""A log's mark: the first event of its last file, which shows a reset or another server."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace.constants import MAGIC
from tailrace.errors import CannotOpen
from tailrace.events.format_description import file_mark
from tailrace.live.transport import ServerTransport
from tailrace.position import Position
from tailrace.storage import EventReader, LogFile, LogSeries
from tailrace.storage.identity import check_read, other_log

if TYPE_CHECKING:
    from tailrace.log.sources import AnyLog


def check_log(log: AnyLog, place: Position, mark: str | None, remedy: str) -> None:
    """Raise `LogPurged`, `LogReset` where a log is not the one that was read up to a place.

    ``mark`` is that of the place's file, if it is known. A log that can be read only once is not
    checked. Raises what reading raises.
    """
    if isinstance(log, LogSeries):
        if not log.files[-1].joined:
            own = mark_of(log, place.file) if mark is not None else None
            check_read(log, place, remedy, lambda _: own in {None, mark})
    elif mark is not None:
        check_mark(place.file, mark, mark_of(log, place.file), remedy)


def check_mark(file: str, mark: str, found: str | None, remedy: str) -> None:
    """Raise `LogReset` where the mark that was found of a file is another than its own."""
    if found not in {None, mark}:
        raise other_log(file, "its first event is another", remedy)


def mark_of(log: AnyLog, file: str, *, waits: bool = True) -> str | None:
    """The mark of a file of a log (`file_mark`), read ahead of the log itself.

    None if the log can be read once only, and if files have none of that name. Unless it ``waits``,
    a server that is not reached is an error, whatever its URL says. Raises what reading raises.
    """
    first = first_event(log, file, waits=waits)
    return None if first is None else file_mark(first)


def first_event(log: AnyLog, file: str, *, waits: bool = True) -> bytes | None:
    """The first event of a file of a log; arguments and errors are those of `mark_of`."""
    first: bytes | None = None
    if isinstance(log, ServerTransport):
        source = replace(log.source, server_id=None)  # the log's own dump has that id
        if not waits:
            source = replace(source, retry_first=False)
        stream = ServerTransport(source).read(Position(file, len(MAGIC)), follow=False)
        try:
            first = next((event for _, _, event in stream), None)
        finally:
            stream.close()
    elif isinstance(log, LogSeries) and not log.files[-1].joined:
        last = log.files[-1]
        found = {each.name: each for each in log.files}.get(file)
        with suppress(CannotOpen):
            found = found or LogFile.found(last.store, file, last.keyring)  # one that came later
        if found is not None:
            first = next((event for _, event in EventReader(found)), None)
    return first
