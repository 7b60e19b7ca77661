"""Whether what is installed fits together, said in one line before anything runs."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from tailrace.errors import PipelineError
from tailrace.spark.java import find_java

_NEEDED: Final = {
    "parquet": {"pyspark": ((4, 1), (4, 4))},
    "delta": {"pyspark": ((4, 1), (4, 4)), "deltalake": ((1, 0), (2, 0))},
    "iceberg": {"pyspark": ((4, 1), (4, 4)), "pyiceberg": ((0, 9), (1, 0))},
}
"""For each format of a lake, the packages and their versions: from, and before which."""
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""What spark-submit says to the program that it runs."""


def check(format: str, *, java: bool = False) -> None:  # noqa: A002 - what Spark calls it
    """Raise `PipelineError` where a package is missing, or is of a version that does not fit.

    With ``java`` also where there is no Java to start a Spark on.
    """
    for package, (first, behind) in _NEEDED[format].items():
        try:
            found = version(package)
        except PackageNotFoundError:
            raise PipelineError(
                f"a lake of format {format} needs {package} {_text(first)} or later, which is not "
                f"installed: pip install '{package}>={_text(first)},<{_text(behind)}'"
            ) from None
        if not first <= _parts(found) < behind:
            raise PipelineError(
                f"a lake of format {format} needs {package} from {_text(first)} on, before "
                f"{_text(behind)}, and {found} is installed: "
                f"pip install '{package}>={_text(first)},<{_text(behind)}'"
            )
    if java and not is_submitted():
        find_java()


def is_submitted() -> bool:
    """Whether spark-submit has started this program, and brought a Spark of its own."""
    return SUBMITTED in os.environ


def _parts(text: str) -> tuple[int, int]:
    major, minor, *_ = (*text.split("."), "0")
    return int(major), int("".join(letter for letter in minor if letter.isdigit()) or 0)


def _text(parts: tuple[int, int]) -> str:
    return ".".join(map(str, parts))
