"""One change in each of many small tables, in one batch: what a batch costs for each table.

A log that tailrace writes has 300 tables of 100 rows in its first file, and in each later one a
transaction for each table, which updates a row. `mirror` follows the log and receives the next file
when it has committed the one before: each file is a batch. The first two batches do not count.
Each format is a process of its own, and measures its own seconds of the processor too, in which
other processes of the machine show less.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import tailrace
from benchmarks.pipeline_rows import CORES, Options, Row, keep_to, spread

if TYPE_CHECKING:
    from tailrace.spark import Moment

_ROOT: Final = Path(__file__).resolve().parent.parent
_ASKED: Final = {"parquet": "1", "delta": "2", "iceberg": "2"}
"""Seconds of a batch of 300 tables."""
_ROWS: Final = 100
_WARM: Final = 2
_TRIGGER_SECONDS: Final = 0.05
_CREATE: Final = (
    "CREATE TABLE {name} (id INT PRIMARY KEY, note VARCHAR(40) NOT NULL, amount DECIMAL(12,2) NOT "
    "NULL, made DATETIME(6) NOT NULL, n INT NOT NULL)"
)


def measure(options: Options) -> list[Row]:
    """Seconds of the wall and of the processor, by format."""
    tables, batches = (30, 2) if options.quick else (300, 6)
    found = []
    for name, asked in _ASKED.items():
        argv = [sys.executable, "-m", "benchmarks.pipeline_small", name, str(tables), str(batches)]
        done = subprocess.run(argv, cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True)
        wall, processor, phases = json.loads(done.stdout)
        parts = ", ".join(f"{phase} {seconds:.2f} s" for phase, seconds in phases.items())
        found.append(
            Row(
                "small",
                f"{name}, a change in each of {tables} tables, {batches} batches ({parts})",
                f"{spread(wall, ' s')}, CPU {spread(processor, ' s')}",
                "" if options.quick else asked,
            )
        )
    return found


def _log(folder: Path, tables: int, files: int) -> None:
    """Write a log of so many files after the first."""
    names = [f"bench.t{number:03}" for number in range(tables)]
    every = [tailrace.Table.parse(_CREATE.format(name=each), flavour="mysql") for each in names]
    rows = [(key, f"note {key}", key, "2026-01-01 00:00:00", 0) for key in range(_ROWS)]
    with tailrace.create(
        folder / "binlog.000001", flavour="mysql", server_id=1, sync="none"
    ) as log:
        for name, table in zip(names, every, strict=True):
            with log.transaction() as trx:
                trx.query(_CREATE.format(name=name), database="bench")
            with log.transaction() as trx:
                trx.insert(table, rows)
        for number in range(files):
            log.rotate()
            key, note, amount, made, _ = rows[number * 7 % _ROWS]
            for table in every:
                with log.transaction() as trx:
                    before = (key, note, amount, made, 0)
                    trx.update(table, before=[before], after=[(key, note, amount, made, 1)])


def _follow(name: str, tables: int, batches: int) -> None:
    """Print the seconds of each batch: of the wall, of the processor; and medians by phase."""
    keep_to(CORES)
    from tailrace.spark import mirror  # noqa: PLC0415 - after the cores are chosen

    stop = threading.Event()
    wall: list[float] = []
    processor: list[float] = []
    phases: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="tailrace-small-") as text:
        top = Path(text)
        (top / "made").mkdir()
        (top / "logs").mkdir()
        _log(top / "made", tables, _WARM + batches)
        files = sorted((top / "made").glob("binlog.0*"))

        def receive() -> float:
            file = files.pop(0)
            (top / "logs" / file.name).hardlink_to(file)
            return time.process_time()

        began = receive()

        def on_moment(moment: Moment) -> None:
            nonlocal began
            if moment.report is None:
                return
            if moment.set_aside:
                raise RuntimeError(f"tables are set aside: {moment.set_aside}")
            processor.append(time.process_time() - began)
            wall.append(moment.seconds)
            phases.append(moment.report.seconds)
            if files:
                began = receive()
            else:
                stop.set()

        mirror(
            top / "logs",
            top / "lake",
            format=name,
            follow=True,
            trigger=_TRIGGER_SECONDS,
            stop=stop,
            on_moment=on_moment,
        )
    first = 1 + _WARM  # the first file has the tables
    if len(wall) != first + batches:
        raise RuntimeError(f"{len(wall)} batches, and not {first + batches}")
    middle = {
        phase: statistics.median(each.get(phase, 0.0) for each in phases[first:])
        for phase in phases[-1]
    }
    print(json.dumps([wall[first:], processor[first:], middle]))


if __name__ == "__main__":
    _follow(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
