"""A transaction that is about to be written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.events import GtidEvent, MariadbGtidEvent
    from tailrace.gtid import AnyGtid
    from tailrace.writing.cache import EventCache


@dataclass(slots=True)
class Group:
    """Its events but for the GTID event, and what that event is to say.

    ``timestamp`` is in seconds UTC, ``original_timestamp`` (of the commit where it was first made)
    in microseconds, None for now. ``statements``: it holds statements, not rows alone. ``alone``:
    its one statement commits itself; ``ddl``: and is a definition. ``source`` is the GTID event
    that a transaction from another log came with.
    """

    cache: EventCache
    gtid: AnyGtid | None
    server_id: int
    timestamp: int
    original_timestamp: int | None = None
    statements: bool = False
    alone: bool = False
    ddl: bool = False
    source: GtidEvent | MariadbGtidEvent | None = None
