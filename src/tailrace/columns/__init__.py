"""The column path: whole chunks of log into Arrow record batches, by kernels."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tailrace.extras import importing

if TYPE_CHECKING:
    from tailrace.columns.read import changes, read_split
    from tailrace.columns.split import Split
    from tailrace.columns.splits import plan_splits
    from tailrace.columns.table_changes import TableChange

__all__ = ["Split", "TableChange", "changes", "plan_splits", "read_split"]

_MODULES: Final = {
    "Split": "split",
    "TableChange": "table_changes",
    "changes": "read",
    "plan_splits": "splits",
    "read_split": "read",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for: a command that prints rows needs none of them."""
    if name in _MODULES:
        with importing("columns", "reading or writing rows as Arrow"):
            return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
