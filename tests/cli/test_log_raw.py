"""`tailrace log --as raw --into FILE`: what was selected is a log again."""

import json

import pytest

import tailrace
from tailrace.events import GtidEvent, PreviousGtidsEvent
from tailrace.gtid import GtidSet
from tests.cases import each_case
from tests.cli.test_errors import assert_refused
from tools.servers import Server

MOVED = ("_file", "_pos", "_seq")


def records(ran):
    assert ran.status == 0, ran.err
    found = [json.loads(line) for line in ran.lines]
    for record in found:
        for field in MOVED:
            del record[field]
    return found


@pytest.mark.parametrize(
    "case",
    [
        "mysql-9.7.image-full-full",
        "mysql-9.7.checksum-none",
        "mysql-9.7.payload-full",
        "mysql-9.7.tagged-gtids",
        "mysql-9.7.anonymous",
        "mysql-9.7.xa",
        "mariadb-11.8.image-full-full",
        "mariadb-11.8.compressed-full-full",
        "mariadb-11.8.domains",
        "mariadb-10.11.checksum-none",
        "mariadb-10.11.xa",
    ],
)
def test_a_whole_log(run, corpus, tmp_path, case):
    """It holds the same changes, and the server's own tool reads it."""
    into = tmp_path / "again.000001"
    ran = run("log", corpus / case, "--as", "raw", "--into", into)
    assert ran.status == 0, ran.err
    assert "left out" not in ran.err
    assert run("check", into).status == 0
    same = ("--as", "json", "--statements", "skip")
    assert records(run("log", into, *same)) == records(run("log", corpus / case, *same))
    server = Server(case[: case.index(".", case.index(".") + 1)])
    done = server.mysqlbinlog("--verify-binlog-checksum", into)
    assert b"ERROR" not in done.stderr + done.stdout


def test_a_cut(run, shop, tmp_path):
    """What came before is in the list of GTIDs; positions and clock begin anew."""
    into = tmp_path / "cut.000007"
    bounds = ("--start", "binlog.000002:60551", "--until", "binlog.000003:4")
    assert run("log", shop / "mysql", *bounds, "--as", "raw", "--into", into).status == 0
    schema = _schema(shop / "mysql", tmp_path, "binlog.000002:60823")
    expected = records(run("log", shop / "mysql", *bounds, "--as", "json"))
    assert records(run("log", into, "--as", "json", "--schema", schema)) == expected
    events = list(tailrace.open(into))
    before = next(event for event in events if isinstance(event, PreviousGtidsEvent)).gtids
    own = GtidSet()
    for number, event in enumerate(e for e in events if isinstance(e, GtidEvent)):
        own.add(event.gtid)
        assert event.sequence_number == number + 1
    source = list(tailrace.open(shop / "mysql"))
    all_of_them = [event.gtid for event in source if isinstance(event, GtidEvent)]
    first = all_of_them.index(next(iter(e.gtid for e in events if isinstance(e, GtidEvent))))
    assert all(gtid in before for gtid in all_of_them[:first])
    assert not any(gtid in before for gtid in all_of_them[first:])
    assert all(event.header.log_pos == event.end_offset for event in events)


def _schema(folder, tmp_path, until=None):
    """The tables' definitions, as the log has them at its end, or at a place."""
    path = tmp_path / "schema.sql"
    made = [
        event.sql.replace("shop.", "").replace("warehouse.", "")
        for event in tailrace.open(folder, until=until)
        if event.name == "QUERY" and event.sql.startswith(("CREATE TABLE", "ALTER TABLE"))
    ]
    path.write_text("".join(f"{sql};\n" for sql in made))
    return path


@each_case(
    ("flavour", "tables", "database"),
    [("mysql", "laden.orders,laden.payments", "shop"), ("mariadb", "laden.suppliers", "warehouse")],
)
def test_filtered_and_renamed(run, shop, tmp_path, flavour, tables, database):
    into = tmp_path / "some.000001"
    chosen = ("--tables", tables, "--rewrite-db", f"{database}=laden")
    ran = run("log", shop / flavour, *chosen, "--as", "raw", "--into", into, "--statements", "skip")
    assert ran.status == 0, ran.err
    expected = records(run("log", shop / flavour, *chosen, "--as", "json", "--statements", "skip"))
    schema = _schema(shop / flavour, tmp_path)
    found = records(run("log", into, "--as", "json", "--schema", schema))
    assert found == expected
    assert expected
    assert {record["_db"] for record in found} == {"laden"}
    server = Server("mysql-9.7" if flavour == "mysql" else "mariadb-11.8")
    done = server.mysqlbinlog("--verify-binlog-checksum", "-v", into)
    assert done.stdout.count(b"### INSERT INTO `laden`") == sum(
        record["_op"] == "insert" for record in found
    )


def test_a_failure_leaves_nothing_behind(run, corpus, tmp_path):
    damaged = bytearray((corpus / "mysql-9.7.image-full-full" / "binlog.000001").read_bytes())
    damaged[-60] ^= 1
    path = tmp_path / "binlog.000001"
    path.write_bytes(damaged)
    out = tmp_path / "out"
    out.mkdir()
    assert_refused(run("log", path, "--as", "raw", "--into", out / "x.000001"), "checksum")
    assert list(out.iterdir()) == []


def test_a_torn_log(run, corpus, tmp_path):
    into = tmp_path / "whole.000001"
    ran = run("log", corpus / "mysql-9.7.torn", "--as", "raw", "--into", into)
    assert ran.status == 0
    assert "ends inside a transaction: it is left out" in ran.err
    assert run("check", into).lines[-1].endswith("rows, checksums")


def test_statements_whose_tables_nobody_tells(run, corpus, tmp_path):
    whole = ("log", corpus / "mysql-9.7.mixed-format", "--as", "raw", "--tables", "corpus.*")
    ran = run(*whole, "--into", tmp_path / "x.000001")
    assert_refused(ran, "--statements skip leaves such out")
    ran = run(*whole, "--into", tmp_path / "x.000001", "--statements", "skip")
    assert ran.status == 0
    assert "statements that changed rows left out" in ran.err


def test_several_logs_are_not_one(run, shop, tmp_path):
    ran = run("log", shop, "--as", "raw", "--into", tmp_path / "x.000001")
    assert_refused(ran, "one log is written")
