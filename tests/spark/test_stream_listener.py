"""The listener of streaming queries, with real ones: what it tells, and of which it does not."""

import time
from types import SimpleNamespace

import pytest

import tailrace
from tailrace.position import Position
from tailrace.spark import listener, register
from tailrace.spark.stream.listener import StreamMoment
from tailrace.storage import find
from tests.spark.streaming import come, running
from tests.waiting import DEADLINE, Said
from tools import shop

SHOP = shop.SHOP / "mysql"


@pytest.fixture
def listening(spark):
    """A function that adds a listener; it is taken away behind the test."""
    register(spark)
    added = []

    def add(on_moment=None):
        # Spark tells of a query in a thread of its own, also when the query is over.
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(int(1000 * DEADLINE))
        added.append(listener(on_moment))
        spark.streams.addListener(added[-1])

    yield add
    for each in added:
        spark.streams.removeListener(each)


def run(spark, tmp_path, name, until, **options):
    """Run a query until a condition holds."""
    options |= {"path": str(SHOP), "statements": "skip", "index": str(tmp_path / "index")}
    frame = spark.readStream.format("binlog").options(**options).load()
    writer = frame.writeStream.format("noop").queryName(name)
    with running(writer, tmp_path / name, "50 milliseconds") as query:
        come(query, until)


def test_each_batch_is_told(spark, listening, tmp_path):
    moments = []
    listening(moments.append)
    logs = find(SHOP)[0].files
    place = f"{logs[-1].name}:{logs[-1].size}"
    began = time.time()
    run(
        spark,
        tmp_path,
        "shop",
        lambda: moments and moments[-1].sources[0].position == place,
        maxBytesPerTrigger="150000",
    )
    batches = [moment for moment in moments if moment.rows]
    assert len(batches) > 3
    assert {moment.query for moment in moments} == {"shop"}
    rows = sum(batch.num_rows for batch in tailrace.changes(SHOP, statements="skip"))
    assert sum(moment.rows for moment in batches) == rows
    assert sum(moment.read for moment in batches) == sum(log.size for log in logs) - 4
    lags = [moment.sources[0].lag_bytes for moment in batches]
    assert lags == sorted(lags, reverse=True)
    assert lags[0] > 0
    assert lags[-1] == 0
    first = batches[0].sources[0]
    waiting = next(
        event
        for event in tailrace.open(SHOP)
        if event.name == "GTID"
        and Position(event.file, event.offset) >= Position.parse(first.position)
    )
    assert began <= first.lag_seconds + waiting.timestamp <= time.time()
    assert batches[-1].sources[0].lag_seconds == 0
    sizes = {log.name: log.size for log in logs}
    name, offset = first.position.split(":")
    rest = sum(size for other, size in sizes.items() if other >= name) - int(offset)
    assert first.lag_bytes == rest if waiting.file == name else first.lag_bytes < rest
    assert all(moment.row_rate > 0 < moment.byte_rate for moment in batches)
    assert all(moment.seconds > 0 for moment in batches)


def test_lines_on_stderr(spark, listening, tmp_path, monkeypatch):
    listening()
    said = Said()
    monkeypatch.setattr("sys.stderr", said)
    run(spark, tmp_path, "lines", lambda: any("up to date" in each for each in said.lines))
    line = next(each for each in said.lines if "up to date" in each)
    assert line.startswith("lines: batch 0, binlog.000004:")
    assert line.endswith("/s")


def test_queries_without_our_source_are_passed_over(spark, listening, tmp_path):
    moments = []
    listening(moments.append)
    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    writer = frame.writeStream.format("noop").queryName("other")
    with running(writer, tmp_path / "other", "50 milliseconds") as query:
        come(query, lambda: query.lastProgress and query.lastProgress["batchId"] >= 2)
    run(spark, tmp_path, "ours", lambda: moments)
    assert {moment.query for moment in moments} == {"ours"}


def test_nothing_new_for_a_while():
    moments = []
    told = listener(moments.append)
    offset = {"file": "b.1", "position": 99, "mark": "m", "read": 95, "gtid": "0-1-7"}
    offset["behind"] = {"bytes": 1234, "since": "2026-11-22T00:00:00+00:00"}
    source = SimpleNamespace(startOffset="null", endOffset=str(offset))
    progress = SimpleNamespace(
        id="id",
        runId="run",
        name=None,
        batchId=3,
        numInputRows=12,
        durationMs={"triggerExecution": 500},
        batchDuration=500,
        sources=[SimpleNamespace(startOffset="null", endOffset='{"n": 1}'), source],
    )
    told.onQueryProgress(SimpleNamespace(progress=progress))
    told.onQueryIdle(SimpleNamespace(id="id", runId="run"))
    told.onQueryTerminated(SimpleNamespace(id="id", runId="run"))
    told.onQueryIdle(SimpleNamespace(id="id", runId="run"))
    busy, idle = moments
    assert isinstance(busy, StreamMoment)
    assert (busy.query, busy.batch, busy.rows, busy.read, busy.seconds) == ("id", 3, 12, 95, 0.5)
    (place,) = busy.sources
    assert (place.name, place.position, place.lag_bytes, place.gtid) == (
        "1",
        "b.1:99",
        1234,
        "0-1-7",
    )
    assert place.lag_seconds > 0
    assert (idle.rows, idle.read, idle.sources[0].lag_bytes) == (0, 0, 0)
    assert "1.2 kB behind" in str(busy)
    assert "up to date" in str(idle)
