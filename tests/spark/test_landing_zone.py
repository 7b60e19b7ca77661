"""Issue 20, zero-loss landing: Spark reads a bucket whose newest file is still in segments."""

from __future__ import annotations

import pytest

import tailrace
from tailrace.replication.receiver import Receiver
from tailrace.spark import mirror, register
from tests.spark.following import mark, url_of, values
from tests.waiting import DEADLINE


@pytest.fixture(scope="module")
def source(fresh_server):
    return fresh_server("mysql-9.7", {"binlog_row_metadata": "FULL"})


@pytest.fixture
def landing(source, bucket):
    """A function that receives what the source has now; the landing zone's URL."""

    def receive():
        """The last file is in segments, and the files before it are objects."""
        Receiver(url_of(source), f"{bucket.url}/logs", follow=False).run()
        logs = [log.name for log in source.binlogs()]
        there = bucket.names("logs")
        assert {*logs[:-1], f"{logs[-1]}.segments-v1"} < {*there}
        assert logs[-1] not in there
        return f"{bucket.url}/logs"

    return receive


def expected(source):
    """What `tailrace.changes` reads of the source's own files."""
    return sorted(
        (int(row["_seq"]), row["_table"])
        for batch in tailrace.changes(source.data, statements="skip")
        for row in batch.select(["_seq", "_table"]).to_pylist()
    )


def test_a_batch(spark, source, landing):
    register(spark)
    mark(source)
    source.rotate()
    mark(source)
    read = spark.read.format("binlog").option("statements", "skip")
    rows = read.load(landing()).collect()
    assert sorted((int(row["_seq"]), row["_table"]) for row in rows) == expected(source)


def test_a_stream(spark, source, landing, tmp_path):
    """It resumes inside a file that was in segments, and is one object or has more of them now."""
    register(spark)
    found = []

    def run():
        query = (
            spark.readStream.format("binlog")
            .options(statements="skip", index=str(tmp_path / "index"))
            .load(landing())
            .writeStream.foreachBatch(lambda frame, _: found.extend(frame.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(DEADLINE)
        finally:
            query.stop()
        assert sorted((int(row["_seq"]), row["_table"]) for row in found) == expected(source)

    mark(source)
    run()
    mark(source)
    run()
    mark(source)
    source.rotate()
    mark(source)
    run()


def test_a_mirror(source, landing, tmp_path):
    """Run again, it continues in the file that was in segments, as the stream does."""

    def run():
        mirror(landing(), tmp_path / "lake", tables="follow.marks")
        there = [number for (number,) in source.query("SELECT n FROM follow.marks ORDER BY n")]
        assert sorted(values(tmp_path / "lake", "follow.marks", "n")) == there

    mark(source)
    run()
    mark(source)
    source.rotate()
    mark(source)
    run()
