"""The data source against one that hands Spark the same batches ready-made."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from benchmarks import logs
from benchmarks.measure import pin
from tailrace.spark import register, session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class ReadyMade(DataSource):
    """Batches out of an Arrow file that is mapped into memory."""

    @classmethod
    def name(cls) -> str:
        """The format."""
        return "readymade"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        """The reader."""
        return _Reader(self.options["path"])


class _Reader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self.path = path

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        with pa.memory_map(self.path) as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


def run(*, quick: bool) -> None:
    """Print seconds of both to a sink that drops the rows, and the ratio by round."""
    pin()
    path = logs.log("bulk")
    rounds = 2 if quick else 5
    spark = session(1)
    register(spark)
    spark.dataSource.register(ReadyMade)
    file = Path(tempfile.mkdtemp(prefix="tailrace-source-")) / "batches.arrow"
    try:
        for title, options in (
            ("one table, typed", {"tables": "bench.orders"}),
            ("all tables, JSON", {}),
        ):
            source = (
                spark.read.format("binlog").options(path=str(path), split=str(1 << 40), **options)
            ).load()
            _keep(source, options, path, file)
            ready = _load(spark, file, source)
            found = []
            for number in range(rounds + 1):
                reference, ours = _time(ready), _time(source)
                if number:
                    found.append((ours, reference))
            ratios = [a / b for a, b in found]
            print(
                f"{title:18} binlog {statistics.median(a for a, _ in found):.2f} s, ready-made "
                f"{statistics.median(b for _, b in found):.2f} s: "
                f"{statistics.median(ratios):.2f} x ({min(ratios):.2f} to {max(ratios):.2f})"
            )
    finally:
        spark.stop()


def _keep(source: DataFrame, options: dict[str, str], path: Path, file: Path) -> None:
    """Write the batches that our source yields into an Arrow file."""
    from tailrace.spark.stream.datasource import BinlogDataSource  # noqa: PLC0415 - beside its use

    ours = BinlogDataSource({"path": str(path), "split": str(1 << 40), **options})
    reader = ours.reader(source.schema)
    writer = None
    for partition in reader.partitions():
        for batch in reader.read(partition):
            if writer is None:
                writer = pa.ipc.new_file(str(file), cast("Any", batch).schema)
            writer.write_batch(cast("Any", batch))
    if writer is not None:
        writer.close()


def _load(spark: SparkSession, file: Path, like: DataFrame) -> DataFrame:
    return spark.read.format("readymade").schema(like.schema).option("path", str(file)).load()


def _time(frame: DataFrame) -> float:
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start
