"""Checks, before anything runs, that the installed packages fit together."""

from __future__ import annotations

import os
from typing import Final

from tailrace.extras import check_version
from tailrace.spark.runtime.java import find_java

_NEEDED: Final = {"delta": "deltalake", "iceberg": "pyiceberg"}
"""The package that writes a format; the extra of the format's name limits its version."""
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""The environment variable that spark-submit sets for the program that it runs."""


def check(format: str) -> None:  # noqa: A002 - what Spark calls it
    """Raise `MissingExtra` if a package is missing, or is of a version that its extra excludes."""
    if format in _NEEDED:
        check_version(format, _NEEDED[format], f"a lake of the format {format}")


def check_spark(what: str, *, java: bool) -> None:
    """Raise `MissingExtra` if PySpark is missing, or is of a version that its extra excludes.

    ``what`` is the task that needs it, for the message. With ``java``, also raise `PipelineError`
    if there is no Java to start a Spark on.
    """
    check_version("spark", "pyspark", what)
    if java and not is_submitted():
        find_java()


def is_submitted() -> bool:
    """Whether spark-submit has started this program, and brought a Spark of its own."""
    return SUBMITTED in os.environ
