"""Content handlers: they process events on the way from a log to its reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.lazy import lazy

if TYPE_CHECKING:
    from tailrace.handlers.assembler import Assembler
    from tailrace.handlers.base import Handler, InjectionQueue, Outcome
    from tailrace.handlers.by_gtid import ByGtid
    from tailrace.handlers.by_server_id import ByServerId
    from tailrace.handlers.by_table import ByTable
    from tailrace.handlers.by_time import ByTime
    from tailrace.handlers.by_type import ByType
    from tailrace.handlers.groups import GroupFilter
    from tailrace.handlers.pipeline import Pipeline
    from tailrace.handlers.rename import Rename
    from tailrace.handlers.rows_filter import RowsFilter
    from tailrace.handlers.table_index import IndexedTable, TableIndex

__all__ = [
    "Assembler",
    "ByGtid",
    "ByServerId",
    "ByTable",
    "ByTime",
    "ByType",
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
    "Assembler": "assembler",
    "ByGtid": "by_gtid",
    "ByServerId": "by_server_id",
    "ByTable": "by_table",
    "ByTime": "by_time",
    "ByType": "by_type",
    "GroupFilter": "groups",
    "Handler": "base",
    "IndexedTable": "table_index",
    "InjectionQueue": "base",
    "Outcome": "base",
    "Pipeline": "pipeline",
    "Rename": "rename",
    "RowsFilter": "rows_filter",
    "TableIndex": "table_index",
}

__getattr__: Final = lazy(__name__, _MODULES)
