"""XA transactions that are prepared in compressed payloads: the stream and a mirror wait for them."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

from tailrace.constants import EventType
from tailrace.log import Log
from tailrace.position import Position
from tailrace.spark.datasource import Options
from tailrace.spark.shape import JSON_SCHEMA
from tailrace.spark.stream import StreamReader
from tailrace.spark.stream_options import StreamOptions
from tailrace.storage import find
from tests.spark.following import Follow, mark, read, url_of, values


@pytest.fixture(scope="module")
def server(fresh_server):
    options = {"binlog_transaction_compression": "ON", "binlog_row_metadata": "FULL"}
    server = fresh_server("mysql-9.7", options)
    server.execute("CREATE DATABASE held")
    yield server
    server.stop()


@contextmanager
def prepared(server, name, table, value):
    """A connection that has prepared an XA transaction, which a payload holds."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"XA START '{name}'")
        cursor.execute(f"INSERT INTO held.{table} VALUES ({value})")
        cursor.execute(f"XA END '{name}'")
        cursor.execute(f"XA PREPARE '{name}'")
        events = list(Log(find(server.data)[0], expand_payloads=False))
        assert EventType.XA_PREPARE not in [event.type for event in events]
        assert events[-1].type == EventType.TRANSACTION_PAYLOAD
        yield cursor


@pytest.mark.parametrize("restarted", [False, True])
def test_a_mirror_that_follows(server, tmp_path, restarted):
    lake = tmp_path / "lake"
    name = f"t{restarted:d}"
    server.execute(f"CREATE TABLE held.{name} (a INT PRIMARY KEY)")

    def following():
        return Follow(url_of(server), lake, tables=[f"held.{name}", "follow.marks"])

    for value, end in ((1, "ROLLBACK"), (2, "COMMIT"), (3, "ROLLBACK")):
        with following() as mirror:
            mirror.wait_for_mark(server)
            with prepared(server, f"{name}-{value}", name, value) as cursor:
                behind = mark(server)
                mirror.wait_for(lambda m=mirror: m.held)
                assert behind not in values(lake, "follow.marks", "n")
                if restarted:
                    mirror.stop()
                    mirror = following()  # noqa: PLW2901 - the one that goes on
                    with mirror:
                        mirror.wait_for(lambda m=mirror: m.held)
                        assert behind not in values(lake, "follow.marks", "n")
                        cursor.execute(f"XA {end} '{name}-{value}'")
                        mirror.wait_for(lambda b=behind: b in values(lake, "follow.marks", "n"))
                else:
                    cursor.execute(f"XA {end} '{name}-{value}'")
                    mirror.wait_for(lambda b=behind: b in values(lake, "follow.marks", "n"))
                    mirror.wait_for(lambda m=mirror: m.held is None)
    assert [row[0] for row in server.query(f"SELECT a FROM held.{name}")] == [2]
    assert values(lake, f"held.{name}", "a") == [2]
    assert read(lake, f"held.{name}", "changelog").column("_op").to_pylist() == ["insert"]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_stream(server, tmp_path, restarted):
    name = f"s{restarted:d}"
    server.execute(f"CREATE TABLE held.{name} (a INT PRIMARY KEY)")
    given = {
        "path": str(server.data),
        "tables": f"held.{name}",
        "images": "json",
        "index": str(tmp_path / "index"),
    }
    given["start"] = "now"

    def reader():
        return StreamReader(Options.of(given), StreamOptions.of(given), JSON_SCHEMA)

    stream = reader()
    place = stream.initialOffset()
    found = []
    for value, end in ((1, "ROLLBACK"), (2, "COMMIT"), (3, "ROLLBACK")):
        with prepared(server, f"{name}-{value}", name, value) as cursor:
            server.execute(f"INSERT INTO held.{name} VALUES ({10 + value})")
            server.connection.commit()
            assert stream.latestOffset(place) == place
            if restarted:
                stream = reader()
                assert stream.partitions(place, place) == []
                assert stream.latestOffset() == place
            cursor.execute(f"XA {end} '{name}-{value}'")
        before, place = place, stream.latestOffset(place)
        assert Position(place["file"], place["position"]) > Position(
            before["file"], before["position"]
        )
        if restarted:
            stream = reader()
        for partition in stream.partitions(before, place):
            for batch in stream.read(partition):
                found += [json.loads(text)["a"] for text in batch.column("after").to_pylist()]
    assert sorted(found) == [row[0] for row in server.query(f"SELECT a FROM held.{name}")]
