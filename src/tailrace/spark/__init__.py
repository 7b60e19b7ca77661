"""Tailrace on Spark: `mirror` logs into a lake, `verify` it, and the data source ``binlog``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tailrace.extras import importing
from tailrace.lazy import lazy

if TYPE_CHECKING:
    from tailrace.spark.stream.datasource import BinlogDataSource, register
    from tailrace.spark.stream.listener import StreamMoment, listener

with importing("spark", "Tailrace on Spark"):
    from tailrace.spark.input.lag import SourceMoment
    from tailrace.spark.lake.jars import settings
    from tailrace.spark.manifest.lake_options import LakeKeywords
    from tailrace.spark.mirror.report import MirrorReport, Moment, TableReport
    from tailrace.spark.mirror.run import mirror
    from tailrace.spark.runtime.session import session
    from tailrace.spark.verify import verify
    from tailrace.spark.verify.report import TableVerdict, VerifyReport

__all__ = [
    "BinlogDataSource",
    "LakeKeywords",
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

_get: Final = lazy(
    __name__,
    {
        "BinlogDataSource": "stream.datasource",
        "StreamMoment": "stream.listener",
        "listener": "stream.listener",
        "register": "stream.datasource",
    },
)

if not TYPE_CHECKING:  # else any name would do

    def __getattr__(name: str) -> Any:
        """Import what needs PySpark when it is first used: a small mirror does without."""
        with importing("spark", "Tailrace on Spark"):
            return _get(name)
