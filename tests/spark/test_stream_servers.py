"""The streaming reader without Spark, over servers: restarts, purged and reset logs, starts."""

import json
from unittest import mock

import pytest

from tailrace.errors import LogReset, PipelineError, SchemaChanged, UsageError
from tailrace.spark.stream import datasource
from tailrace.spark.stream.datasource import BinlogDataSource, newest_schema
from tailrace.spark.stream.options import Options
from tailrace.spark.stream.reader import BASES
from tailrace.storage import find
from tests.spark.following import BOTH, mark, url_of
from tests.spark.streaming import read_range, stream_reader
from tests.waiting import wait_for


@pytest.fixture
def reader(source, tmp_path):
    """A function that makes a reader of the server; they are stopped behind the test."""
    made = []

    def make(**options):
        given = {"path": url_of(source), "tables": "follow.*", "spool": str(tmp_path / "spool")}
        given |= options
        made.append(stream_reader(**given))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def come(reader, start, rows):
    """Look until so many rows have come; the offset behind them."""

    def there():
        end = reader.latestOffset(start)
        return end if len(read_range(reader, start, end)) >= rows else None

    return wait_for(there)


@BOTH
def test_restarted_purged_and_reset(reader, source, tmp_path):
    mark(source)
    first = reader(start="now")
    start = first.initialOffset()
    for _ in range(3):
        mark(source)
    end = come(first, start, 3)
    rows = read_range(first, start, end)
    source.rotate()
    kept = source.query("SHOW BINARY LOGS")[-1][0]
    wait_for(lambda: find(tmp_path / "spool")[0].files[-1].name == kept)
    first.stop()
    source.execute(f"PURGE BINARY LOGS TO '{kept}'")
    second = reader(start="now")
    assert second.partitions(end, end) == []
    mark(source)
    later = come(second, end, 1)
    assert read_range(second, start, end) == rows
    behind = reader(start="oldest", spool=str(tmp_path / "other"))
    assert len(read_range(behind, behind.initialOffset(), behind.latestOffset())) >= 1
    reset = {"mysql": "RESET BINARY LOGS AND GTIDS", "mariadb": "RESET MASTER"}[source.flavour]
    second.stop()
    source.execute(reset)
    third = reader(start="now")
    with pytest.raises(LogReset):  # noqa: PT012 - it is found out when the receiver is answered
        third.partitions(later, later)
        wait_for(lambda: not third.latestOffset(later))


def test_a_copy_is_of_one_query(reader, source):
    mark(source)
    first = reader()
    first.latestOffset()
    source.rotate()
    mark(source)
    end = first.latestOffset()
    while end["file"] != source.query("SHOW BINARY LOGS")[-1][0]:
        end = first.latestOffset()
    first.commit(end)
    source.rotate()
    mark(source)
    wait_for(lambda: first.latestOffset(end) != end)
    first.stop()
    second = reader()
    with pytest.raises(UsageError, match="a folder of its own"):
        second.initialOffset()


LARGE = 8
"""Transactions of a MiB in the log before a query begins, and after."""
MOST = 500_000 + (4 << 20) + (1 << 20) + (1 << 20)
"""What a spool of 500 kB has: a chunk more, the rest of a transaction, and the last file."""


@pytest.fixture
def limited(reader, fresh_server):
    """A server, and a function that makes a reader of it, with a limit, and one that fills it."""
    gtids = {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}
    server = fresh_server("mysql-9.7", {"max_binlog_size": 1 << 20, **gtids})
    server.execute("CREATE DATABASE follow")
    server.execute("CREATE TABLE follow.large (n INT PRIMARY KEY AUTO_INCREMENT, v MEDIUMBLOB)")

    def fill():
        for _ in range(LARGE):
            server.execute("INSERT INTO follow.large (v) VALUES (REPEAT('x', 1 << 20))")

    def query(**options):
        return reader(path=url_of(server), spoolLimit="500kB", **options)

    return server, query, fill


@pytest.mark.parametrize("start", ["oldest", "now", "gtids"])
def test_a_spool_with_a_limit(limited, tmp_path, capsys, start):
    """Its files are deleted batch by batch. Where a query begins is found out beyond the limit."""
    server, query, fill = limited
    gtids = server.query("SELECT @@gtid_executed")[0][0]
    fill()
    stream = query(start=gtids if start == "gtids" else start)
    place = first = stream.initialOffset()
    fill()
    rows = LARGE if start == "now" else 2 * LARGE
    sizes, batches = [], []
    while sum(batches) < rows:

        def come(place=place):
            end = stream.latestOffset(None if start == "oldest" and place == first else place)
            return end if end != place else None

        end = wait_for(come)
        batches.append(len(read_range(stream, place, end)))
        stream.commit(end)
        place = end
        if start == "oldest" or len(batches) > 1:
            sizes.append(
                sum(each.stat().st_size for each in (tmp_path / "spool").glob("binlog.0*[0-9]"))
            )
    assert sum(batches) == rows
    assert max(sizes) < MOST < rows << 20
    assert ("spoolLimit" in capsys.readouterr().err) == (start == "oldest" and not BASES)


