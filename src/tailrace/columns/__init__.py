"""The column path: kernels turn whole chunks of log into Arrow record batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tailrace.extras import importing
from tailrace.lazy import lazy

if TYPE_CHECKING:
    from tailrace.columns.batches import changes, read_split
    from tailrace.columns.read.planner import plan_splits
    from tailrace.columns.read.split import Split
    from tailrace.columns.read.table_changes import TableChange
    from tailrace.columns.results import Batch, Batches
    from tailrace.columns.whole_table import table

__all__ = [
    "Batch",
    "Batches",
    "Split",
    "TableChange",
    "changes",
    "plan_splits",
    "read_split",
    "table",
]

_MODULES: Final = {
    "Batch": "results",
    "Batches": "results",
    "Split": "read.split",
    "TableChange": "read.table_changes",
    "changes": "batches",
    "plan_splits": "read.planner",
    "read_split": "batches",
    "table": "whole_table",
}


_get: Final = lazy(__name__, _MODULES)

if not TYPE_CHECKING:  # else any name would do

    def __getattr__(name: str) -> Any:
        """Import a name when it is first used: a command that prints rows needs none of them."""
        with importing("columns", "reading or writing rows as Arrow"):
            return _get(name)
