"""By what an index knows its log again: logs may be reset, and a URL may lead to another server."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from tailrace.constants import MAGIC
from tailrace.errors import LogReset
from tailrace.live.chunks import stamp
from tailrace.live.transport import ServerTransport
from tailrace.position import Position
from tailrace.storage import EventReader, LogSeries

if TYPE_CHECKING:
    from tailrace.log.sources import AnyLog
    from tailrace.search.shard import State


def mark_of(log: AnyLog, file: str) -> str | None:
    """A digest of a file's first event: when the file was created, and by which server.

    None if the log can be read once only, or has no such file. Raises what reading raises.
    """
    first: bytes | None = None
    if isinstance(log, ServerTransport):
        stream = log.read(Position(file, len(MAGIC)), follow=False)
        try:
            first = next((event for _, _, event in stream), None)
        finally:
            stream.close()
    elif isinstance(log, LogSeries):
        for each in log.files:
            if each.name == file:
                first = next((event for _, event in EventReader(each)), None)
    return None if first is None else blake2b(stamp(bytes(first)), digest_size=8).hexdigest()


def check_log(log: AnyLog, state: State) -> None:
    """Raise LogReset if a log is not the one that an index has read."""
    if state.position is None or state.mark is None:
        return
    if mark_of(log, state.position.file) not in {None, state.mark}:
        raise LogReset(
            f"{log.name}: {state.position.file} is not the file that was indexed: the logs were"
            " reset, or are another server's. Build the index again, in another folder"
        )
