"""Local transactions: a program's own changes as events of the generators (MWL#120)."""

from __future__ import annotations

import threading
from typing import ClassVar

import pytest

import tailrace
from tailrace import generators
from tailrace.errors import ObserverError, UsageError, ValueRejected
from tailrace.events import REGISTRY, Event, IntVarEvent
from tailrace.events.transaction import XaName
from tailrace.events.variables import IntVarKind
from tests.generators.conftest import run
from tests.waiting import DEADLINE

UUID = "896e7882-18fe-11ef-ab88-22222d34d411"
FLAVOURS = ("mysql", "mariadb")


def table(name="orders", flavour="mysql", columns="id INT PRIMARY KEY, total DECIMAL(10,2)"):
    return tailrace.Table(f"shop.{name}", columns, flavour=flavour)


class Told(generators.RowConsumer):
    """Keeps each event, of committed transactions only."""

    def __init__(self, then=lambda _event: None):
        self.events = []
        self.then = then

    def event(self, event):
        self.events.append(event.keep())
        self.then(event)

    @property
    def names(self):
        return [(each.local_transaction_id, each.name) for each in self.events]

    def of(self, name):
        return [each for each in self.events if each.name == name]


class ToldAtOnce(Told):
    """Is told of what is rolled back, too: of each change when it is made."""

    def trx_rollback(self, event):
        self.event(event)


def registered(server, kind=Told, *given):
    consumer = kind(*given)
    server.row.register(consumer)
    return consumer


# --- order and local ids -------------------------------------------------------------------------


def test_transactions_that_interleave_are_told_apart_by_their_local_ids():
    """get_local_trx_id: "streamed in parallel among multiple transactions"."""
    orders = table()
    with tailrace.local() as server:
        at_once, committed = registered(server, ToldAtOnce), registered(server)
        first, second = server.transaction(), server.transaction()
        first.insert(orders, [(1, "1.00")])
        second.insert(orders, [(2, "2.00")])
        first.insert(orders, [(3, "3.00")])
        assert [number for number, name in at_once.names if name == "row_write"] == [1, 2, 1]
        assert committed.events == []
        second.commit()
        first.commit()
    rows = [(each.local_transaction_id, each.after_image["id"]) for each in at_once.of("row_write")]
    assert rows == [(1, 1), (2, 2), (1, 3)]
    statement = ["stmt_start", "row_write", "stmt_end"]
    assert committed.names == [(2, name) for name in ["trx_start", *statement, "trx_commit"]] + [
        (1, name) for name in ["trx_start", *statement, *statement, "trx_commit"]
    ]
    for number in (1, 2):
        at_the_end = [name for each, name in committed.names if each == number]
        assert [name for each, name in at_once.names if each == number] == at_the_end


