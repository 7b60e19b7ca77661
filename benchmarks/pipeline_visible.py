"""A row's way from a client's INSERT to a reader that polls the lake, at a trigger of 1 s.

A client inserts single rows at random moments. A reader, a process of its own, looks every 10 ms
whether there is another version of the table; then it reads the table's keys as anybody does, with
pyarrow, delta-rs or pyiceberg, and notes which are new. The time is from before the INSERT is sent
until the reader has the key, so it holds the server's commit and the reader's reading.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

from benchmarks.pipeline_rows import Options, Row, tail
from tools.campaign.mirrored_lake import delta_rows
from tools.campaign.mirrored_process import Mirror
from tools.servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_ROOT: Final = Path(__file__).resolve().parent.parent
_FORMATS: Final = ("parquet", "delta", "iceberg")
_MEAN_SECONDS: Final = 0.25
"""Between two rows."""
_LOOK_SECONDS: Final = 0.01
_WARM: Final = 10
"""Rows at the start that do not count."""
_READY_SECONDS: Final = 120.0
_OPTIONS: Final = {"binlog_row_metadata": "FULL", "sync_binlog": "0"}


def measure(options: Options) -> list[Row]:
    """Median and 99th percentile of each format."""
    count = 60 if options.quick else 400
    found = []
    for name in _FORMATS:
        with (
            Server("mysql-9.7", _OPTIONS) as server,
            tempfile.TemporaryDirectory(prefix="tailrace-visible-") as folder,
        ):
            server.execute("CREATE DATABASE bench")
            server.execute(
                "CREATE TABLE bench.ticks (n BIGINT PRIMARY KEY, name VARCHAR(60) NOT NULL)"
            )
            mirror = Mirror(server, name, Path(folder), keep=("changelog", "current"), trigger="1s")
            mirror.start()
            try:
                seconds = _one(server, mirror, name, count)
            finally:
                mirror.kill()
        middle = statistics.median(seconds)
        found.append(
            Row(
                "visible",
                f"{name}, 1 s trigger, {count} rows, changelog and current",
                f"median {middle:.2f} s, 99 % {tail(seconds):.2f} s, most {max(seconds):.2f} s",
                "told",
            )
        )
    return found


def _one(server: Server, mirror: Mirror, name: str, count: int) -> list[float]:
    argv = [sys.executable, "-m", "benchmarks.pipeline_visible", name, str(mirror.lake)]
    total = _WARM + count
    rng = random.Random(1)
    with subprocess.Popen(
        [*argv, str(total)], cwd=_ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        if process.stdout is None:
            raise RuntimeError("the reader has no pipe")
        try:
            server.execute("INSERT INTO bench.ticks VALUES (0, 'the first')")
            if process.stdout.readline() != "ready\n":
                raise RuntimeError(f"the reader has seen nothing: {mirror.said()[-1000:]}")
            sent = {}
            for number in range(1, total + 1):
                time.sleep(rng.uniform(0, 2 * _MEAN_SECONDS))
                sent[number] = time.monotonic_ns()
                server.execute("INSERT INTO bench.ticks VALUES (%s, 'a name')", (number,))
            seen = {int(key): at for key, at in json.loads(process.stdout.readline()).items()}
        finally:
            process.kill()
    return [(seen[number] - sent[number]) / 1e9 for number in range(_WARM + 1, total + 1)]


# --- the reader ----------------------------------------------------------------------------------


def _parquet(lake: Path) -> Callable[[], Iterable[int] | None]:
    known = ""

    def look() -> Iterable[int] | None:
        nonlocal known
        folder = (lake / "bench.ticks" / "current").resolve()
        if str(folder) == known or not folder.is_dir():
            return None
        files = list(folder.glob("*.parquet"))
        keys = [
            key for file in files for key in pq.read_table(file, columns=["n"])["n"].to_pylist()
        ]
        known = str(folder)
        return keys

    return look


def _delta(lake: Path) -> Callable[[], Iterable[int] | None]:
    from deltalake import DeltaTable  # noqa: PLC0415 - of its format

    folder = lake / "bench.ticks"
    known = -1

    def look() -> Iterable[int] | None:
        nonlocal known
        if not (folder / "_delta_log").is_dir():
            return None
        version = DeltaTable(folder).version()
        if version == known:
            return None
        known = version
        keys: list[int] = delta_rows(folder, ["n"])["n"].to_pylist()
        return keys

    return look


def _iceberg(lake: Path) -> Callable[[], Iterable[int] | None]:
    from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - of its format

    catalog: Any = None
    known = ""

    def look() -> Iterable[int] | None:
        nonlocal known, catalog
        if catalog is None:
            if not (lake / "catalog.db").exists():
                return None
            catalog = SqlCatalog("lake", uri=f"sqlite:///{lake}/catalog.db", warehouse=str(lake))
        if not catalog.table_exists(("bench", "ticks")):
            return None
        table = catalog.load_table(("bench", "ticks"))
        if table.metadata_location == known or table.current_snapshot() is None:
            return None
        known = table.metadata_location
        keys: list[int] = table.scan(selected_fields=("n",)).to_arrow()["n"].to_pylist()
        return keys

    return look


_LOOKS: Final = {"parquet": _parquet, "delta": _delta, "iceberg": _iceberg}


def _read(name: str, lake: Path, total: int) -> None:
    """Say a word at the first row, and at the end when each was there."""
    look = _LOOKS[name](lake)
    seen: dict[int, int] = {}
    deadline = time.monotonic() + _READY_SECONDS
    while len(seen) <= total:
        keys = None
        with suppress(FileNotFoundError):  # another version took its place
            keys = look()
        now = time.monotonic_ns()
        for key in keys or ():
            seen.setdefault(key, now)
        if keys and len(seen) == len(list(keys)) and deadline:
            print("ready", flush=True)
            deadline = 0
        if deadline and time.monotonic() > deadline:
            raise SystemExit("no row arrived")
        time.sleep(_LOOK_SECONDS)
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    _read(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
