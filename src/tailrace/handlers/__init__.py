"""Content handlers: they process events on the way from a log to its reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.lazy import lazy

if TYPE_CHECKING:
    from tailrace.handlers.base import (
        CONSUMED,
        EventDropped,
        Handler,
        InjectionQueue,
        Outcome,
    )
    from tailrace.handlers.filters import ByGtid, ByServerId, ByTable, ByTime, ByType, GroupFilter
    from tailrace.handlers.pipeline import Pipeline
    from tailrace.handlers.rename import Rename
    from tailrace.handlers.rows_filter import RowsFilter
    from tailrace.handlers.transactions import Assembler, IndexedTable, TableIndex

__all__ = [
    "CONSUMED",
    "Assembler",
    "ByGtid",
    "ByServerId",
    "ByTable",
    "ByTime",
    "ByType",
    "EventDropped",
    "GroupFilter",
    "Handler",
    "IndexedTable",
    "InjectionQueue",
    "Outcome",
    "Pipeline",
    "Rename",
    "RowsFilter",
    "TableIndex",
]

_MODULES: Final = {
    "Assembler": "transactions",
    "CONSUMED": "base",
    "ByGtid": "filters",
    "ByServerId": "filters",
    "ByTable": "filters",
    "ByTime": "filters",
    "ByType": "filters",
    "EventDropped": "base",
    "GroupFilter": "filters",
    "Handler": "base",
    "IndexedTable": "transactions",
    "InjectionQueue": "base",
    "Outcome": "base",
    "Pipeline": "pipeline",
    "Rename": "rename",
    "RowsFilter": "rows_filter",
    "TableIndex": "transactions",
}

if not TYPE_CHECKING:  # else any name would do
    __getattr__ = lazy(__name__, _MODULES)