def test_several_threads_each_with_transactions(tmp_path):
    """Each is told whole, in the order of the log, to those that do not want rollbacks."""
    orders = table()
    with tailrace.local(tmp_path, server_uuid=UUID, sync="none") as server:
        at_once, committed = registered(server, ToldAtOnce), registered(server)

        def work(first):
            for number in range(first, first + 25):
                with server.transaction() as transaction:
                    transaction.insert(orders, [(number, 1)])
                    transaction.update(orders, [(number, 1)], [(number, 2)])
                    if number % 5 == 0:
                        transaction.rollback()

        threads = [threading.Thread(target=work, args=[first]) for first in (100, 200, 300, 400)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(DEADLINE)
    one = ["trx_start", *["stmt_start", "row_write", "stmt_end"]]
    one += ["stmt_start", "row_update", "stmt_end", "trx_commit"]
    numbers = [number for number, _ in committed.names]
    order = list(dict.fromkeys(numbers))
    assert committed.names == [(number, name) for number in order for name in one]
    assert len(order) == 80
    gtids = [each.global_transaction_id for each in committed.of("trx_commit")]
    assert [each.counter for each in gtids] == list(range(1, 81))
    with tailrace.transactions(tmp_path) as found:
        logged = [(each.gtid, each.rows[0].after["id"]) for each in found]
    ids = [each.after_image["id"] for each in committed.of("row_write")]
    assert logged == list(zip(map(str, gtids), ids, strict=True))
    rolled_back = {each.local_transaction_id for each in at_once.of("trx_rollback")}
    assert len(rolled_back) == 20
    assert rolled_back.isdisjoint(order)
    for number in rolled_back:
        names = [name for each, name in at_once.names if each == number]
        assert names == [*one[:-1], "trx_rollback"]


def test_who_wants_no_rollbacks_is_told_at_the_commit_though_it_has_trx_rollback():
    with tailrace.local() as server:
        told = ToldAtOnce()
        server.row.register(told, rollbacks=False)
        first, second = server.transaction(), server.transaction()
        for number, each in enumerate((first, second)):
            each.insert(table(), [(number, 1)])
        first.rollback()
        assert told.events == []
        second.commit()
    assert {number for number, _ in told.names} == {2}


def test_savepoints():
    """What came after one and is rolled back is held for nobody."""
    orders = table()
    with tailrace.local() as server:
        at_once, committed = registered(server, ToldAtOnce), registered(server)
        with server.transaction() as transaction:
            transaction.insert(orders, [(1, 1)])
            transaction.savepoint("Here")
            transaction.insert(orders, [(2, 2)], write_can_replace=True)
            transaction.savepoint("later")
            transaction.insert(orders, [(3, 3)])
            transaction.rollback(to="here")
            transaction.insert(orders, [(4, 4)])
            with pytest.raises(UsageError, match="no savepoint"):
                transaction.rollback(to="later")
            transaction.query("ROLLBACK TO here")
            transaction.insert(orders, [(5, 5)])
    written = committed.of("row_write")
    assert [each.after_image["id"] for each in written] == [1, 5]
    assert not any(each.write_can_replace for each in written)
    told = [
        each.savepoint if each.name == "trx_rollback" else each.after_image["id"]
        for each in at_once.events
        if each.name in ("row_write", "trx_rollback")
    ]
    assert told == [1, 2, 3, "here", 4, "here", 5]


def test_a_savepoint_that_was_released():
    """As on a server: it is gone, and so are those that were set after it."""
    with tailrace.local() as server, server.transaction() as transaction:
        for name in ("a", "b", "c"):
            transaction.savepoint(name)
        transaction.query("RELEASE SAVEPOINT B")
        for name in ("b", "c"):
            with pytest.raises(UsageError, match="no savepoint"):
                transaction.rollback(to=name)
        with pytest.raises(UsageError, match="no savepoint"):
            transaction.release("b")
        transaction.rollback(to="a")


def test_one_of_which_nothing_is_left_ends_as_rolled_back():
    with tailrace.local() as server:
        at_once, committed = registered(server, ToldAtOnce), registered(server)
        with server.transaction() as transaction:
            transaction.savepoint("a")
            transaction.insert(table(), [(1, 1)])
            transaction.rollback(to="a")
        with server.transaction():
            pass
    assert committed.events == []
    assert [name for _, name in at_once.names][-2:] == ["trx_rollback", "trx_rollback"]


# --- what a log does not tell --------------------------------------------------------------------


def test_autocommit():
    """get_is_autocommit"""
    orders = table()
    with tailrace.local() as server:
        told = registered(server)
        server.insert(orders, [(1, 1)])
        server.update(orders, [(1, 1)], [(1, 2)])
        server.delete(orders, [(1, 2)])
        server.query("CREATE TABLE shop.t (a INT)", "shop")
        with server.transaction() as transaction:
            transaction.insert(orders, [(2, 2)])
    starts = [each.is_autocommit for each in told.of("trx_start")]
    assert starts == [each.is_autocommit for each in told.of("trx_commit")]
    assert starts == [True, True, True, True, False]


def test_which_sorts_of_tables_took_part():
    """Of a mixed transaction, too."""
    orders, notes = table(), table("notes")
    with tailrace.local(non_transactional=[notes]) as server:
        told = registered(server)
        server.insert(orders, [(1, 1)])
        server.insert(notes, [(1, 1)])
        with server.transaction() as transaction:
            transaction.insert(orders, [(2, 2)])
            transaction.insert(notes, [(2, 2)])
        server.query("INSERT INTO shop.t VALUES (1)")
    sorts = [
        (each.transactional_tables, each.non_transactional_tables) for each in told.of("trx_commit")
    ]
    assert sorts == [(True, False), (False, True), (True, True), (None, None)]
    assert {each.transactional_tables for each in told.of("trx_start")} == {None}


def test_the_flags_of_rows_that_a_log_does_not_have():
    """ROW_WRITE_CAN_REPLACE, ROW_IGNORE_DUP_KEY, ROW_IGNORE_NO_KEY"""
    orders = table()
    with tailrace.local() as server:
        told, at_once = registered(server), registered(server, ToldAtOnce)
        server.insert(orders, [(1, 1), (2, 2)], write_can_replace=True)
        server.insert(orders, [(3, 3)], ignore_dup_key=True)
        server.update(orders, [(3, 3)], [(3, 4)], ignore_no_key=True)
        server.delete(orders, [(3, 4)], ignore_no_key=True)
        with server.transaction(foreign_key_checks=False, unique_checks=False) as transaction:
            transaction.insert(orders, [(5, 5)])
    for consumer in (told, at_once):
        flags = [
            (each.write_can_replace, each.ignore_dup_key, each.ignore_no_key)
            for each in consumer.events
            if each.name.startswith("row_")
        ]
        replaced, ignored, no_key = (True, False, False), (False, True, False), (False, False, True)
        assert flags == [replaced, replaced, ignored, no_key, no_key, (False, False, False)]
        last = consumer.of("row_write")[-1]
        assert last.disable_foreign_key_checks
        assert last.disable_unique_checks


def test_the_modified_tables_of_a_multi_table_statement(tmp_path):
    """get_modified_tables. In the log all table maps come before the rows, as replicas need it."""
    orders, lines = table(), table("lines")
    with tailrace.local(tmp_path) as server:
        told = registered(server)
        with server.transaction() as transaction:
            text = "UPDATE orders, lines SET orders.total = 2, lines.total = 2"
            with transaction.statement(orders, lines, statement=text):
                transaction.update(orders, [(1, 1)], [(1, 2)])
                transaction.update(lines, [(1, 1)], [(1, 2)])
                with pytest.raises(ValueRejected):
                    transaction.update(lines, [(1, 1), ("x", 1)], [(1, 2), (1, 1)])
                transaction.update(lines, [(2, 1)], [(2, 2)])
            transaction.insert(orders, [(9, 9)])
    updates = told.of("row_update")
    assert [each.table.name for each in updates] == ["orders", "lines", "lines"]
    assert {tuple(t.name for t in each.modified_tables) for each in updates} == {
        ("orders", "lines")
    }
    assert [t.name for t in told.of("row_write")[0].modified_tables] == ["orders"]
    assert [each.rows_query for each in told.of("stmt_start")] == [text, None]
    names = [event.name for event in tailrace.open(tmp_path)]
    at = names.index("TABLE_MAP")
    assert names[at : at + 6] == [
        "TABLE_MAP", "TABLE_MAP", "UPDATE_ROWS", "UPDATE_ROWS", "UPDATE_ROWS", "TABLE_MAP"
    ]  # fmt: skip


def test_xa_names():
    name = XaName(1, b"trx", b"branch")
    with tailrace.local() as server:
        told = registered(server)
        with server.transaction(xa=name) as transaction:
            transaction.insert(table(), [(1, 1)])
            with pytest.raises(UsageError, match="with"):
                transaction.query("XA COMMIT X'01',X'',1")
    assert told.of("trx_start")[0].xa == told.of("trx_commit")[0].xa == name


# --- the same as from a log ----------------------------------------------------------------------

UNKNOWN_TO_LOGS = {
    "position", "is_autocommit", "transactional_tables", "non_transactional_tables",
    "write_can_replace", "ignore_dup_key", "ignore_no_key",
}  # fmt: skip


def values_of(event):
    told = {name: value for name, value in event.values().items() if name not in UNKNOWN_TO_LOGS}
    if event.name in ("trx_start", "trx_commit", "stmt_start", "stmt_end"):
        told.pop("error_code", None)
        told.pop("timestamp")
    return event.name, told


@pytest.mark.parametrize("options", [{}, {"compress": True}, {"cache_limit": 2000}], ids=str)
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_log_gives_the_same_events(tmp_path, flavour, options):
    """A consumer is told the same by the program's stream and by the log that it wrote."""
    uuid = UUID if flavour == "mysql" else None
    columns = "id INT PRIMARY KEY, note VARCHAR(300) CHARACTER SET utf8mb4, n BIGINT UNSIGNED"
    notes = table("notes", flavour, columns)
    log = tmp_path
    with tailrace.local(log, flavour=flavour, server_uuid=uuid, server_id=7, **options) as server:
        told, at_once = registered(server), registered(server, ToldAtOnce)
        server.query("CREATE DATABASE shop", "shop")
        with server.transaction() as transaction:
            transaction.query("CREATE TABLE shop.notes (id INT PRIMARY KEY)", "shop")
            rows = [{"id": number, "note": "ä" * 100, "n": 2**64 - 1} for number in range(300)]
            transaction.insert(notes, rows, statement="INSERT ...")
            transaction.update(notes, rows[:1], [{"id": 0, "note": None, "n": 0}])
            insert_id = {"kind": IntVarKind.INSERT_ID, "value": 5}
            transaction.event(IntVarEvent.make(form=server.log.dialect.form, **insert_id))
            transaction.query("INSERT INTO shop.other VALUES (NULL)", "shop")
            transaction.query("DROP TABLE shop.other", "shop")
            transaction.delete(notes, rows[1:])
        assert transaction.position == server.log.position
    read = Told()
    run(generators.EventStream(log), read)
    assert [values_of(each) for each in told.events] == [values_of(each) for each in read.events]
    assert len(told.of("trx_commit")) == 5
    assert len(told.of("row_write")) == 300
    if flavour == "mysql":
        assert told.of("trx_commit")[0].immediate_commit_timestamp is not None
    (query,) = [each for each in told.of("stmt_query") if "INSERT" in each.query_string]
    assert (query.insert_id, query.uses_auto_increment) == (5, True)
    assert at_once.names == told.names


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_global_id_is_known_once_the_commit_is_decided(flavour):
    """get_global_transaction_id: of the commit only. Without a log, too."""
    uuid = UUID if flavour == "mysql" else None
    given = {"flavour": flavour, "server_uuid": uuid, "server_id": 5, "domain_id": 0}
    with tailrace.local(**given) as server:
        told = registered(server)
        for number in (1, 2):
            with server.transaction() as transaction:
                transaction.insert(table(flavour=flavour), [(number, 1)])
                assert transaction.gtid is None
            assert str(transaction.gtid) == str(told.of("trx_commit")[-1].global_transaction_id)
        assert "global_transaction_id" not in told.of("trx_start")[0].values()
    clusters = [each.global_transaction_id for each in told.of("trx_commit")]
    assert clusters == [(uuid or "0-5", 1), (uuid or "0-5", 2)]


def test_a_log_writer_goes_on_with_its_log(tmp_path):
    """`local` does not close a log that it did not create."""
    orders = table()
    with tailrace.create(tmp_path, flavour="mysql", server_id=1, server_uuid=UUID) as log:
        with tailrace.local(log) as server:
            told = registered(server)
            server.insert(orders, [(1, 1)])
        with log.transaction() as transaction:
            transaction.insert(orders, [(2, 2)])
    assert [row["id"] for row in tailrace.rows(tmp_path)] == [1, 2]
    assert len(told.of("row_write")) == 1


def test_a_log_that_is_open_has_its_own_options(tmp_path):
    with tailrace.create(tmp_path, flavour="mysql", server_id=1) as log:
        for given in ({"server_uuid": UUID}, {"compress": True}, {"gtids": f"{UUID}:1"}):
            with pytest.raises(UsageError, match="its own"):
                tailrace.local(log, **given)


# --- errors --------------------------------------------------------------------------------------


def failing(name):
    def fail(event):
        if event.name == name:
            raise ZeroDivisionError(name)

    return fail


def test_a_consumer_that_stops_at_a_commit(tmp_path):
    """The transaction is in the log; nothing more is taken, and what is open is rolled back."""
    orders = table()
    with tailrace.local(tmp_path, server_uuid=UUID) as server:
        registered(server, Told, failing("row_write"))
        other = server.transaction()
        other.insert(orders, [(2, 2)])
        with pytest.raises(ObserverError, match="row_write"):
            server.insert(orders, [(1, 1)])
        for call in (other.commit, lambda: server.insert(orders, [(3, 3)])):
            with pytest.raises(UsageError, match="stopped the stream"):
                call()
    assert [row["id"] for row in tailrace.rows(tmp_path)] == [1]


def test_a_consumer_that_stops_while_a_change_is_made(tmp_path):
    orders = table()
    with tailrace.local(tmp_path, server_uuid=UUID) as server:
        registered(server, ToldAtOnce, failing("row_write"))
        with pytest.raises(ObserverError, match="row_write"), server.transaction() as transaction:
            transaction.insert(orders, [(1, 1)])
    assert list(tailrace.rows(tmp_path)) == []


def test_a_commit_that_cannot_be_written_is_told_as_rolled_back(tmp_path):
    log = tailrace.create(tmp_path, flavour="mysql", server_id=1)
    with tailrace.local(log) as server:
        told, at_once = registered(server), registered(server, ToldAtOnce)
        transaction = server.transaction()
        transaction.insert(table(), [(1, 1)])
        log.close()
        with pytest.raises(UsageError, match="closed"):
            transaction.commit()
        with pytest.raises(UsageError, match="closed"):
            server.transaction()
    assert told.events == []
    assert at_once.names[-1] == (1, "trx_rollback")


def test_a_consumer_may_make_changes_but_not_in_what_it_is_told_of():
    orders, copies = table(), table("copies")
    with tailrace.local() as server:

        def copy(event):
            if event.name == "row_write" and event.table.name == "orders":
                server.insert(copies, [event.after_image])
                with pytest.raises(UsageError, match="told of"):
                    transaction.insert(copies, [event.after_image])
                with pytest.raises(UsageError, match="told of"):
                    transaction.commit()

        told = registered(server, ToldAtOnce, copy)
        with server.transaction() as transaction:
            transaction.insert(orders, [(1, 1)])
    rows = [(each.local_transaction_id, each.table.name) for each in told.of("row_write")]
    assert rows == [(1, "orders"), (2, "copies")]


def test_close_rolls_back_what_is_open():
    with tailrace.local() as server:
        at_once = registered(server, ToldAtOnce)
        open_one = server.transaction()
        open_one.query("CREATE TABLE shop.t (a INT)", "shop")
        open_one.insert(table(), [(1, 1)])
    assert at_once.names[-1] == (2, "trx_rollback")
    with pytest.raises(UsageError, match="closed"):
        open_one.insert(table(), [(2, 2)])
    with pytest.raises(UsageError, match="closed"):
        server.insert(table(), [(2, 2)])


# --- changes that consumers make -----------------------------------------------------------------


class Audits(generators.RowConsumer):
    """Adds two transactions to the first one."""

    def __init__(self, server, fails=False):
        self.server = server
        self.fails = fails

    def trx_commit(self, event):
        if event.local_transaction_id == 1:
            self.server.insert(AUDIT, [(1,)])
            self.server.query("CREATE TABLE t (id INT)", "d")
            if self.fails:
                raise KeyError


AUDIT = tailrace.Table("d.audit", "id INT PRIMARY KEY", flavour="mariadb")


def test_what_a_consumer_commits_is_told_after_the_event_that_it_was_told_of(tmp_path):
    """So each consumer hears of one transaction after the other, in the order of the log."""
    heard = []

    class Collects(generators.RowConsumer):
        def row_write(self, event):
            heard.append(event.after_image["id"])

        def stmt_query(self, event):
            heard.append(event.query_string)

        def trx_commit(self, event):
            heard.append(str(event.global_transaction_id).rpartition("-")[2])

    with tailrace.local(tmp_path / "binlog.000001", flavour="mariadb") as server:
        server.row.register(Audits(server))
        server.row.register(Collects())
        server.insert(table(flavour="mariadb"), [(7, 7)])
    created = "CREATE TABLE t (id INT)"
    assert heard == [7, "1", 1, "2", created, "3"]
    logged = [
        [row.after["id"] for row in each.rows] or each.statements
        for each in tailrace.transactions(tmp_path)
    ]
    assert logged == [[7], [1], [created]]


def test_what_a_consumer_committed_is_rolled_back_if_it_then_fails(tmp_path):
    with tailrace.local(tmp_path / "binlog.000001", flavour="mariadb") as server:
        server.row.register(Audits(server, fails=True))
        with pytest.raises(ObserverError):
            server.insert(table(flavour="mariadb"), [(7, 7)])
    assert [row.after["id"] for row in tailrace.rows(tmp_path)] == [7]


def test_an_event_of_a_class_that_a_package_added_is_offered_as_a_log_offers_it(tmp_path):
    """MWL#120, events of other packages: whether they come from a log or a local transaction."""

    class Note(Event, types=(230,)):
        """An event of another package."""

        FIELDS = ()
        MADE_OF: ClassVar = {}

        def read_body(self, _form, /):
            pass

        def write_body(self, _form, /):
            return b""

    try:
        with tailrace.local(tmp_path / "log.000001") as server:
            told = registered(server)
            with server.transaction() as transaction:
                transaction.event(Note.make(type=230))
                transaction.insert(table(), [(1, "9.50")])
            local = server.stack.unclaimed, told.names
        told = Told()
        stream = run(generators.EventStream(tmp_path), told)
        assert local == (stream.stack.unclaimed, told.names)
        assert local[0] == 1
    finally:
        del REGISTRY[230]
