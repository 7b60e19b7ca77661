"""The memory of a mirror that follows a server under load: its driver, Spark's Java, its workers.

Before it starts there is a backlog large enough that Spark is started too. The load has tables that
stay: a lake that gets new tables for ever holds more and more of them. Resident memory is
sampled; the slope is that of least squares over the last three quarters of the time.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

import psutil

from benchmarks.pipeline_rows import Options, Row
from tools.campaign.mirrored_process import Mirror
from tools.load import Load
from tools.servers import Server

_EVERY_SECONDS: Final = 5.0
_BACKLOG: Final = 24 << 20
_RATE: Final = 50
_OPTIONS: Final = {"binlog_row_metadata": "FULL", "max_binlog_size": "64M"}
_WAIT_SECONDS: Final = 180.0
_KINDS: Final = ("driver", "java", "workers")


def measure(options: Options) -> list[Row]:
    """Where it began and ended, and the slope, of each kind of process."""
    minutes = options.minutes or (2 if options.quick else 60)
    samples: list[tuple[float, dict[str, int]]] = []
    with (
        Server("mysql-9.7", _OPTIONS) as server,
        tempfile.TemporaryDirectory(prefix="tailrace-memory-") as folder,
    ):
        mirror = Mirror(server, "delta", Path(folder), keep=("changelog", "current"), trigger="1s")
        with Load(server, seed=1, large=3, huge=0, own=False):
            deadline = time.monotonic() + _WAIT_SECONDS
            while sum(file.stat().st_size for file in server.binlogs()) < _BACKLOG:
                if time.monotonic() > deadline:
                    raise RuntimeError("the load has made no backlog")
                time.sleep(0.2)
        mirror.start()
        try:
            mirror.wait(mirror.version, "has committed nothing", 0.1)
            with Load(server, seed=2, rate=_RATE, large=0.3, huge=0, own=False):
                process = psutil.Process(mirror.pid)
                began = time.monotonic()
                while (now := time.monotonic() - began) < 60 * minutes:
                    if not mirror.runs:
                        raise RuntimeError(f"the mirror ended: {mirror.said()[-500:]}")
                    samples.append((now, _resident(process)))
                    time.sleep(_EVERY_SECONDS)
            batches = mirror.manifest().version
        finally:
            mirror.kill()
    return [_row(kind, samples, minutes, batches) for kind in _KINDS]


def _resident(process: psutil.Process) -> dict[str, int]:
    """Bytes by kind; processes that end meanwhile count no more."""
    found = dict.fromkeys(_KINDS, 0)
    for each in (process, *process.children(recursive=True)):
        try:
            kind = "driver" if each == process else "workers"
            if "java" in each.name():
                kind = "java"
            found[kind] += each.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return found


def _row(
    kind: str, samples: list[tuple[float, dict[str, int]]], minutes: float, batches: int
) -> Row:
    late = [(at, found[kind] / 1e6) for at, found in samples[len(samples) // 4 :]]
    quarter = max(len(late) // 4, 1)
    first = statistics.median(each for _, each in late[:quarter])
    last = statistics.median(each for _, each in late[-quarter:])
    slope = statistics.linear_regression(*zip(*late, strict=True)).slope * 3600
    most = max(found[kind] for _, found in samples) / 1e6
    return Row(
        "memory",
        f"{kind}, {minutes:g} minutes, {batches} batches of a load of {_RATE} actions/s, Delta",
        f"{first:.0f} MB, then {last:.0f} MB ({slope:+.1f} MB an hour; most {most:.0f} MB)",
        "flat" if kind == "driver" else "",
    )
