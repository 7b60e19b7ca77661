"""Statements about transactions in each spelling that the servers understand, on both paths."""

import struct

import pytest

import tailrace
from tailrace.columns.read.planner import SplitPlanner
from tailrace.constants import EventType as E
from tailrace.errors import BoundaryError, UsageError
from tailrace.log.changes import Changes
from tailrace.log.reader import Reader
from tailrace.storage import find
from tailrace.transaction.statements import (
    begins,
    commits,
    rolls_back,
    savepoint_of_rollback,
    savepoint_set,
)
from tests.cases import each_case
from tests.events.made import query_body, raw_event

SAVEPOINTS = ("SAVEPOINT{}", "savepoint/**/{}", "Savepoint -- x\n{};", "/* app */ SAVEPOINT {} # x")
ROLLBACKS_TO = (
    "ROLLBACK TO{}",
    "rollback/* x */work/**/to/**/savepoint{}",
    "ROLLBACK/**/TO {}",
    "ROLLBACK -- x\n TO {}",
    "/* app */ ROLLBACK WORK TO{};",
    "/*!50000 ROLLBACK */ TO SAVEPOINT {} -- x",
)
NAMES = ("`a`", " a", " /* c */ `A`", "`it``s; to`", " `savepoint`")
ROLLBACKS = (
    "ROLLBACK",
    "rollback/**/",
    "Rollback work",
    "ROLLBACK AND NO CHAIN",
    "/* to */ ROLLBACK -- to",
    "ROLLBACK NO RELEASE;",
)
BEGINS = ("BEGIN", "begin", "BEGIN /* x */", "/* x */ Begin Work;", "BEGIN -- x")
COMMITS = ("COMMIT", "commit", "COMMIT /* x */", "/* x */ Commit Work;", "COMMIT AND NO CHAIN")


