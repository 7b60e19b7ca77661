"""Logs that we write: `create`, `append`, and transactions of rows and statements."""

from tailrace.writing.consumer import LogConsumer
from tailrace.writing.create import append, create
from tailrace.writing.log import LogWriter
from tailrace.writing.options import RowMetadata, Sync, WriterOptions
from tailrace.writing.recover import LogRecovered, Recovery
from tailrace.writing.transaction import TransactionWriter

__all__ = [
    "LogConsumer",
    "LogRecovered",
    "LogWriter",
    "Recovery",
    "RowMetadata",
    "Sync",
    "TransactionWriter",
    "WriterOptions",
    "append",
    "create",
]
