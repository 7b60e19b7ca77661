"""A streaming query in a process of its own, to be killed: argv is its options as JSON.

Each batch becomes a Parquet file, named by its number: a batch that comes again takes its place.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.spark import register, session


def main() -> None:
    given = json.loads(sys.argv[1])
    out = Path(given["out"])
    spark = session(2)
    register(spark)

    def write(batch, number):
        rows = batch.select(batch["_seq"].cast("string").alias("seq"), "_op", "_table", "after")
        found = [row.asDict() for row in rows.collect()]
        schema = pa.schema([(name, pa.string()) for name in ("seq", "_op", "_table", "after")])
        draft = out / f"draft-{os.getpid()}"
        pq.write_table(pa.Table.from_pylist(found, schema), draft)
        draft.replace(out / f"{number}.parquet")

    trigger = {"availableNow": True} if given["once"] else {"processingTime": "200 milliseconds"}
    for _ in range(2):  # the first may only end what was under way
        frame = spark.readStream.format("binlog").options(**given["source"]).load()
        writer = frame.writeStream.foreachBatch(write)
        writer = writer.option("checkpointLocation", given["checkpoint"])
        writer.trigger(**trigger).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
