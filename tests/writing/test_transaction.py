"""Transactions of rows and statements: what goes in comes out, in every form of log."""

import gc
import tracemalloc
from pathlib import Path
from random import Random

import pytest

import tailrace
from tailrace.errors import (
    EventEncodeError,
    StorageError,
    UsageError,
    ValueRejected,
)
from tailrace.events import IntVarEvent, RowsEvent, XidEvent
from tailrace.events.variables import IntVarKind
from tailrace.schema.table import Table
from tailrace.storage.memory import FolderOutput, forget_memory
from tests.cases import each_case
from tests.writing.made import (
    FLAVOURS,
    UUID,
    check_files,
    events_of,
    log,
    orders,
    row,
    transactions_of,
)

both = each_case("flavour", FLAVOURS)


@both
def test_events_that_are_made_once_have_each_transactions_time_server_and_thread(tmp_path, flavour):
    given = [(1_600_000_000, 7, 1), (1_600_000_001, 9, 1), (1_600_000_002, 9, 5)] * 2
    with log(tmp_path / "binlog.000001", flavour) as out:
        for number, (timestamp, server_id, thread_id) in enumerate(given):
            with out.transaction(
                timestamp=timestamp, server_id=server_id, thread_id=thread_id
            ) as trx:
                trx.insert(orders(out.flavour), [row(number)])
        for _ in range(2):
            trx = out.transaction(timestamp=1 << 32)
            with pytest.raises(EventEncodeError, match="timestamp"):
                trx.insert(orders(out.flavour), [row(1)])
            trx.rollback()
    events = events_of(tmp_path / "binlog.000001")
    found = [
        (event.timestamp, event.server_id)
        for event in events
        if event.name in {"QUERY", "TABLE_MAP", "XID"}
    ]
    each = len(found) // len(given)
    assert each == (3 if flavour == "mysql" else 2)
    assert found == [one[:2] for one in given for _ in range(each)]
    begins = [event.thread_id for event in events if event.name == "QUERY"]
    assert begins == [one[2] for one in given][: len(begins)]


@both
def test_standalone_forms(tmp_path, flavour):
    with log(tmp_path / "binlog.000001", flavour) as out:
        for sql in (
            "create database shop",
            "create table t (a int)",
            "grant select on *.* to u",
            "XA COMMIT X'78',X'',1",
            "create temporary table x (a int)",
            "insert into t values (1)",
        ):
            with out.transaction() as trx:
                trx.query(sql, "shop")
    check_files(tmp_path / "binlog.000001")
    found = transactions_of(tmp_path)
    counts = [len(each.events) for each in found]
    begins = 2 if flavour == "mysql" else 1
    assert counts == [2, 2, 2, 2, begins + 2, begins + 2]
    assert [each.events[1].header.flags for each in found[:2]] == [8, 0]
    if flavour == "mariadb":
        flags = [each.gtid_event.flags for each in found]
        assert flags == [0x29, 0x29, 0x29, 0x09, 0x0C, 0x0C]
    else:
        assert [each.gtid_event.flags for each in found] == [1] * 6
        assert found[1].events[1].status["UPDATED_DB_NAMES"] == ("shop",)


@both
@each_case("given", [True, False])
def test_what_commits_by_itself_is_alone(tmp_path, flavour, given):
    table = orders(flavour)
    mysql = flavour == "mysql"
    first = f"{UUID}:5" if mysql else "0-7-5"
    with log(tmp_path / "binlog.000001", flavour, server_uuid=UUID if mysql else None) as out:
        with out.transaction(gtid=first if given else None) as trx:
            trx.insert(table, [row(1)])
            for sql in ("begin", "COMMIT", "rollback", "start transaction", "XA START 'a'"):
                with pytest.raises(UsageError, match="`with` block"):
                    trx.query(sql)
            trx.query("savepoint a")
            trx.query("rollback to a")
            trx.query("alter table orders add x int", "shop")
            trx.query("alter table orders drop x", "shop")
            trx.insert(table, [row(2)])
            trx.query("insert into t values (1)")
        with out.transaction(gtid=None) as trx:
            trx.query("alter table orders add x int", "shop")
            with pytest.raises(ValueRejected):
                trx.insert(table, [(None,) * len(row(2))])
        gtids = [str(each.gtid) for each in transactions_of(tmp_path)]
    found = transactions_of(tmp_path)
    numbers = range(5, 10) if given else range(1, 6)
    assert gtids == [first[:-1] + str(number) for number in numbers]
    kinds = ["commit", "ddl", "ddl", "commit", "ddl"]
    assert [each.kind for each in found] == kinds
    check_files(tmp_path / "binlog.000001")


