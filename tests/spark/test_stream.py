"""Streams of the data source ``binlog`` on Spark, over logs that real servers are writing."""

import json
import os
import random
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from tailrace.replication.receiver import Receiver
from tailrace.spark import mirror, register
from tailrace.spark.stream.reader import BASES
from tests.recorded import ROOT
from tests.spark.following import BOTH, FLAVOURS, LOAD, mark, url_of, values
from tests.spark.streaming import come, expected, keys, kill, run_all, running
from tests.waiting import DEADLINE, wait_for, wait_for_steps
from tools.load import Load

KILLS = int(os.environ.get("TAILRACE_KILLS", "1"))
"""Each takes a start of Spark's; tools.campaign kills mirrors by the hundred."""


@pytest.fixture(scope="module")
def stream(spark):
    """A function that gives a stream's frame."""
    register(spark)

    def load(path, **options):
        options = {"statements": "skip", "path": str(path), **options}
        return spark.readStream.format("binlog").options(**options).load()

    return load


def run_now(frame, spark, checkpoint, name):
    """Run a query over all there is into memory; its rows, as `expected` has them."""
    frame = frame.select(frame["_seq"].cast("string").alias("seq"), "_op", "_table")
    run_all(frame.writeStream.format("memory").queryName(name), checkpoint)
    rows = spark.sql(f"SELECT * FROM {name}").collect()
    return sorted((int(row.seq), row._op, row._table) for row in rows)


def test_a_server_directly(stream, spark, source, tmp_path):
    """As a stream, and as a batch, whose copy is there already the second time and goes on."""
    mark(source)
    frame = stream(url_of(source), spool=str(tmp_path / "spool"))
    found = run_now(frame, spark, tmp_path / "checkpoint", "direct")
    assert found == expected(source.data)
    mark(source)
    again = run_now(frame, spark, tmp_path / "other", "again")
    assert again == expected(source.data) != found
    read = spark.read.format("binlog").option("statements", "skip")
    with pytest.raises(PySparkException, match="a server is read through a copy of its log"):
        read.load(url_of(source)).count()
    for _ in range(2):
        mark(source)
        rows = read.option("spool", str(tmp_path / "batch")).load(url_of(source)).collect()
        assert sorted(keys(rows)) == expected(source.data)


