"""MySQL's and MariaDB's replication stream in Python, and a Spark pipeline that lands it in a lake.

`open` iterates over a log's events, `changes` over its rows as Arrow record batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.log import Log, open  # noqa: A004 - it is tailrace.open

if TYPE_CHECKING:
    from tailrace.columns import changes

__all__ = ["Log", "changes", "open"]


def __getattr__(name: str) -> Any:
    """Import what needs pyarrow only when it is asked for."""
    if name == "changes":
        from tailrace.columns import changes  # noqa: PLC0415 - `import tailrace` stays light

        return changes
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
