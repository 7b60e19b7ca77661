"""The pipeline: what it costs, how it scales, how late it is, what it holds.

./run python -m benchmarks pipeline [--part NAME] [--quick] [--minutes 60] [--gigabytes 2]

- parquet: the changelog on one core, against decoding and writing Parquet with pyarrow alone
- cores: the same backlog on two cores and on one
- visible: a row's way from the client's sending it to a reader of the lake, at a 1 s trigger
- memory: of a mirror that follows a server under load
- backlog: a log of some gigabytes, against the server's own replica that applies it
- change: batches of one changed row, into tables of 1 to 16 million
- merge: changes at random keys into a large table, against Spark's Delta MERGE
- small: one change in each of 300 small tables, in one batch
- state: what a commit writes of a lake's own state, how long a lake of 10,000 tables opens, and
  what a batch of one row takes there

Each part is a process of its own, and prints rows of a table in Markdown.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

from benchmarks.pipeline_rows import HEADER, Options, Row
from tools.servers import NAMES

PARTS: Final = (
    "parquet",
    "cores",
    "visible",
    "memory",
    "backlog",
    "change",
    "merge",
    "small",
    "state",
)
_ROOT: Final = Path(__file__).resolve().parent.parent
_RATIO: Final = re.compile(r"mirror, (.+): (.+) x \((.+)\)")


def run(*, quick: bool) -> None:
    """All parts, one after the other; raises SystemExit where one of them failed."""
    if status := command(["--quick"] if quick else []):
        raise SystemExit(status)


def command(arguments: list[str]) -> int:
    """Run the parts that are named, or all of them; gives 1 where one of them failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks pipeline",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one")
    parser.add_argument("--quick", action="store_true", help="fewer rounds of less")
    parser.add_argument("--minutes", type=float, help="of the load, for memory (60; quick 2)")
    parser.add_argument("--gigabytes", type=float, help="of log, for backlog (2; quick 0.2)")
    parser.add_argument("--rounds", type=int, help="of cores and merge, but the first (5; quick 2)")
    parser.add_argument(
        "--server", action="append", choices=NAMES, help="for backlog: mysql-9.7 by default"
    )
    given = parser.parse_args(arguments)
    if given.part is None or len(given.part) > 1:
        others = _without_parts(arguments)
        return max(_apart(part, others) for part in given.part or PARTS)
    options = Options(
        given.quick,
        given.minutes,
        given.gigabytes,
        given.rounds or (2 if given.quick else 5),
        tuple(given.server or ("mysql-9.7",)),
    )
    (part,) = given.part
    rows = _parquet(options) if part == "parquet" else _rows(part, options)
    print(HEADER)
    for row in rows:
        print(row, flush=True)
    return 0


def _without_parts(arguments: list[str]) -> list[str]:
    left = list(arguments)
    while "--part" in left:
        at = left.index("--part")
        del left[at : at + 2]
    return [each for each in left if not each.startswith("--part=")]


def _apart(part: str, others: list[str]) -> int:
    argv = [sys.executable, "-m", "benchmarks", "pipeline", "--part", part, *others]
    return int(subprocess.run(argv, cwd=_ROOT, check=False).returncode != 0)


def _rows(part: str, options: Options) -> list[Row]:
    measured: list[Row] = import_module(f"benchmarks.pipeline_{part}").measure(options)
    return measured


def _parquet(options: Options) -> list[Row]:
    """What ``python -m benchmarks mirror`` prints."""
    argv = [sys.executable, "-m", "benchmarks", "mirror", *(["--quick"] if options.quick else [])]
    done = subprocess.run(argv, cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return [
        Row(
            "parquet",
            f"{kept}, one core, against decoding and pyarrow's Parquet",
            f"{median} times as long ({bounds})",
            "1.5 at most" if kept == "changelog" else "",
        )
        for kept, median, bounds in _RATIO.findall(done.stdout)
    ]
