"""The streaming source: readers without Spark, and queries on it, whose driver may be killed."""

from __future__ import annotations

from contextlib import contextmanager

import psutil

import tailrace
from tailrace.spark.stream.options import Options
from tailrace.spark.stream.reader import StreamReader
from tailrace.spark.stream.reading import JSON_SCHEMA
from tests.waiting import DEADLINE, wait_for


def stream_reader(**options):
    return StreamReader(Options.of(options), JSON_SCHEMA)


def read_range(reader, start, end):
    """The rows between two offsets."""
    partitions = reader.partitions(start, end)
    return [row for each in partitions for batch in reader.read(each) for row in batch.to_pylist()]


def keys(rows):
    """(_seq, _op, table) of rows."""
    return [(int(row["_seq"]), row["_op"], row["_table"]) for row in rows]


def expected(path):
    """The same of all rows of a log, by `tailrace.changes`."""
    batches = tailrace.changes(path, statements="skip")
    columns = ["_seq", "_op", "_table"]
    return sorted(keys(row for each in batches for row in each.select(columns).to_pylist()))


@contextmanager
def running(writer, checkpoint, every="100 milliseconds"):
    """A query that runs, and is stopped."""
    writer = writer.option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime=every).start()
    try:
        yield query
    finally:
        query.stop()


def run_all(writer, checkpoint):
    """Run a query over all there is."""
    writer = writer.option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(DEADLINE)
    finally:
        query.stop()


def come(query, what):
    """Wait until a condition holds; raises what ended the query."""

    def met():
        if query.exception() is not None:
            raise query.exception()
        return what()

    wait_for(met, lambda: query.lastProgress)


def kill(process):
    """Kill a driver, and wait until its Java has noticed and ended: it may be writing until then."""
    below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    java = [each for each in below if each.name() == "java"]
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(java, DEADLINE)
    assert not alive
