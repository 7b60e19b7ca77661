"""A smoke run of whatever PySpark is installed: the data source, a stream, a mirror run twice."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.spark import StreamMoment, listener, mirror, register, session
from tailrace.spark.stream.reader import BASES
from tailrace.storage import find

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECONDS = 60
SHOP = Path(__file__).resolve().parent.parent / "examples" / "shop"


def _stream(spark: SparkSession) -> tuple[int, int]:
    """All of a log by a stream with a limit, run after run; its rows and batches, by the listener.

    From Spark 4.2 on the first run takes all.
    """
    moments: list[StreamMoment] = []
    told = listener(moments.append)
    spark.streams.addListener(told)
    frame = spark.readStream.format("binlog").option("maxBytesPerTrigger", "300000")
    runs = 1 if BASES else 4
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            frame.load(str(SHOP / "mysql")).writeStream.format("noop").option(
                "checkpointLocation", f"{folder}/checkpoint"
            ).trigger(availableNow=True).start().awaitTermination()
    size = sum(log.size - 4 for log in find(SHOP / "mysql")[0].files)
    end = time.monotonic() + _SECONDS
    while sum(moment.read for moment in moments) < size and time.monotonic() < end:
        time.sleep(0.05)
    spark.streams.removeListener(told)
    return sum(moment.rows for moment in moments), len({moment.batch for moment in moments})


def main() -> int:
    """Compare row counts with what the recorded servers' SELECT said."""
    expected = {
        name: len(table["rows"])
        for dump in json.loads((SHOP / "expected.json").read_text()).values()
        for name, table in dump["tables"].items()
    }
    spark = session(2)
    register(spark)
    with tempfile.TemporaryDirectory() as lake:
        first = mirror(SHOP, lake, spark=spark)
        again = mirror(SHOP, lake, spark=spark)
        rows = {
            name: spark.read.parquet(f"{lake}/{name}/current").count() for name in sorted(expected)
        }
    record = spark.read.format("binlog").load(str(SHOP))
    orders = spark.read.format("binlog").option("tables", "shop.orders").load(str(SHOP / "mysql"))
    counts = record.where("_table = 'orders'").count(), orders.count()
    streamed, batches = _stream(spark)
    whole = spark.read.format("binlog").load(str(SHOP / "mysql")).count()
    spark.stop()
    good = rows == expected and not again.changes and counts[0] == counts[1] > 0
    good = good and streamed == whole and batches > 1
    found = f"{first.changes} changes, {sum(rows.values())} rows, {batches} batches of a stream"
    print(f"PySpark {version('pyspark')}: {found}:", "right" if good else "wrong")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