@both
def test_temporary_tables_end_no_transaction(tmp_path, flavour):
    """Also in the form in which servers log them at the end of a session."""
    temporary = [
        "/* app */ CREATE TEMPORARY TABLE x (a INT)",
        "CREATE OR REPLACE TEMPORARY TABLE x (a INT)",
        "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `x`",
    ]
    with log(tmp_path / "binlog.000001", flavour) as out:
        with out.transaction() as trx:
            trx.insert(orders(flavour), [row(1)])
            for sql in temporary:
                trx.query(sql, "shop")
            trx.query("/* app */ RELEASE SAVEPOINT a", "shop")
            trx.insert(orders(flavour), [row(2)])
        with out.transaction() as trx:
            trx.query("/* app */ DROP DATABASE d", "d")
    found = transactions_of(tmp_path)
    assert [each.kind for each in found] == ["commit", "ddl"]
    assert [each.header.flags & 8 for each in found[1].events[1:]] == [8]


@both
def test_an_error_discards_the_transaction(tmp_path, flavour):
    table = orders(flavour)
    with log(tmp_path / "binlog.000001", flavour) as out:
        place = out.position
        with pytest.raises(ZeroDivisionError):  # noqa: PT012, SIM117 - the with block's end is the test
            with out.transaction() as trx:
                trx.insert(table, [row(1)])
                1 / 0  # noqa: B018
        with out.transaction() as trx:
            trx.insert(table, [row(1)])
            trx.rollback()
            with pytest.raises(UsageError, match="rolled back"):
                trx.insert(table, [row(2)])
        with pytest.raises(UsageError, match="rolled back already"):
            trx.commit()
        assert trx.gtid is None
        assert out.position == place
        with out.transaction() as trx:
            pass
        assert (trx.position, out.position) == (None, place)
        with out.transaction() as trx:
            trx.insert(table, [row(1)])
        assert trx.position == out.position
    assert len(transactions_of(tmp_path)) == 1
    check_files(tmp_path / "binlog.000001")


@both
@each_case("sql", ["create table t (a int)", "insert into t values (1)"])
def test_a_refused_statement_leaves_nothing(tmp_path, flavour, sql):
    with log(tmp_path / "binlog.000001", flavour) as out:
        place = out.position
        with out.transaction() as trx, pytest.raises(EventEncodeError, match="database"):
            trx.query(sql, "d" * 300)
        assert (trx.position, out.position) == (None, place)
        with out.transaction() as trx:
            with pytest.raises(EventEncodeError):
                trx.query(sql, "d" * 300)
            trx.insert(orders(flavour), [row(1)])
    (found,) = transactions_of(tmp_path)
    assert not any(event.name == "QUERY" for event in found.events[2:])


def test_the_other_flavours_table(tmp_path):
    with log(tmp_path / "binlog.000001", "mysql") as out:
        trx = out.transaction()
        with pytest.raises(UsageError, match="a table of mariadb, the log is of mysql"):
            trx.insert(orders("mariadb"), [row(1)])


@both
def test_events_by_hand(tmp_path, flavour):
    with log(tmp_path / "binlog.000001", flavour) as out, out.transaction() as trx:
        trx.event(IntVarEvent.make(kind=IntVarKind.INSERT_ID, value=9, server_id=7))
        trx.query("insert into t values (null)", "shop")
        with pytest.raises(UsageError, match="XID is written by the log itself"):
            trx.event(XidEvent.make(xid=4))
    names = [event.name for event in transactions_of(tmp_path)[0].events]
    begin = ["GTID", "QUERY"] if flavour == "mysql" else ["MARIADB_GTID"]
    assert names == [*begin, "INTVAR", "QUERY", "XID"]


@both
def test_stamps(tmp_path, flavour):
    with (
        log(tmp_path / "binlog.000001", flavour) as out,
        out.transaction(
            timestamp=1_600_000_000,
            server_id=44,
            original_commit_timestamp=1_600_000_000_123_456,
            thread_id=12,
            foreign_key_checks=False,
            unique_checks=False,
        ) as trx,
    ):
        trx.insert(orders(flavour), [row(1)])
    (found,) = transactions_of(tmp_path)
    assert {event.timestamp for event in found.events} == {1_600_000_000}
    assert {event.header.server_id for event in found.events} == {44}
    (rows,) = [event for event in found.events if isinstance(event, RowsEvent)]
    assert rows.flags == 1 | 2 | 4
    if flavour == "mysql":
        assert found.commit_timestamp == 1_600_000_000_123_456
        assert found.gtid_event.immediate_commit_timestamp > found.commit_timestamp
        assert found.events[1].thread_id == 12


