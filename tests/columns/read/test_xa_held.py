"""XA transactions prepared in compressed payloads hold the planner up, as others do."""

import random

import pytest

from tailrace.columns import read_split
from tailrace.columns.read.planner import SplitPlanner
from tailrace.constants import EventType
from tailrace.errors import TailraceError
from tailrace.log import Log
from tailrace.position import Position
from tailrace.storage import find
from tests.cases import each_case

LARGE = 17 << 20
"""Bytes of a value that no compression makes small: its payload is read in pieces."""


@pytest.fixture(scope="module")
def server(fresh_server):
    options = {"binlog_transaction_compression": "ON", "binlog_row_metadata": "FULL"}
    server = fresh_server("mysql-9.7", options)
    server.execute("create database d")
    server.execute("create table d.t (id int auto_increment primary key, v longblob)")
    yield server
    server.stop()


def log_from_now(server):
    """Looks at the server's log from here on: gives its series."""
    server.execute("flush binary logs")
    first = server.query("show binary logs")[-1][0]
    server.execute(f"purge binary logs to '{first}'")

    def look():
        (series,) = find(server.data)
        return series

    return look


def prepare(cursor, name, value=b"x"):
    cursor.execute(f"xa start '{name}'")
    cursor.execute("insert into d.t (v) values (%s)", (value,))
    cursor.execute(f"xa end '{name}'")
    cursor.execute(f"xa prepare '{name}'")


def rows(splits):
    return sorted(
        row["after"]["id"]
        for split in splits
        for batch in read_split(split, columns=["id"])
        for row in batch.select(["after"]).to_pylist()
    )


def insert(server):
    server.execute("insert into d.t (v) values ('between')")
    server.connection.commit()


@each_case("size", [1, LARGE], ids=["small", "large"])
@each_case("restarted", [False, True])
@each_case("end", ["commit", "rollback"])
def test_held_until_it_is_decided(server, end, restarted, size):
    log = log_from_now(server)
    known = {row[0] for row in server.query("select id from d.t")}
    value = random.Random(1).randbytes(size)
    planner = SplitPlanner(target_bytes=1)
    insert(server)
    found = rows(planner.plan(log()))
    with server.connect() as connection, connection.cursor() as cursor:
        prepare(cursor, "held", value)
        insert(server)
        assert rows(planner.plan(log())) == []
        payloads = [
            event.header.length
            for event in Log(log(), expand_payloads=False)
            if event.type == EventType.TRANSACTION_PAYLOAD
        ]
        assert max(payloads) > size
        begin = planner.held
        assert begin is not None
        assert planner.end is None or planner.end <= begin
        if restarted:
            planner = SplitPlanner(after=planner.end, target_bytes=1)
            assert rows(planner.plan(log())) == []
            assert planner.held == begin
        cursor.execute(f"xa {end} 'held'")
    insert(server)
    if restarted:
        planner = SplitPlanner(after=planner.end, target_bytes=1)
    splits = planner.plan(log())
    assert planner.held is None
    assert any(Position(split.file, split.start) == begin for split in splits)
    found += rows(splits)
    assert found == sorted(
        row[0] for row in server.query("select id from d.t") if row[0] not in known
    )


def test_one_that_is_committed_at_once_holds_nothing(server):
    log = log_from_now(server)
    planner = SplitPlanner()
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("xa start 'one'")
        cursor.execute("insert into d.t (v) values ('one')")
        number = cursor.lastrowid
        cursor.execute("xa end 'one'")
        cursor.execute("xa commit 'one' one phase")
        for name, done in (("two", "commit"), ("three", "rollback")):
            prepare(cursor, name)
            cursor.execute(f"xa {done} '{name}'")
    assert rows(planner.plan(log())) == [number, number + 1]
    assert planner.held is None


def test_a_damaged_payload_is_named(server, tmp_path):
    server.rotate()
    insert(server)
    path = server.rotate()
    data = bytearray(path.read_bytes())
    at = data.index(b"\x28\xb5\x2f\xfd")
    data[at + 4 : at + 12] = b"\xff" * 8
    (tmp_path / path.name).write_bytes(data)
    (series,) = find(tmp_path)
    with pytest.raises(TailraceError, match=rf"{path.name} at \d+ \(TRANSACTION_PAYLOAD\)"):
        SplitPlanner().plan(series)
