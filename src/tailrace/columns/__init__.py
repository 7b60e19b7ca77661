"""The column path: whole chunks of log into Arrow record batches, by kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tailrace.extras import importing
from tailrace.lazy import lazy

if TYPE_CHECKING:
    from tailrace.columns.planner import plan_splits
    from tailrace.columns.read import changes, read_split
    from tailrace.columns.split import Split
    from tailrace.columns.table_changes import TableChange

__all__ = ["Split", "TableChange", "changes", "plan_splits", "read_split"]

_MODULES: Final = {
    "Split": "split",
    "TableChange": "table_changes",
    "changes": "read",
    "plan_splits": "planner",
    "read_split": "read",
}


_get: Final = lazy(__name__, _MODULES)


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for: a command that prints rows needs none of them."""
    with importing("columns", "reading or writing rows as Arrow"):
        return _get(name)
