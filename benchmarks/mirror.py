"""`mirror` to Parquet on one core against decoding and writing the same batches with pyarrow."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks import logs
from benchmarks.measure import pin
from tailrace.columns import changes
from tailrace.spark import mirror, session

_FEW = ["_op", "_db", "_table", "_file", "_server_id", "_gtid", "after.status", "after.country"]


def run(*, quick: bool) -> None:
    """Print seconds and ratios; Spark's start and planning are left out of both."""
    pin()
    path = logs.log("bulk")
    rounds = 2 if quick else 5
    spark = session(1)
    folder = Path(tempfile.mkdtemp(prefix="tailrace-mirror-"))
    bare: list[float] = []
    ratios: dict[str, list[float]] = {"changelog": [], "changelog and current": []}
    keeps = {"changelog": ("changelog",), "changelog and current": ("changelog", "current")}
    try:
        for number in range(rounds + 1):
            seconds = _bare(path, folder / "bare.parquet")
            for name, keep in keeps.items():
                lake = folder / "lake"
                report = mirror(path, lake, spark=spark, keep=keep, incomplete="accept")
                spent = sum(report.seconds.values()) - report.seconds.get("start", 0.0)
                shutil.rmtree(lake)
                if number:
                    ratios[name].append(spent / seconds)
            if number:
                bare.append(seconds)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    size = path.stat().st_size
    middle = statistics.median(bare)
    print(
        f"bulk, {size / 1e6:.0f} MB of log, one core, medians of {rounds} rounds\n"
        f"  decoding, and pyarrow writing the batches: {middle:.2f} s, "
        f"{size / middle / 1e6:.0f} MB/s of log"
    )
    for name, found in ratios.items():
        low, high = min(found), max(found)
        print(f"  mirror, {name}: {statistics.median(found):.2f} x ({low:.2f} to {high:.2f})")


def _bare(path: Path, target: Path) -> float:
    start = time.perf_counter()
    writer: pq.ParquetWriter | None = None
    for batch in changes(path).record_batches():
        if writer is None:
            writer = pq.ParquetWriter(
                target,
                batch.schema,
                compression="zstd",
                compression_level=1,
                use_dictionary=_FEW,
            )
        writer.write_batch(batch)
    if writer is not None:
        writer.close()
    return time.perf_counter() - start
