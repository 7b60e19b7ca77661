"""MySQL's and MariaDB's replication stream in Python, and a Spark pipeline that lands it in a lake.

`open` iterates over a log's events, `changes` over its rows as Arrow record batches; `create` makes
a log, `append` goes on with one, and a `Table` says how the rows that go into it are laid out.
`receive` keeps a byte-identical copy of a server's logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.log import Log, open  # noqa: A004 - it is tailrace.open

if TYPE_CHECKING:
    from tailrace.columns import changes
    from tailrace.replication.receiver import receive
    from tailrace.schema.table import Table
    from tailrace.writing import append, create

__all__ = ["Log", "Table", "append", "changes", "create", "open", "receive"]


def __getattr__(name: str) -> Any:
    """Import what needs pyarrow, and what readers do without, only when it is asked for."""
    if name == "changes":
        from tailrace.columns import changes  # noqa: PLC0415 - `import tailrace` stays light

        return changes
    if name == "Table":
        from tailrace.schema.table import Table  # noqa: PLC0415 - `import tailrace` stays light

        return Table
    if name == "receive":
        from tailrace.replication.receiver import receive  # noqa: PLC0415 - as above

        return receive
    if name in {"append", "create"}:
        from tailrace import writing  # noqa: PLC0415 - `import tailrace` stays light

        return getattr(writing, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
