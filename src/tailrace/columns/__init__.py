"""The column path: whole chunks of log into Arrow record batches, by kernels."""

from tailrace.extras import importing

with importing("columns", "reading or writing rows as Arrow"):
    from tailrace.columns.read import changes, read_split
    from tailrace.columns.split import Split
    from tailrace.columns.splits import plan_splits
    from tailrace.columns.table_changes import TableChange

__all__ = ["Split", "TableChange", "changes", "plan_splits", "read_split"]
