"""Servers take what filters and renaming leave of their own logs: by tool and by applier thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import tailrace
from tailrace.events import RowsEvent, TransactionPayloadEvent
from tailrace.handlers import ByTable, Rename
from tests.cases import each_case
from tests.written.conftest import TAKER_ID
from tools.applied import as_relay_log, by_tool, forget, gtid_mode
from tools.servers import ONE_OF_EACH

if TYPE_CHECKING:
    from tools.servers import Server

STATEMENTS = (
    "create table origin.kept (id int primary key, v varchar(200))",
    "create table origin.lost (id int primary key, v varchar(200))",
    "create trigger origin.t1 after insert on origin.kept for each row insert into origin.lost values (new.id, new.v)",
    "create trigger origin.t2 after insert on origin.lost for each row set @n = 1",
    "insert into origin.kept values (1, 'one'), (2, 'two'), (3, 'three')",
    "insert into origin.lost values (100, 'only lost')",
    "begin",
    "insert into origin.lost values (101, 'in between')",
    "update origin.kept k join origin.lost l using (id) set k.v = 'both', l.v = 'both' where k.id < 3",
    "update origin.lost l join origin.kept k using (id) set l.v = 'again', k.v = 'again' where k.id > 1",
    "delete k, l from origin.kept k join origin.lost l using (id) where k.id = 3",
    "commit",
    "drop trigger origin.t1",
    "create table origin.other (id int primary key)",
    "insert into origin.other values (1)",
    "insert into origin.kept select id + 1000, repeat(v, 20) from origin.lost",
    "delete from origin.lost",
)
MYSQL = {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}


WAYS = [(by_tool, False), (as_relay_log, False), (by_tool, True), (as_relay_log, True)]
"""How the taker gets the log, and whether its transactions are compressed."""


@dataclass
class Pair:
    origin: Server
    taker: Server

    def log(self, *, compressed):
        """The log of the statements, run on the origin; the taker has nothing of them."""
        origin = self.origin
        for server in (origin, self.taker):
            if server.flavour == "mysql":
                gtid_mode(server, "ON")
            forget(server, "origin", "copy")
        if origin.flavour == "mariadb":
            origin.execute(f"set global log_bin_compress = {compressed}")
        origin.execute("create database origin")
        with origin.connect(database="origin") as connection, connection.cursor() as cursor:
            if origin.flavour == "mysql":
                cursor.execute(f"set binlog_transaction_compression = {compressed}")
            for statement in STATEMENTS:
                cursor.execute(statement)
        path = origin.binlogs()[-1]
        origin.rotate()
        return path


@pytest.fixture(scope="module", params=ONE_OF_EACH)
def pair(request, fresh_server):
    name = request.param
    more = (
        MYSQL
        if name.startswith("mysql")
        else {"relay_log": "relay", "log_bin_compress_min_len": 10}
    )
    # Small rows events, so that statements have several.
    options = {**more, "binlog_row_event_max_size": "256"}
    return Pair(fresh_server(name, options), fresh_server(name, options, server_id=TAKER_ID))


def written(source, folder, handlers):
    with (
        tailrace.open(source, handlers=handlers) as log,
        tailrace.create(
            folder / "binlog.000001",
            flavour=log.format.flavour,
            server_id=77,
            server_version=log.format.server_version,
        ) as out,
    ):
        for event in log:
            out.write(event)
    return folder / "binlog.000001"


@each_case(("way", "compressed"), WAYS)
def test_what_is_left_is_applied(pair, tmp_path, way, compressed):
    taker = pair.taker
    path = written(
        pair.log(compressed=compressed), tmp_path, [ByTable(["origin.kept", "origin.other"])]
    )
    with tailrace.open(path) as log:
        events = list(log)
    rows = [event for event in events if isinstance(event, RowsEvent) and not event.is_dummy]
    assert {one.table_map.table for one in rows} == {"kept", "other"}
    assert len(rows) > 8
    way(taker, [path])
    for name in ("kept", "other"):
        query = f"select * from origin.{name} order by id"
        assert taker.query(query) == pair.origin.query(query)
    assert not taker.query("select * from origin.lost")
    if taker.flavour == "mysql":
        asked = "select @@global.gtid_executed"
        assert taker.query(asked) == pair.origin.query(
            asked
        )  # every GTID, those of emptied transactions too


@each_case(("way", "compressed"), WAYS[1:3])
def test_dropped_statements_leave_their_gtids(pair, tmp_path, way, compressed):
    taker, source = pair.taker, pair.log(compressed=compressed)
    taker.execute("create database origin")
    for statement in STATEMENTS[:2]:
        taker.execute(statement)
    if taker.flavour == "mysql":
        taker.execute("reset binary logs and gtids")
    path = written(source, tmp_path, [ByTable(["origin.kept"], statements=False)])
    way(taker, [path])
    query = "select * from origin.kept order by id"
    assert taker.query(query) == pair.origin.query(query)
    assert len(taker.query("show tables from origin")) == 2
    if taker.flavour == "mysql":
        asked = "select @@global.gtid_executed"
        assert taker.query(asked) == pair.origin.query(asked)


@each_case(("way", "compressed"), WAYS)
def test_a_renamed_database_is_filled(pair, tmp_path, way, compressed):
    taker, source = pair.taker, pair.log(compressed=compressed)
    taker.execute("create database copy")
    for statement in (*STATEMENTS[:2], STATEMENTS[13]):
        taker.execute(statement.replace("origin.", "copy."))
    if taker.flavour == "mysql":
        taker.execute("reset binary logs and gtids")
    path = written(source, tmp_path, [ByTable(statements=False), Rename({"origin": "copy"})])
    with tailrace.open(path, expand_payloads=False) as log:
        payloads = sum(isinstance(event, TransactionPayloadEvent) for event in log)
    assert bool(payloads) is (compressed and taker.flavour == "mysql")
    way(taker, [path])
    for name in ("kept", "lost", "other"):
        assert taker.query(f"select * from copy.{name} order by id") == pair.origin.query(
            f"select * from origin.{name} order by id"
        )
    assert not taker.query("show databases like 'origin'")
