"""XA transactions that are prepared, in MySQL's compressed payloads: the stream and a mirror wait."""

import json
from contextlib import ExitStack, contextmanager

import pytest

from tailrace.constants import EventType
from tailrace.log import Log
from tailrace.position import Position
from tailrace.storage import find
from tests.spark.following import FLAVOURS, Follow, mark, read, url_of, values
from tests.spark.streaming import read_range, stream_reader


@pytest.fixture(scope="module", params=FLAVOURS)
def server(request, fresh_server):
    compressed = {"binlog_transaction_compression": "ON"} if "mysql" in request.param else {}
    server = fresh_server(request.param, {"binlog_row_metadata": "FULL", **compressed})
    server.execute("CREATE DATABASE held")
    yield server
    server.stop()


@contextmanager
def prepared(server, name, table, value):
    """A connection that has prepared an XA transaction, which a payload of MySQL's holds."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"XA START '{name}'")
        cursor.execute(f"INSERT INTO held.{table} VALUES ({value})")
        cursor.execute(f"XA END '{name}'")
        cursor.execute(f"XA PREPARE '{name}'")
        last = list(Log(find(server.data)[0], expand_payloads=False))[-1]
        assert (last.type == EventType.TRANSACTION_PAYLOAD) == (server.flavour == "mysql")
        yield cursor


STORY = ((1, "ROLLBACK", False), (2, "COMMIT", False), (3, "ROLLBACK", True), (4, "COMMIT", True))
"""Values, how their transactions end, and whether the reader is restarted while they are prepared."""


def test_a_mirror_that_follows(server, lake):
    server.execute("CREATE TABLE held.t (a INT PRIMARY KEY)")

    def following():
        return Follow(url_of(server), lake, tables=["held.t", "follow.marks"])

    for value, end, restarted in STORY:
        with ExitStack() as stack:
            mirror = stack.enter_context(following())
            mirror.wait_for_mark(server)
            cursor = stack.enter_context(prepared(server, f"t{value}", "t", value))
            behind = mark(server)
            for again in (False, True)[: 1 + restarted]:
                if again:
                    mirror.stop()
                    mirror = stack.enter_context(following())
                mirror.wait_for(lambda m=mirror: m.held)
                mirror.wait_for(lambda m=mirror: m.moments[-1].sources[0].lag_bytes > 0)
                assert behind not in values(lake, "follow.marks", "n")
            cursor.execute(f"XA {end} 't{value}'")
            mirror.wait_for(lambda b=behind: b in values(lake, "follow.marks", "n"))
            mirror.wait_for(lambda m=mirror: m.held is None)
    assert [row[0] for row in server.query("SELECT a FROM held.t")] == [2, 4]
    assert values(lake, "held.t", "a") == [2, 4]
    assert read(lake, "held.t", "changelog").column("_op").to_pylist() == ["insert"] * 2


def test_a_stream(server, tmp_path):
    server.execute("CREATE TABLE held.s (a INT PRIMARY KEY)")
    given = {"path": str(server.data), "tables": "held.s", "images": "json", "start": "now"}
    given["index"] = str(tmp_path / "index")
    stream = stream_reader(**given)
    place = stream.initialOffset()
    found = []
    for value, end, restarted in STORY:
        with prepared(server, f"s{value}", "s", value) as cursor:
            server.execute(f"INSERT INTO held.s VALUES ({10 + value})")
            assert stream.latestOffset(place) == place
            if restarted:
                stream = stream_reader(**given)
                assert stream.partitions(place, place) == []
                assert stream.latestOffset() == place
            cursor.execute(f"XA {end} 's{value}'")
        before, place = place, stream.latestOffset(place)
        assert Position(place["file"], place["position"]) > Position(
            before["file"], before["position"]
        )
        if restarted:
            stream = stream_reader(**given)
        found += [json.loads(row["after"])["a"] for row in read_range(stream, before, place)]
    assert sorted(found) == [row[0] for row in server.query("SELECT a FROM held.s")]