@pytest.mark.slow
@each_case(("flavour", "compress"), [("mysql", False), ("mysql", True), ("mariadb", True)])
def test_memory_stays_flat(tmp_path, flavour, compress):
    """A transaction far past the cache's limit: many inserts, 60 MiB of rows."""
    table = Table.parse("create table s.t (id int primary key, v longblob)", flavour=flavour)
    value = bytes(range(256)) * 512
    with log(tmp_path / "binlog.000001", flavour, cache_limit=1 << 20, compress=compress) as out:
        trx = out.transaction()
        trx.insert(table, [(0, value)])
        gc.collect()
        tracemalloc.start()
        for number in range(1, 480):
            trx.insert(table, [(number, value)])
        filling = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        trx.commit()
        committing = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        size = out.position.offset
    assert filling < 4 << 20
    assert committing < 48 << 20  # pieces of 4 MiB: read, joined, stamped, written
    if not compress:
        assert size > 60 << 20
    (found,) = transactions_of(tmp_path)
    inner = sum(1 for event in found.all_events() if isinstance(event, RowsEvent))
    assert inner == 480
    check_files(tmp_path / "binlog.000001")


@both
@each_case("compress", [False, True])
def test_disk_writes_and_the_temporary_files_name(tmp_path, flavour, compress):
    """WL#10956, Binlog_cache::disk_writes, tmp_file_name: of each transaction, by the writers."""
    table = Table.parse("create table s.t (id int primary key, v longblob)", flavour=flavour)
    made, copied = tmp_path / "made" / "binlog.000001", tmp_path / "copied" / "binlog.000001"
    with log(made, flavour, cache_limit=5000, compress=compress) as out:
        with out.transaction() as trx:
            trx.insert(table, [(0, b"small")])
            assert (trx.disk_writes, trx.tmp_file_name, out.disk_writes) == (0, None, 0)
            value = Random(1).randbytes(4000)
            for number in range(1, 9):
                trx.insert(table, [(number, value)])
            name = trx.tmp_file_name
            assert name is not None
            if flavour == "mysql" or not compress:
                assert value in Path(name).read_bytes()
            assert trx.disk_writes > 1
        assert trx.tmp_file_name is None
        assert out.disk_writes == trx.disk_writes > 1
        with out.transaction() as after:
            after.insert(table, [(10, b"small")])
        assert (after.disk_writes, out.disk_writes) == (0, 0)
    with log(copied, flavour, cache_limit=100) as out:
        seen = []
        for event in tailrace.open(made):
            out.write(event)
            seen.append((out.disk_writes, out.tmp_file_name is not None))
    assert any(name for _, name in seen) is (flavour == "mariadb" or not compress)
    assert max(writes for writes, _ in seen) > 0  # of a payload, the first event is the last
    assert not seen[-1][1]


def test_a_full_disk_leaves_the_log_as_it_was(monkeypatch):
    """Writing fails half way: what was written is taken back, and the log goes on."""
    forget_memory("full")
    with log("memory:full", "mysql") as out:
        with out.transaction() as trx:
            trx.insert(orders("mysql"), [row(1)])
        place = out.position
        writes = FolderOutput.write

        def half(self, data):
            writes(self, data[: len(data) // 2])
            raise StorageError("memory:full: No space left on device")

        monkeypatch.setattr(FolderOutput, "write", half)
        trx = out.transaction()
        trx.insert(orders("mysql"), [row(2)])
        with pytest.raises(StorageError, match="No space"):
            trx.commit()
        monkeypatch.undo()
        assert out.position == place
        assert trx.gtid is None
        with out.transaction() as trx:
            trx.insert(orders("mysql"), [row(3)])
        assert trx.gtid.gno == 2
    forget_memory("full")


@both
@pytest.mark.slow
def test_a_statement_of_several_tables(tmp_path, flavour):
    """All table maps come before the rows; a change that fails leaves the others."""
    table, lines = orders(flavour), Table("shop.lines", "id int primary key", flavour=flavour)
    with log(tmp_path / "binlog.000001", flavour) as out, out.transaction() as trx:
        with pytest.raises(UsageError, match="given where it begins"), trx.statement(table):
            trx.insert(lines, [(1,)])
        with trx.statement(table, lines, statement="delete ..."):
            trx.delete(table, [row(1)])
            with pytest.raises(ValueRejected):
                trx.delete(lines, [(1,), ("x",)])
            with pytest.raises(UsageError, match="not over"):
                trx.query("insert into t values (1)")
            trx.delete(lines, [(2,)])
        with pytest.raises(ValueRejected), trx.statement(table, lines):
            trx.delete(table, [(1,)])
        with trx.statement(table, lines):
            pass
    check_files(tmp_path / "binlog.000001")
    (found,) = transactions_of(tmp_path)
    names = [each.name for each in found.events]
    at = names.index("TABLE_MAP")
    assert names[at - 1] in ("ROWS_QUERY", "ANNOTATE_ROWS")
    assert names[at : at + 2] == ["TABLE_MAP", "TABLE_MAP"]
    rows = [each for each in found.events if isinstance(each, RowsEvent)]
    assert [each.table_map.table for each in rows] == ["orders", "lines"]
    assert [each.stmt_end for each in rows] == [False, True]
