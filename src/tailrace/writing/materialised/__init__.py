"""Formats of materialised events that stand on the log's writer and on Arrow."""

from tailrace.writing.materialised.binlog import BinlogFormat

__all__ = ["BinlogFormat"]
