"""Decoding a log from an S3 server on the loopback, against the same file on the local disk.

Server and reader share the machine's cores, as they come. Below that: ranged requests of 8 MiB by
obstore itself, by its fsspec interface, and by the stream that Tailrace reads. Then the latency of
commits to a log in the store and on the local disk, by one thread and by eight.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Final

import tailrace
from benchmarks import logs
from benchmarks.measure import Series, Worker, compare, ratio
from tools.s3 import S3Server

if TYPE_CHECKING:
    from collections import Counter

_URL: Final = "s3://bench/binlog.000001"
_WANTED: Final = 0.7
_DECODE: Final = "rows = sum(batch.num_rows for batch in changes({source!r}))"
_BLOCK: Final = f"""
size, block = {{size}}, {8 << 20}
ranges = [(start, min(start + block, size)) for start in range(0, size, block)]
"""


def run(*, quick: bool) -> None:
    """Print MB/s for each way, and how much of the local speed the store reaches, by round."""
    path = logs.log("bulk")
    rounds = 3 if quick else 9
    with S3Server(log=False) as server:
        shutil.copy(path, server.bucket("bench") / path.name)
        os.environ.update(server.environment, AWS_ALLOW_HTTP="true")
        _decoding(path, rounds)
        _reading(path, rounds)
    with S3Server() as server:
        server.bucket("bench")
        os.environ.update(server.environment)
        _committing(server, 200 if quick else 400)


def _committing(server: S3Server, commits: int) -> None:
    """Print how long a commit of one row takes: rounds of disk and store in turn."""
    print(f"\ncommits of one row, {commits} in each of 3 rounds; the server does not sync")
    for threads in (1, 8):
        seconds: dict[str, list[float]] = {"local disk": [], "S3": []}
        rates: dict[str, list[float]] = {place: [] for place in seconds}
        asked: Counter[str] = server.requests
        for number in range(3):
            with tempfile.TemporaryDirectory(dir=".") as disk:
                for place, target in (
                    ("local disk", Path(disk)),
                    ("S3", f"s3://bench/commits-{threads}-{number}"),
                ):
                    before = time.perf_counter()
                    seconds[place] += _commit(target, threads, commits)
                    rates[place].append(commits / (time.perf_counter() - before))
        puts = (server.requests - asked)["put"] / (3 * commits)
        for place, waited in seconds.items():
            late = quantiles(waited, n=100)[98]
            print(
                f"  {place:10} {threads} thread{'s' * (threads > 1)}: median"
                f" {median(waited) * 1e3:.1f} ms, 99 % within {late * 1e3:.1f} ms,"
                f" {median(rates[place]):.0f} commits/s"
            )
        print(f"  requests that store something, for each commit to S3: {puts:.2f}")


def _commit(target: Path | str, threads: int, commits: int) -> list[float]:
    table = tailrace.Table("shop.orders", "id INT PRIMARY KEY, total DECIMAL(10,2)")
    waited: list[float] = []

    def work() -> None:
        for number in range(commits // threads):
            transaction = log.transaction()
            with transaction as open_one:
                open_one.insert(table, [(number, "9.50")])
                before = time.perf_counter()
            waited.append(time.perf_counter() - before)

    with tailrace.create(target, flavour="mysql", server_id=7) as log:
        several = [threading.Thread(target=work) for _ in range(threads)]
        for thread in several:
            thread.start()
        for thread in several:
            thread.join()
    return waited


def _decoding(path: Path, rounds: int) -> None:
    setup = "from tailrace.columns import changes"
    found = _compare(
        {
            "local file": Worker(setup, _DECODE.format(source=str(path))),
            "S3": Worker(setup, _DECODE.format(source=_URL)),
        },
        rounds,
    )
    print(f"\ndecoding {path.stat().st_size / 1e6:.0f} MB; medians of {rounds} rounds")
    for series in found.values():
        _line(series, path)
    low, middle, high = ratio(found["local file"], found["S3"])
    print(
        f"  S3 reaches {middle:.0%} of the local file's speed ({low:.0%} to {high:.0%});"
        f" {_WANTED:.0%} is asked for"
    )


def _reading(path: Path, rounds: int) -> None:
    size = path.stat().st_size
    ranges = _BLOCK.format(size=size)
    found = _compare(
        {
            "obstore": Worker(
                f"{ranges}\nimport obstore\nfrom obstore.store import from_url\n"
                "store = from_url('s3://bench')",
                "[obstore.get_range(store, 'binlog.000001', start=a, end=b) for a, b in ranges]",
            ),
            "obstore.fsspec, cat_file": Worker(
                f"{ranges}\nfrom obstore.fsspec import FsspecStore\nfiles = FsspecStore('s3')",
                "[files.cat_file('bench/binlog.000001', start=a, end=b) for a, b in ranges]",
            ),
            "obstore.fsspec, open": Worker(
                f"{ranges}\nfrom obstore.fsspec import FsspecStore\nfiles = FsspecStore('s3')",
                "file = files.open('bench/binlog.000001', block_size=block); "
                "[file.read(block) for _ in ranges]",
            ),
            "Tailrace's stream": Worker(
                f"{ranges}\nfrom tailrace.storage import find\n"
                f"log = find({_URL!r})[0].files[0]\nview = bytearray(block)",
                "stream = log.open(); all(iter(lambda: stream.readinto(view), 0)); stream.close()",
            ),
        },
        rounds,
    )
    print("\nreading alone, by requests of 8 MiB")
    for series in found.values():
        _line(series, path)


def _compare(workers: dict[str, Worker], rounds: int) -> dict[str, Series]:
    try:
        return compare(dict(workers), rounds)
    finally:
        for worker in workers.values():
            worker.close()


def _line(series: Series, path: Path) -> None:
    speed = path.stat().st_size / series.median / 1e6
    print(
        f"  {series.name:26} {series.median:7.3f} s {speed:8.0f} MB/s"
        f" {series.peak_bytes / 1e6:6.0f} MB peak"
    )
