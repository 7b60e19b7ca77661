"""Spark's Python worker daemon, started faster.

Spark puts its own ``pyspark.zip`` before everything else on a worker's path; importing from a zip
file compiles each module anew and costs a second. Where pyspark is installed as a package, as it is
wherever this module can be imported beside it, the zip holds the same and is taken off the path.
`tailrace.spark.session` names this module in ``spark.python.daemon.module``. It stands outside of
that package, whose import would bring pyspark in before the path is clean.
"""

from __future__ import annotations

import runpy
import sys
from importlib import import_module
from pathlib import Path


def main() -> None:
    """Run ``pyspark.daemon`` as Spark would, without the zip files on the path.

    What tasks need is imported first: workers are forked from here, and find it done.
    """
    sys.path[:] = [
        entry
        for entry in sys.path
        if not (entry.endswith(".zip") and Path(entry).name.startswith(("pyspark", "py4j-")))
    ]
    import_module("tailrace.spark.splits")
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
