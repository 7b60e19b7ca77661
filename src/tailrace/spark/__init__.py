"""Tailrace on Spark: `mirror` logs into a lake, `verify` it, and the data source ``binlog``."""

from tailrace.extras import importing

with importing("spark", "Tailrace on Spark"):
    from tailrace.spark.datasource import BinlogDataSource, register
    from tailrace.spark.jars import settings
    from tailrace.spark.mirror import mirror
    from tailrace.spark.report import MirrorReport, Moment, SourceMoment, TableReport
    from tailrace.spark.session import session
    from tailrace.spark.stream_listener import StreamMoment, listener
    from tailrace.spark.verify import verify
    from tailrace.spark.verify_report import TableVerdict, VerifyReport

__all__ = [
    "BinlogDataSource",
    "MirrorReport",
    "Moment",
    "SourceMoment",
    "StreamMoment",
    "TableReport",
    "TableVerdict",
    "VerifyReport",
    "listener",
    "mirror",
    "register",
    "session",
    "settings",
    "verify",
]
