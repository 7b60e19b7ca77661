"""The data source ``binlog``, read in this process or by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.spark.stream.datasource import BinlogDataSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession


def start() -> SparkSession:
    """Spark on one core, with the data source registered."""
    from tailrace.spark import register  # noqa: PLC0415 - where Spark is asked for
    from tailrace.spark.runtime.session import session  # noqa: PLC0415

    spark = session(1)
    register(spark)
    return spark


def read(
    folder: Path, schema: Path | None, spark: SparkSession | None = None, **options: str
) -> Iterator[pa.RecordBatch]:
    """The batches of a read with these options, in small splits.

    Without Spark, its part is played here: the schema is asked for, a reader made, and each
    partition read.
    """
    given = {"path": str(folder), "split": "2000", **options}
    if schema is not None:
        given["schema"] = str(schema)
    if spark is not None:
        frame: Any = spark.read.format("binlog").options(**given).load()
        yield from frame.toArrow().to_batches()
        return
    source = BinlogDataSource(given)
    reader = source.reader(source.schema())
    for partition in reader.partitions():
        yield from reader.read(partition)
