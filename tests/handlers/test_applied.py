"""Servers take what filters and renaming leave of their own logs: by tool and by applier thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tailrace
from tailrace.events import RowsEvent, TransactionPayloadEvent
from tailrace.handlers import ByTable, Handler, Rename
from tests.written.conftest import TAKER_ID
from tools.applied import as_relay_log, by_tool, forget, gtid_mode
from tools.servers import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.conftest import FreshServer
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


class Pair:
    def __init__(self, origin: Server, taker: Server, *, compressed: bool) -> None:
        self.origin, self.taker, self.compressed = origin, taker, compressed


@pytest.fixture(scope="module", params=[*NAMES, "mysql-9.7 compressed", "mariadb-11.8 compressed"])
def pair(request: pytest.FixtureRequest, fresh_server: FreshServer) -> Pair:
    name, _, compressed = request.param.partition(" ")
    options = dict(MYSQL) if name.startswith("mysql") else {"relay_log": "relay"}
    # Small rows events, so that statements have several.
    options["binlog_row_event_max_size"] = "256"
    if compressed:
        options |= (
            {"binlog_transaction_compression": "ON"}
            if name.startswith("mysql")
            else {"log_bin_compress": "ON", "log_bin_compress_min_len": "10"}
        )
    return Pair(
        fresh_server(name, options),
        fresh_server(name, options, server_id=TAKER_ID),
        compressed=bool(compressed),
    )


@pytest.fixture
def source(pair: Pair) -> Iterator[Path]:
    for server in (pair.origin, pair.taker):
        if server.flavour == "mysql":
            gtid_mode(server, "ON")
        forget(server, "origin", "copy")
    pair.origin.execute("create database origin")
    connection = pair.origin.connect(database="origin")
    with connection.cursor() as cursor:
        for statement in STATEMENTS:
            cursor.execute(statement)
    connection.close()
    path = pair.origin.binlogs()[-1]
    pair.origin.rotate()
    yield path
    forget(pair.origin, "origin", "copy")


def written(pair: Pair, source: Path, folder: Path, handlers: Sequence[Handler]) -> Path:
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


@pytest.mark.parametrize("way", [by_tool, as_relay_log])
def test_what_is_left_is_applied(pair: Pair, source: Path, tmp_path: Path, way: object) -> None:
    taker = pair.taker
    path = written(pair, source, tmp_path, [ByTable(["origin.kept", "origin.other"])])
    with tailrace.open(path) as log:
        events = list(log)
    rows = [event for event in events if isinstance(event, RowsEvent) and not event.is_dummy]
    assert {one.table_map.table for one in rows} == {"kept", "other"}
    assert len(rows) > 8
    way(taker, [path])
    for table in ("kept", "other"):
        query = f"select * from origin.{table} order by id"
        assert taker.query(query) == pair.origin.query(query)
    assert not taker.query("select * from origin.lost")
    if taker.flavour == "mysql":
        asked = "select @@global.gtid_executed"
        assert taker.query(asked) == pair.origin.query(
            asked
        )  # every GTID, those of emptied transactions too


@pytest.mark.parametrize("way", [by_tool, as_relay_log])
def test_dropped_statements_leave_their_gtids(
    pair: Pair, source: Path, tmp_path: Path, way: object
) -> None:
    taker = pair.taker
    taker.execute("create database origin")
    for statement in STATEMENTS[:2]:
        taker.execute(statement)
    if taker.flavour == "mysql":
        taker.execute("reset binary logs and gtids")
    path = written(pair, source, tmp_path, [ByTable(["origin.kept"], statements=False)])
    way(taker, [path])
    query = "select * from origin.kept order by id"
    assert taker.query(query) == pair.origin.query(query)
    assert len(taker.query("show tables from origin")) == 2
    if taker.flavour == "mysql":
        asked = "select @@global.gtid_executed"
        assert taker.query(asked) == pair.origin.query(asked)


@pytest.mark.parametrize("way", [by_tool, as_relay_log])
def test_a_renamed_database_is_filled(
    pair: Pair, source: Path, tmp_path: Path, way: object
) -> None:
    taker = pair.taker
    taker.execute("create database copy")
    for statement in (*STATEMENTS[:2], STATEMENTS[13]):
        taker.execute(statement.replace("origin.", "copy."))
    if taker.flavour == "mysql":
        taker.execute("reset binary logs and gtids")
    path = written(pair, source, tmp_path, [ByTable(statements=False), Rename({"origin": "copy"})])
    with tailrace.open(path, expand_payloads=False) as log:
        payloads = sum(isinstance(event, TransactionPayloadEvent) for event in log)
    assert bool(payloads) is (pair.compressed and taker.flavour == "mysql")
    way(taker, [path])
    for table in ("kept", "lost", "other"):
        assert taker.query(f"select * from copy.{table} order by id") == pair.origin.query(
            f"select * from origin.{table} order by id"
        )
    assert not taker.query("show databases like 'origin'")
