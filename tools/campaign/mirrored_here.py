"""A mirror in this process, without Spark: a small batch is done right here."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import PipelineError
from tailrace.spark import mirror
from tailrace.spark.lake.delta import tables as delta
from tailrace.spark.lake.iceberg import catalog as iceberg_catalog
from tailrace.spark.lake.iceberg import tables as iceberg

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.spark import MirrorReport

_ONCE: Final = (delta, iceberg, iceberg_catalog)
"""They take longer to import than a scenario does: here, and not in each forked process."""


def mirrored(logs: Path, lake: Path, kind: str, **options: Any) -> MirrorReport:
    """Bring a lake up to the end of its logs. Raises what `mirror` raises."""
    stop = threading.Event()

    def on_moment(moment: Any) -> None:
        if moment.report is None:
            stop.set()

    given = {"spark": no_spark, "follow": True, "trigger": 0.02, **options}
    return mirror(logs, lake, format=kind, stop=stop, on_moment=on_moment, **given)


def no_spark() -> Any:
    """What a mirror of little never asks for."""
    raise PipelineError("this much would take Spark")
