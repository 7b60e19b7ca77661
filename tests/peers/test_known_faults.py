"""What readers of other makes are known to get wrong, each with a test of its own."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

import tailrace
from tailrace.errors import BoundaryError
from tailrace.events import (
    GtidEvent,
    MariadbGtidEvent,
    QueryEvent,
    RowsEvent,
    TransactionPayloadEvent,
)
from tailrace.handlers import ByTable, Rename
from tailrace.log.changes import Changes
from tailrace.log.reader import Reader
from tailrace.position import Position
from tailrace.storage import LogFile, LogSeries, find
from tailrace.transaction import TransactionKind
from tests.cases import each_case
from tests.recorded import CORPUS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import FreshServer
    from tools.servers import Server


def rows_of(series: LogSeries, **options: object) -> Iterator[tuple[str, str, tuple[object, ...]]]:
    """Operation, table and values of each row that holds."""
    for change in Changes(Reader(series, **options)):
        for row in change.rows():
            image = row.after if row.after is not None else row.before
            yield change.event.kind, change.schema.table, image.as_tuple()


def logs_since(server: Server, first: Path) -> LogSeries:
    return LogSeries(
        "x", tuple(LogFile.at(p) for p in sorted(server.binlogs()) if p.name >= first.name)
    )


# Payload events skipped (mysql-binlog-connector-java, older go-mysql, mysql-replication).


def test_every_row_in_a_payload_arrives(mysql97: Server) -> None:
    server = mysql97
    server.execute("create database peers")
    server.execute("create table peers.t (id int primary key, v varchar(2000))")
    server.rotate()
    first = max(server.binlogs())
    connection = server.connect(autocommit=False)
    with connection.cursor() as cursor:
        cursor.execute("set session binlog_transaction_compression = on")
        for base in range(0, 3000, 1000):
            cursor.executemany(
                "insert into peers.t values (%s, %s)",
                [(base + n, str(n) * (n % 300)) for n in range(1000)],
            )
            cursor.execute("update peers.t set v = 'changed' where id % 100 = 7")
            cursor.execute("delete from peers.t where id % 100 = 9")
            connection.commit()
    connection.close()
    server.rotate()
    series = logs_since(server, first)
    kept: dict[object, object] = {}
    with tailrace.open(series) as log:
        payloads = 0
        for event in log:
            payloads += isinstance(event, TransactionPayloadEvent)
            assert not isinstance(event, RowsEvent) or event.inner_index is not None
    assert payloads == 3
    for kind, _, (key, value) in rows_of(series):
        if kind == "delete":
            del kept[key]
        else:
            kept[key] = value
    assert kept == dict(server.query("select id, v from peers.t"))
    # A filter and a rename act inside, also for who gets the outer events only.
    for handlers, table in (([ByTable([])], None), ([Rename({"peers": "x"})], "x")):
        with tailrace.open(series, handlers=handlers, expand_payloads=False) as log:
            found = [i for e in log if isinstance(e, TransactionPayloadEvent) for i in e]
        names = {one.table_map.database for one in found if isinstance(one, RowsEvent)}
        assert names == ({table} if table else set())


# Positions of 0: inside payloads, and inside transactions of MariaDB 11.4 and later.


@each_case(
    ("case", "zeros"),
    [
        ("mariadb-11.8.checksum-crc32", True),
        ("mariadb-11.8.legacy-positions", False),
        ("mariadb-10.11.checksum-crc32", False),
    ],
)
def test_positions_of_zero_in_transactions(case: str, zeros: bool) -> None:
    """Our own count is right where the header says nothing, and resuming at it works."""
    with tailrace.open(CORPUS / case) as log:
        events = list(log)
        whole = list(log.transactions())
    silent = [event for event in events if event.header.log_pos == 0]
    assert bool(silent) is zeros
    raw = {path.name: path.read_bytes() for path in (CORPUS / case).glob("binlog.0*")}
    for event in events:
        assert event.file
        assert event.offset
        assert raw[event.file][event.offset :].startswith(event.header.encode() + event.body)
        assert event.header.log_pos in {0, event.end_offset}
    for number, one in enumerate(whole):
        with tailrace.open(CORPUS / case, start=one.end) as log:
            assert [each.events for each in log.transactions()] == [
                each.events for each in whole[number + 1 :]
            ]


@each_case("case", ["mysql-9.7.payload-full", "mysql-9.7.payload-no-checksum"])
def test_positions_of_zero_in_payloads(case: str) -> None:
    opened = tailrace.open(CORPUS / case)
    places: list[Position] = []
    inner = 0
    outer = None
    for event in opened:
        places.append(opened.position)
        if event.inner_index is None:
            outer = event
            continue
        inner += 1
        assert outer is not None
        assert event.header.log_pos == 0
        assert (event.file, event.offset, event.end_offset) == (
            outer.file,
            outer.offset,
            outer.end_offset,
        )
        assert opened.position <= Position(
            event.file or "", event.offset or 0
        )  # not past it before its end
    assert inner > 10
    assert all(one <= two and two.offset > 0 for one, two in pairwise(places))
    for place in sorted(set(places))[1:]:
        resumed = [
            event
            for event in tailrace.open(CORPUS / case, start=place)
            if event.inner_index is None
        ]
        assert resumed[1:] == [
            event
            for event in opened
            if event.inner_index is None
            and Position(event.file or "", event.offset or 0) >= place
            and event.name != "FORMAT_DESCRIPTION"
        ]


# Rollback inside a transaction.


MIXED = {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}
"""With GTIDs MySQL refuses transactions over tables with and without transactions."""
ROLLBACKS = (
    "begin",
    "insert into {d}.inno values (1, 'kept')",
    "savepoint one",
    "insert into {d}.inno values (2, 'back')",
    "update {d}.inno set v = 'back' where id = 1",
    "savepoint two",
    "insert into {d}.inno values (3, 'back')",
    "rollback to two",
    "insert into {d}.mine values (1, 'stays')",
    "rollback to one",
    "insert into {d}.inno values (4, 'kept')",
    "savepoint one",
    "insert into {d}.inno values (5, 'back')",
    "rollback to one",
    "commit",
    "begin",
    "insert into {d}.inno values (6, 'back')",
    "insert into {d}.mine values (2, 'stays')",
    "update {d}.mine set v = 'changed' where id = 1",
    "insert into {d}.inno values (7, 'back')",
    "rollback",
    "begin",
    "insert into {d}.mine select id + 10, v from {d}.inno",
    "insert into {d}.inno select id + 10, v from {d}.mine",
    "rollback",
    "insert into {d}.inno values (8, 'kept')",
)


@pytest.fixture(scope="module")
def mixing(fresh_server: FreshServer) -> Server:
    return fresh_server("mysql-9.7", MIXED)


@pytest.mark.parametrize("how", ["mysql", "mysql, compressed", "mariadb"])
def test_rollback_inside_a_transaction(how: str, request: pytest.FixtureRequest) -> None:
    """What rows hold is what SELECT gives: with savepoints, and tables without transactions."""
    server = request.getfixturevalue("mariadb118" if how == "mariadb" else "mixing")
    server.execute("drop database if exists peers_rollback")
    server.execute("create database peers_rollback")
    for table, engine in (("inno", "innodb"), ("mine", "myisam")):
        server.execute(
            f"create table peers_rollback.{table} (id int primary key, v varchar(20)) engine={engine}"
        )
    server.rotate()
    first = max(server.binlogs())
    connection = server.connect()
    with connection.cursor() as cursor:
        if how.endswith("compressed"):
            cursor.execute("set session binlog_transaction_compression = on")
        for statement in ROLLBACKS:
            cursor.execute(statement.format(d="peers_rollback"))
    connection.close()
    server.rotate()
    kept: dict[str, dict[object, object]] = {"inno": {}, "mine": {}}
    series = logs_since(server, first)
    for kind, table, (key, value) in rows_of(series):
        assert kind != "delete"
        kept[table][key] = value
    for table, rows in kept.items():
        assert rows == dict(server.query(f"select id, v from peers_rollback.{table}"))
    assert set(kept["inno"]) == {1, 4, 8}
    kinds = [one.kind for one in tailrace.open(series).transactions()]
    assert TransactionKind.COMMIT in kinds
    assert None not in kinds


# Statements without BEGIN.


def test_statements_without_begin(flavour_server: Server) -> None:
    """Each is a transaction of its own, complete, and a place to resume behind."""
    server = flavour_server
    server.execute("drop database if exists peers_plain")
    server.rotate()
    first = max(server.binlogs())
    connection = server.connect()
    statements = [
        "create database peers_plain",
        "create table peers_plain.t (id int) engine=myisam",
        "alter table peers_plain.t add v int",
        "create temporary table peers_plain.gone (id int)",
        "drop temporary table peers_plain.gone",
        "create user if not exists peers_plain identified by 'x'",
        "drop user peers_plain",
        "truncate peers_plain.t",
        "drop table peers_plain.t",
        "drop database peers_plain",
    ]
    with connection.cursor() as cursor:
        cursor.execute("set session binlog_format = 'STATEMENT'")
        for statement in statements:
            cursor.execute(statement)
    connection.close()
    server.rotate()
    series = logs_since(server, first)
    whole = list(tailrace.open(series).transactions())
    ddl = [one for one in whole if one.kind is TransactionKind.DDL]
    texts = [one.events[-1].sql.lower() for one in ddl if isinstance(one.events[-1], QueryEvent)]
    for words in (
        "create database peers_plain",
        "alter table peers_plain.t add v int",
        "truncate peers_plain.t",
        "drop database",
    ):
        assert any(words in text for text in texts)
    for one in ddl:
        names = [event.name for event in one.events]
        assert isinstance(one.events[0], (GtidEvent, MariadbGtidEvent))
        assert names[1:] == ["QUERY"]
    assert all(one.complete for one in whole)
    for number, one in enumerate(whole):
        rest = tailrace.open(series, start=one.end).transactions()
        assert [each.events for each in rest] == [each.events for each in whole[number + 1 :]]


# An incident event.


@each_case("case", ["mysql-9.7.incident", "mariadb-11.8.incident", "mariadb-10.11.incident"])
def test_an_incident(case: str) -> None:
    """It is decoded, a transaction of its own; who reads rows is told that some are lost."""
    with tailrace.open(CORPUS / case) as log:
        incidents = [event for event in log if event.name == "INCIDENT"]
        assert not log.incomplete
        whole = list(log.transactions())
    (incident,) = incidents
    incident.check()
    assert incident.incident == 1
    assert incident.message
    (lost,) = [one for one in whole if any(event.name == "INCIDENT" for event in one.events)]
    assert lost.kind is TransactionKind.STANDALONE
    (series,) = find(CORPUS / case)
    with pytest.raises(
        BoundaryError,
        match=rf"{incident.file} at {incident.offset} \(INCIDENT\): the server lost events",
    ):
        list(rows_of(series))
