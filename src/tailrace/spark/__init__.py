"""Tailrace on Spark: `mirror` logs into a lake, and read them as the data source ``binlog``."""

from tailrace.spark.datasource import BinlogDataSource, register
from tailrace.spark.mirror import mirror
from tailrace.spark.report import MirrorReport, TableReport
from tailrace.spark.session import session

__all__ = ["BinlogDataSource", "MirrorReport", "TableReport", "mirror", "register", "session"]
