"""Copy a lake's tables to Parquet files with DuckDB or Spark, in a process of its own.

The argument is JSON: the reader, the lake's format and folder, and for each table the file to write
and the path or the name by which the reader finds it. What is imported depends on the reader.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any, Final

_EXTENSIONS: Final = {"parquet": [], "delta": ["delta"], "iceberg": ["avro", "iceberg"]}
_SCANS: Final = {
    "parquet": "read_parquet('{}/*.parquet', union_by_name = true)",
    "delta": "delta_scan('{}')",
    "iceberg": "iceberg_scan('{}')",
}


def duckdb(format: str, lake: str, tables: dict[str, str]) -> None:  # noqa: A002, ARG001 - Spark's are used
    """With DuckDB's own extensions."""
    module: Any = import_module("duckdb")
    for each in _EXTENSIONS[format]:
        import_module("duckdb_extensions").import_extension(each)
        module.sql(f"LOAD {each}")
    for out, place in tables.items():
        module.sql(f"COPY (FROM {_SCANS[format].format(place)}) TO '{out}' (FORMAT parquet)")


def spark(format: str, lake: str, tables: dict[str, str]) -> None:  # noqa: A002 - the lake's word
    """With Spark SQL and the format's own jars."""
    tailrace: Any = import_module("tailrace.spark")
    conf = {} if format == "parquet" else tailrace.settings(format, lake)
    running = tailrace.session(1, conf=conf)
    for out, place in tables.items():
        rows = (
            running.table(place) if format == "iceberg" else running.read.format(format).load(place)
        )
        rows.coalesce(1).write.parquet(out)
    running.stop()


if __name__ == "__main__":
    reader, *given = json.loads(sys.argv[1])
    {"duckdb": duckdb, "spark": spark}[reader](*given)