@BOTH
def test_now_and_each_batch_once(stream, source, tmp_path):
    batches = []

    def take(frame, number):
        batches.append((number, [json.loads(row.after)["n"] for row in frame.collect()]))

    value = mark(source)
    options = {"start": "now", "images": "json", "index": str(tmp_path / "index")}
    writer = stream(source.data, tables="follow.marks", **options).writeStream.foreachBatch(take)
    with running(writer, tmp_path / "checkpoint") as query:
        come(query, lambda: batches)  # it knows where it began
        for number in range(1, 4):
            mark(source)
            come(query, lambda number=number: sum(len(rows) for _, rows in batches) == number)
    assert [n for _, rows in batches for n in rows] == [value + 1, value + 2, value + 3]
    offsets = sorted(
        (tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda p: int(p.name)
    )
    offset = json.loads(offsets[-1].read_text().splitlines()[-1])
    assert set(offset) == {"file", "position", "gtid", "mark", "read"}
    if source.flavour == "mysql":
        said = source.query("SELECT @@GLOBAL.gtid_executed")[0][0].replace("\n", "")
    else:
        said = source.query("SELECT @@GLOBAL.gtid_binlog_pos")[0][0]
    assert offset["gtid"] == said


def run_into(folder, frame, checkpoint):
    """Run a query over all there is into Parquet files; its error, or None."""
    writer = frame.drop("_present", "_raw").writeStream.format("parquet")
    try:
        run_all(writer.option("path", str(folder)), checkpoint)
    except StreamingQueryException as error:
        return str(error)
    return None


def written(spark, folder):
    rows = spark.read.option("mergeSchema", "true").parquet(str(folder)).collect()
    return sorted((row.id, row.v, row.asDict().get("w")) for row in rows)


def test_columns_that_come_end_the_query(stream, spark, mysql97, tmp_path):
    """As of Delta's source: it says so, and started again it has them, and all rows once."""
    source = mysql97
    source.execute("DROP DATABASE IF EXISTS changing")
    source.rotate()
    start = f"{source.query('SHOW BINARY LOGS')[-1][0]}:4"
    source.execute("CREATE DATABASE changing")
    source.execute("CREATE TABLE changing.t (id INT PRIMARY KEY, v INT)")
    source.execute("INSERT INTO changing.t VALUES (1, 1)")

    def load(**options):
        options["index"] = str(tmp_path / "index")
        return stream(source.data, tables="changing.t", start=start, **options)

    out, begun, late = tmp_path / "out", load(), load(schemaChange="ignore")
    assert (error := run_into(out, begun, tmp_path / "checkpoint")) is None, error
    source.execute("INSERT INTO changing.t VALUES (2, 2)")
    source.execute("ALTER TABLE changing.t ADD w INT NOT NULL DEFAULT 7")
    source.execute("INSERT INTO changing.t VALUES (3, 3, 30)")
    error = run_into(out, begun, tmp_path / "checkpoint")
    assert "SchemaChanged" in error
    assert "table changing.t has other columns" in error
    assert "w is new" in error
    assert (error := run_into(out, load(), tmp_path / "checkpoint")) is None, error
    assert written(spark, out) == [(1, 1, None), (2, 2, None), (3, 3, 30)]
    assert (error := run_into(tmp_path / "ignored", late, tmp_path / "other")) is None, error
    assert written(spark, tmp_path / "ignored") == [(1, 1, None), (2, 2, None), (3, 3, None)]


@pytest.mark.slow
@pytest.mark.parametrize("source", FLAVOURS[1:], indirect=True)
def test_the_driver_is_killed_under_load(source, tmp_path):
    rng = random.Random(7)
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    out.mkdir()
    options = {"statements": "skip", "path": str(source.data), "index": str(tmp_path / "index")}
    options["maxTransactionsPerTrigger"] = "40"
    given = {"out": str(out), "checkpoint": str(checkpoint), "source": options}
    command = [sys.executable, "-m", "tests.spark.stream_driver"]
    with Load(source, seed=9, **LOAD) as load, (tmp_path / "said").open("w") as said:
        for _ in range(KILLS):
            before = len(list(out.glob("*.parquet")))
            process = subprocess.Popen(
                [*command, json.dumps({**given, "once": False})], cwd=ROOT, stderr=said
            )
            try:

                def gone_on(process=process, before=before):
                    assert process.poll() is None, (tmp_path / "said").read_text()
                    return len(list(out.glob("*.parquet"))) >= before + 2

                wait_for(gone_on)
                wait_for_steps(lambda: sum(load.counts.values()), rng, 24)
            finally:
                kill(process)
    warned = "Spark before 4.2 takes one batch" in (tmp_path / "said").read_text()
    assert warned is not bool(BASES)
    del options["maxTransactionsPerTrigger"]
    last = json.dumps({**given, "once": True})
    subprocess.run([*command, last], cwd=ROOT, check=True, timeout=DEADLINE)
    files = sorted(out.glob("*.parquet"), key=lambda path: int(path.stem))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert sorted(keys(row | {"_seq": row["seq"]} for row in rows)) == expected(source.data)


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


def test_a_bucket(spark, source, landing, bucket, tmp_path):
    """A batch, a stream and a mirror.

    These two continue inside a file that was in segments, and is one object or has more of them now.
    A stream whose file is gone says so.
    """
    register(spark)
    found = []

    def follow(url):
        stream = spark.readStream.format("binlog").options(statements="skip")
        stream = stream.option("index", str(tmp_path / "index")).load(url).writeStream
        writer = stream.foreachBatch(lambda frame, _: found.extend(frame.collect()))
        run_all(writer, tmp_path / "checkpoint")

    def run():
        url, wanted = landing(), expected(source.data)
        read = spark.read.format("binlog").option("statements", "skip")
        assert sorted(keys(read.load(url).collect())) == wanted
        follow(url)
        assert sorted(keys(found)) == wanted
        mirror(url, tmp_path / "lake", tables="follow.marks", statements="skip")
        there = [number for (number,) in source.query("SELECT n FROM follow.marks ORDER BY n")]
        assert sorted(values(tmp_path / "lake", "follow.marks", "n")) == there

    mark(source)
    run()
    mark(source)
    run()
    mark(source)
    source.rotate()
    mark(source)
    run()
    source.rotate()
    mark(source)
    url = landing()
    for log in source.binlogs()[:-1]:
        bucket.remove(f"logs/{log.name}")
    with pytest.raises(StreamingQueryException, match=r"LogPurged: .* is gone"):
        follow(url)
