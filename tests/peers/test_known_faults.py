"""What readers of other makes are known to get wrong, each with a test of its own."""

import pytest

import tailrace
from tailrace.events import GtidEvent, MariadbGtidEvent, QueryEvent
from tailrace.log.changes import Changes
from tailrace.log.reader import Reader
from tailrace.transaction import TransactionKind
from tests.values.replay import since


def rows_of(series):
    """Operation, table and values of each row that holds."""
    for change in Changes(Reader(series)):
        for row in change.rows():
            image = row.after if row.after is not None else row.before
            yield change.event.kind, change.schema.table, image.as_tuple()


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
def mixing(fresh_server):
    return fresh_server("mysql-9.7", MIXED)


@pytest.mark.parametrize("how", ["mysql", "mysql, compressed", "mariadb"])
def test_rollback_inside_a_transaction(how, request):
    """What rows hold is what SELECT gives: with savepoints, and tables without transactions."""
    server = request.getfixturevalue("mariadb118" if how == "mariadb" else "mixing")
    server.execute("drop database if exists peers_rollback")
    server.execute("create database peers_rollback")
    for table, engine in (("inno", "innodb"), ("mine", "myisam")):
        server.execute(
            f"create table peers_rollback.{table} (id int primary key, v varchar(20)) engine={engine}"
        )
    before = server.rotate().name
    connection = server.connect()
    with connection.cursor() as cursor:
        if how.endswith("compressed"):
            cursor.execute("set session binlog_transaction_compression = on")
        for statement in ROLLBACKS:
            cursor.execute(statement.format(d="peers_rollback"))
    connection.close()
    kept = {"inno": {}, "mine": {}}
    series = since(server, before)
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


def test_statements_without_begin(flavour_server):
    """Each is a transaction of its own, complete, and a place to resume behind."""
    server = flavour_server
    server.execute("drop database if exists peers_plain")
    before = server.rotate().name
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
    series = since(server, before)
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
