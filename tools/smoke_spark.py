"""A smoke run of whatever PySpark is installed: the data source, and a mirror run twice."""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from tailrace.spark import mirror, register, session

SHOP = Path(__file__).resolve().parent.parent / "examples" / "shop"


def main() -> int:
    """Compare row counts with what the recorded servers' SELECT said."""
    expected = {
        name: table["count"]
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
    orders = spark.read.format("binlog").option("table", "shop.orders").load(str(SHOP / "mysql"))
    counts = record.where("_table = 'orders'").count(), orders.count()
    spark.stop()
    good = rows == expected and not again.changes and counts[0] == counts[1] > 0
    found = f"{first.changes} changes, {sum(rows.values())} rows"
    print(f"PySpark {version('pyspark')}: {found}:", "right" if good else "wrong")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
