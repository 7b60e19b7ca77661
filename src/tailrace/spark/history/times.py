"""When statements were committed, as the log has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import EventDecodeError
from tailrace.events import DecodeContext
from tailrace.events.gtids import GtidEvent
from tailrace.events.query import QueryEvent
from tailrace.storage import EventReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.columns import Split, TableChange

_MILLION = 1_000_000


def commit_times(splits: Sequence[Split]) -> dict[int, int]:
    """For each statement that changed a table, by ``_seq``: microseconds UTC, as ``_ts`` of rows.

    Raises LogError where a statement cannot be read any more.
    """
    found: dict[int, int] = {}
    for split in splits:
        for change in split.changes:
            if split.start <= change.offset < split.end and change.seq not in found:
                found[change.seq] = _commit_time(split, change)
    return found


def _commit_time(split: Split, change: TableChange) -> int:
    context = DecodeContext()
    micros: int | None = None
    for at, raw in EventReader(split.log, start=change.began or change.offset):
        event = context.decode(raw, file=split.file, offset=at)
        if at > change.offset:
            break
        if isinstance(event, GtidEvent):
            micros = event.commit_timestamp
        elif at == change.offset and isinstance(event, QueryEvent):
            return micros or event.timestamp * _MILLION
    raise EventDecodeError(
        "the statement that stood here is gone", file=split.file, offset=change.offset
    )
