"""The column path: whole chunks of log into Arrow record batches, by kernels."""

from tailrace.columns.read import changes, read_split
from tailrace.columns.splits import Split, TableChange, plan_splits

__all__ = ["Split", "TableChange", "changes", "plan_splits", "read_split"]