def test_an_in_doubt_transaction_that_holds_more_than_the_limit(limited, tmp_path):
    """The first batch, which waits for what the server has by now, and each later one."""
    server, query, fill = limited
    ((gtids,),) = server.query("SELECT @@gtid_executed")
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("XA START 'x'")
        cursor.execute("INSERT INTO follow.large (v) VALUES ('')")
        cursor.execute("XA END 'x'")
        cursor.execute("XA PREPARE 'x'")
        fill()
        stream = query(start=gtids)
        place = stream.initialOffset()
        fill()
        assert stream.latestOffset() == place
        files = (tmp_path / "spool").glob("binlog.0*[0-9]")
        assert sum(each.stat().st_size for each in files) > 2 * LARGE << 20
        fill()
        assert stream.latestOffset(place) == place
        cursor.execute("XA COMMIT 'x'")
    assert len(read_range(stream, place, come(stream, place, 3 * LARGE + 1))) == 3 * LARGE + 1


def test_a_copy_begins_where_its_query_does(limited, tmp_path):
    """At a position: neither what the server has before nor all that it has after is received."""
    server, query, fill = limited
    fill()
    ((file, offset, *_),) = server.query("SHOW BINARY LOG STATUS")
    fill()
    stream = query(start=f"{file}:{offset}")
    place = stream.initialOffset()
    assert (place["file"], place["position"]) == (file, offset)
    assert min(path.name for path in (tmp_path / "spool").glob("binlog.0*")) == file
    assert sum(path.stat().st_size for path in (tmp_path / "spool").glob("binlog.0*")) < MOST
    first = read_range(stream, place, come(stream, place, 1))
    assert next(iter(json.loads(first[0]["after"]).values())) == LARGE + 1


CHANGES = {
    "new": ("ADD w INT", "w is new"),
    "renamed": ("CHANGE v w INT", "w is new, v is gone"),
    "gone": ("DROP COLUMN v", "v is gone"),
    "type": ("MODIFY v VARCHAR(9)", "its column v was changed from string to int32"),
}


def test_a_table_that_gets_other_columns(source):
    """Rows behind the one that a query took its columns from have these, or it ends."""
    source.execute("CREATE DATABASE IF NOT EXISTS changing")
    for change, (statement, said) in CHANGES.items():
        table = f"changing.{change}"
        source.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, u INT, v INT)")
        source.execute(f"INSERT INTO {table} VALUES (1, 1, 1)")
        source.execute(f"ALTER TABLE {table} DROP COLUMN u")
        source.execute(f"INSERT INTO {table} VALUES (2, 2)")

        def begun(images="row", table=table, **more):
            given = {"path": str(source.data), "tables": table, "images": images}
            asked = BinlogDataSource(given | more)
            return asked.streamReader(asked.schema())

        early = [begun(images) for images in ("row", "both")]
        ignoring, some = begun(schemaChange="ignore"), begun(columns="id")
        start = early[0].initialOffset()
        for each in early:
            assert len(read_range(each, start, each.latestOffset())) == 2
        source.execute(f"ALTER TABLE {table} {statement}")
        row = {"new": "(3, 3, 3)", "gone": "(3)", "type": "(3, 'x')"}.get(change, "(3, 3)")
        source.execute(f"INSERT INTO {table} VALUES {row}")
        for each in early:
            with pytest.raises(SchemaChanged, match="start the query again") as raised:
                read_range(each, start, each.latestOffset())
            assert said in str(raised.value)
        reading = [some, begun("row"), begun("both"), *([ignoring] if change != "type" else [])]
        for each in reading:
            assert len(read_range(each, start, each.latestOffset())) == 3, change


@BOTH
def test_the_log_is_not_read_for_the_schema(source, tmp_path):
    """Rows up to then may have other columns, and later rows may not."""
    source.execute("CREATE DATABASE asked")
    table = "asked.t"
    source.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY AUTO_INCREMENT, u INT, v INT)")
    source.execute(f"INSERT INTO {table} VALUES (1, 1, 1)")
    source.execute(f"ALTER TABLE {table} DROP COLUMN u, ADD w VARCHAR(9)")
    given = {"path": url_of(source), "tables": table, "spool": str(tmp_path / "spool")}
    asked = BinlogDataSource(given)
    with mock.patch.object(datasource, "changes", side_effect=AssertionError("the log is read")):
        schema = asked.schema()
        some, _ = newest_schema(Options.of(given | {"columns": "w"}))
        with pytest.raises(PipelineError, match="has no column u"):
            newest_schema(Options.of(given | {"columns": "u"}))
    assert some.names[-1:] == ["w"]
    assert schema.names[-3:] == ["id", "v", "w"]
    reader = asked.streamReader(schema)
    try:
        start = reader.initialOffset()
        source.execute(f"INSERT INTO {table} VALUES (2, 2, 'x')")
        rows = read_range(reader, start, end := come(reader, start, 2))
        assert [(row["id"], row["v"], row["w"]) for row in rows] == [(1, 1, None), (2, 2, "x")]
        source.execute(f"ALTER TABLE {table} ADD more INT")
        source.execute(f"INSERT INTO {table} VALUES (3, 3, 'y', 3)")
        with pytest.raises(SchemaChanged, match="more is new"):
            come(reader, end, 1)
    finally:
        reader.stop()
