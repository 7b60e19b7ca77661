"""Spark's Python worker daemon, started faster.

Spark puts its own archives first on a worker's path: ``pyspark.zip``, py4j's, and the jar of its
core. Importing from a zip file compiles each module again, which costs a second. And each task
begins with ``importlib.invalidate_caches()``, which reads the lists of all archives on the path
again: 50 to 150 ms. If pyspark is installed as a package, as it is wherever this module can be
imported alongside it, the archives hold nothing else, and are removed from the path.
`tailrace.spark.runtime.session` names this module in ``spark.python.daemon.module``. It is outside
of that package, whose import would load pyspark before the path is clean.
"""

from __future__ import annotations

import runpy
import sys
from importlib import import_module
from pathlib import Path

_ARCHIVES = {".zip": ("pyspark", "py4j-"), ".jar": ("spark-core_",)}


def _is_archive(entry: str) -> bool:
    """Whether an entry of the path is one of Spark's own archives."""
    path = Path(entry)
    return path.name.startswith(_ARCHIVES.get(path.suffix, ("\0",)))


def main() -> None:
    """Run ``pyspark.daemon`` as Spark would, without the zip files on the path.

    Modules that tasks need are imported first: workers are forked from this process, and share
    them.
    """
    sys.path[:] = [entry for entry in sys.path if not _is_archive(entry)]
    for entry in [entry for entry in sys.path_importer_cache if _is_archive(entry)]:
        del sys.path_importer_cache[entry]
    import_module("tailrace.spark.mirror.decode")
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
