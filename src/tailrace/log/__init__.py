"""A log by its URL: as events (`open`), as events with their transaction (`Reader`), as committed
changes (`Changes`), and counted (`Statistics`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.lazy import lazy

if TYPE_CHECKING:
    from tailrace.log.changes import Changes
    from tailrace.log.events import Log, open  # noqa: A004 - it is tailrace.open
    from tailrace.log.reader import Reader
    from tailrace.log.statistics import Statistics

__all__ = ["Changes", "Log", "Reader", "Statistics", "open"]

_MODULES: Final = {
    "Changes": "changes",
    "Log": "events",
    "Reader": "reader",
    "Statistics": "statistics",
    "open": "events",
}

if not TYPE_CHECKING:  # else any name would do
    __getattr__ = lazy(__name__, _MODULES)
