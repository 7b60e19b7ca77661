"""The same backlog through tasks on two cores, and on one.

A process each, kept to its cores, has a session of its own that runs already; they take turns. A
second is that of a call of `mirror`: the plan, the tasks and the commit.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import logs
from benchmarks.pipeline_rows import Options, Row, keep_to, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOT: Final = Path(__file__).resolve().parent.parent
KEEPS: Final = (("changelog",), ("changelog", "current"))


class _Cores:
    """A process on so many cores."""

    def __init__(self, cores: int, log: Path) -> None:
        argv = [sys.executable, "-m", "benchmarks.pipeline_cores", str(cores), str(log)]
        self._process = subprocess.Popen(
            argv, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, keep: Sequence[str]) -> float:
        """The seconds of one run."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the process has no pipes")
        self._process.stdin.write(json.dumps(keep) + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def measure(options: Options) -> list[Row]:
    """How many times as fast two cores are."""
    rows = 1_000_000 if options.quick else 4_000_000
    log = logs.log("bulk", rows=rows)
    one, two = _Cores(1, log), _Cores(2, log)
    found = []
    for keep in KEEPS:
        times: dict[int, list[float]] = {1: [], 2: []}
        for number in range(options.rounds + 1):
            for cores, run in ((1, one), (2, two)):
                seconds = run(keep)
                if number:
                    times[cores].append(seconds)
        ratios = [a / b for a, b in zip(times[1], times[2], strict=True)]
        size = log.stat().st_size / 1e6
        found.append(
            Row(
                "cores",
                f"{' and '.join(keep)}, {size:.0f} MB of log: one core {spread(times[1], ' s')},"
                f" two {spread(times[2], ' s')}",
                f"{spread(ratios)} times as fast",
                "1.7" if keep == ("changelog",) else "",
            )
        )
    one.close()
    two.close()
    return found


def _work(cores: int, log: Path) -> None:
    """Read what is to be kept, mirror, and print the seconds; again and again."""
    keep_to(cores)
    from tailrace.spark import mirror, session  # noqa: PLC0415 - on the cores chosen

    spark = session(cores)
    folder = Path(tempfile.mkdtemp(prefix="tailrace-cores-"))
    try:
        for line in sys.stdin:
            began = time.perf_counter()
            mirror(log, folder / "lake", spark=spark, keep=json.loads(line))
            print(time.perf_counter() - began, flush=True)
            shutil.rmtree(folder / "lake")
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _work(int(sys.argv[1]), Path(sys.argv[2]))
