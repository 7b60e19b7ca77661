"""Whether what is installed fits together, which one line says before anything runs."""

from __future__ import annotations

import os
from typing import Final

from tailrace.extras import check_version
from tailrace.spark.java import find_java

_NEEDED: Final = {
    "parquet": {"spark": "pyspark"},
    "delta": {"spark": "pyspark", "delta": "deltalake"},
    "iceberg": {"spark": "pyspark", "iceberg": "pyiceberg"},
}
"""For each format of a lake, the packages that matter, by the extra that limits their versions."""
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""What spark-submit says to the program that it runs."""


def check(format: str, *, java: bool = False) -> None:  # noqa: A002 - what Spark calls it
    """Raise `MissingExtra` if a package is missing, or is of a version that its extra excludes.

    With ``java``, also `PipelineError` if there is no Java to start a Spark on.
    """
    for extra, package in _NEEDED[format].items():
        check_version(extra, package, f"a lake of the format {format}")
    if java and not is_submitted():
        find_java()


def is_submitted() -> bool:
    """Whether spark-submit has started this program, and brought a Spark of its own."""
    return SUBMITTED in os.environ
