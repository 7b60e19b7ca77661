# ruff: noqa: INP001 - a project of its own
"""The shop's changes as a streaming table, and what they come to as a materialised view."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from tailrace.spark import register

spark = SparkSession.active()
register(spark)

# A folder of binary logs, or a server: mysql://tailrace@db.example/ (then also `spool`, a folder).
LOG = os.environ.get("SHOP_LOG", "/var/lib/mysql")


@dp.table
def order_changes() -> DataFrame:
    """Every change of shop.orders: the change record's fields, and the table's columns."""
    changes = spark.readStream.format("binlog").option("path", LOG)
    return changes.option("tables", "shop.orders").option("start", "oldest").load()


@dp.materialized_view
def order_counts() -> DataFrame:
    """How many changes left orders in each status."""
    return spark.read.table("order_changes").groupBy("_op", "status").count()
