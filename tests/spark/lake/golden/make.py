"""Makes golden lakes as README.md here describes them. Released ones are never remade.

./run python -m tests.spark.lake.golden.make LAYOUT FORMAT...
"""

import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest

from tailrace.spark.state.current import jobs, patching
from tests.spark.following import Follow
from tests.spark.lake.test_layouts import ASIDE, GOLDEN, ODD, OPTIONS, PLAIN, READ
from tools.shop import SHOP

FIRST = 1178
"""Bytes of the odd log in the first batch."""


KEYS = {str(name): ["id"] for name in (ASIDE, PLAIN)}


def failing(original):
    """A fold that fails for the table with a column ``bad``."""

    def fold(job, *more):
        if "bad" in job.target.columns.names:
            raise ZeroDivisionError("division by zero")
        return original(job, *more)

    return fold


def follow(kind):
    with Follow("logs", Path("/proc/self/cwd", kind), format=kind, keys=KEYS, **OPTIONS) as run:
        while not any(each.report for each in run.moments) and run.error is None:
            run._thread.join(0.01)
    assert run.error is None, run.error


def make(layout, kinds):
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            os.chdir(folder)
            for source in ("mariadb", "odd"):
                Path("logs", source).mkdir(parents=True)
            shutil.copy(SHOP / "mariadb" / "binlog.000001", "logs/mariadb")
            odd = Path("logs", "odd", "binlog.000001")
            odd.write_bytes(ODD.read_bytes()[:FIRST])
            patch.setattr(patching, "DEFAULT_PATCHES", patching.Patches(least=0, share=1))
            follow(kind)
            second = SHOP / "mariadb" / "binlog.000002"
            for name, path in zip(READ, (second, ODD), strict=True):
                Path("logs", name).write_bytes(path.read_bytes()[: READ[name]])
            patch.setattr(jobs.FoldJob, "do", failing(jobs.FoldJob.do))
            follow(kind)
            with tarfile.open(GOLDEN / f"layout-{layout}.{kind}.tar.xz", "w:xz") as packed:
                packed.add(kind)


if __name__ == "__main__":
    make(int(sys.argv[1]), sys.argv[2:])