@each_case("name", ["mysql-9.7", "mariadb-11.8"])
def test_each_spelling_means_what_servers_log_for_it(fresh_server, name):
    """A server logs a form of its own. What was typed is understood as the same."""
    mysql = name.startswith("mysql")
    options = {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"} if mysql else {}
    server = fresh_server(name, options)
    for sql in (
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT)",
        "CREATE TABLE d.m (a INT) ENGINE=MyISAM",
    ):
        server.execute(sql)
    server.rotate()
    typed = []
    with server.connect(database="d", autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute("SET SESSION binlog_format = STATEMENT")
        for back in ROLLBACKS_TO:
            for spot in NAMES:
                asked = SAVEPOINTS[len(typed) % len(SAVEPOINTS)].format(spot), back.format(spot)
                typed += asked
                for sql in ("BEGIN", "INSERT t VALUES (1)", asked[0], "INSERT t VALUES (2)"):
                    cursor.execute(sql)
                for sql in ("INSERT m VALUES (3)", asked[1], "COMMIT"):
                    cursor.execute(sql)
        for begin in BEGINS:
            for end in ROLLBACKS:
                typed.append(end)
                for sql in (begin, "INSERT t VALUES (1)", "INSERT m VALUES (3)", end):
                    cursor.execute(sql)
    logged = [
        event.sql
        for event in tailrace.open(server.rotate())
        if event.header.type == E.QUERY and event.sql.startswith(("SAVEPOINT", "ROLLBACK"))
    ]

    def meaning(sql):
        return savepoint_set(sql), savepoint_of_rollback(sql), rolls_back(sql.encode())

    assert [meaning(sql) for sql in typed] == [meaning(sql) for sql in logged]
    assert set(logged) == {
        *("SAVEPOINT `a`", "SAVEPOINT `A`", "SAVEPOINT `it``s; to`", "SAVEPOINT `savepoint`"),
        *("ROLLBACK TO `a`", "ROLLBACK TO `A`", "ROLLBACK TO `it``s; to`"),
        *("ROLLBACK TO `savepoint`", "ROLLBACK"),
    }


def test_what_only_looks_like_one():
    for sql in ("BEGIN NOT ATOMIC SELECT 1; END", "BEGINS", "BEGIN_WORK()", "-- BEGIN"):
        assert not begins(sql.encode())
    for sql in ("COMMITTED", "/* COMMIT */", "CREATE TABLE commit (a INT)"):
        assert not commits(sql.encode())
    for sql in ("ROLLBACKS", "RELEASE SAVEPOINT a", "SAVEPOINTS", "SAVEPOINT", "-- ROLLBACK"):
        assert (savepoint_set(sql), savepoint_of_rollback(sql)) == (None, None)
        assert not rolls_back(sql.encode())


@pytest.fixture
def parts(tmp_path):
    """A file's events: its head, a GTID, and for three rows each table map and rows; an XID."""
    table = tailrace.Table.parse("CREATE TABLE d.t (a INT)")
    path = tmp_path / "binlog.000001"
    with (
        tailrace.create(path, flavour="mysql", server_id=7, checksum="none") as log,
        log.transaction() as transaction,
    ):
        for number in (1, 2, 3):
            transaction.insert(table, [(number,)])
    raws = {}
    raw = path.read_bytes()
    for event in tailrace.open(path):
        raws.setdefault(event.header.type, []).append(raw[event.offset : event.end_offset])
    head = raw[:4] + raws[E.FORMAT_DESCRIPTION][0] + raws[E.PREVIOUS_GTIDS][0]
    pairs = [*map(b"".join, zip(raws[E.TABLE_MAP], raws[E.WRITE_ROWS], strict=True))]
    (gtid,) = raws[E.ANONYMOUS_GTID]
    return path, head, gtid, pairs, raws[E.XID][0]


def query(sql):
    return raw_event(E.QUERY, query_body(sql.encode()))


def both(path):
    """The rows by the object path and by the column path."""
    (series,) = find(path)
    rows = [row.values[0] for change in Changes(Reader(series)) for row in change.rows()]
    batches = tailrace.changes(path)
    return [rows, [row["a"] for each in batches for row in each.column("after").to_pylist()]]


@each_case(("back", "name"), zip(ROLLBACKS_TO, [*NAMES, NAMES[0]], strict=True))
def test_rolled_back_to_a_savepoint_in_any_spelling(parts, name, back):
    path, head, gtid, rows, xid = parts
    for spelling in SAVEPOINTS:
        events = [gtid, query("BEGIN"), rows[0], query(spelling.format(name)), rows[1]]
        events += [query(back.format(name)), rows[2], xid]
        path.write_bytes(head + b"".join(events))
        assert both(path) == [[1, 3], [1, 3]]


@each_case("begin", BEGINS)
def test_begun_and_ended_in_any_spelling(parts, begin):
    path, head, gtid, rows, _ = parts
    for end, left in [(end, []) for end in ROLLBACKS] + [(end, [1]) for end in COMMITS]:
        events = [gtid, query(begin), rows[0], query(end)]
        path.write_bytes(head + b"".join(events))
        assert both(path) == [left, left]


def xa(parts, end):
    path, head, gtid, rows, _ = parts
    prepared = raw_event(E.XA_PREPARE, b"\0" + struct.pack("<iII", 1, 1, 0) + b"a")
    events = [gtid, query("XA START X'61',X'',1"), rows[0], query("XA END X'61',X'',1"), prepared]
    path.write_bytes(head + b"".join([*events, gtid, query(end)]))
    return path


@each_case("end", ["XA ROLLBACK X'61',X'',1", "xa/**/rollback x'61' , x'' , 1 /* x */"])
def test_an_xa_transaction_is_rolled_back_in_any_spelling(parts, end):
    assert both(xa(parts, end)) == [[], []]


@each_case("name", ["'a'", "0x61", "X'61'", "b'01100001'", ""])
@each_case("how", ["COMMIT", "ROLLBACK", "/* x */ rollback"])
def test_an_xa_name_that_is_not_understood_is_an_error(parts, tmp_path, how, name):
    """Servers log names as X'...',X'...',1. Of any other, the rows might not be committed."""
    path = xa(parts, f"XA {how} {name}".replace("XA /* x */", "/* x */ xa"))
    (series,) = find(path)
    found = []
    for read in (Changes(Reader(series)), tailrace.changes(path)):
        with pytest.raises(BoundaryError, match="not understood") as caught:
            list(read)
        found.append(caught.value.offset)
    with pytest.raises(BoundaryError, match="not understood") as caught:
        SplitPlanner().plan(series)
    found.append(caught.value.offset)
    assert len(set(found)) == 1
    assert found[0] is not None
    with (
        tailrace.create(tmp_path / "other.000001", flavour="mysql", server_id=7) as log,
        log.transaction() as transaction,
        pytest.raises(UsageError, match="not understood"),
    ):
        transaction.query(f"XA {how} {name}".replace("XA /* x */", "/* x */ xa"))
