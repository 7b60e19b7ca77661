"""A mirror in the process of a scenario, without Spark: a small batch is done right here."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import PipelineError
from tailrace.spark import mirror
from tailrace.spark.lake import delta, iceberg, iceberg_catalog

if TYPE_CHECKING:
    from pathlib import Path

_ONCE: Final = (delta, iceberg, iceberg_catalog)
"""They take longer to import than a scenario does: here, and not in each forked process."""


def mirrored(logs: Path, lake: Path, kind: str, **options: Any) -> None:
    """Bring a lake up to the end of its logs, in one batch. Raises what `mirror` raises."""
    stop = threading.Event()
    mirror(
        logs,
        lake,
        format=kind,
        follow=True,
        stop=stop,
        on_moment=lambda _: stop.set(),
        spark=_no_spark,
        **options,
    )


def _no_spark() -> Any:
    raise PipelineError("this much would take Spark")
