"""Wrong arguments are a UsageError that says what is expected, and not an error from inside."""

import pickle
import threading

import pytest

import tailrace
from tailrace.errors import ServerError, StorageError, UsageError
from tailrace.events import WriteRowsEvent
from tailrace.schema.table import Table
from tailrace.values.converter import Converter
from tailrace.values.row import RowSet
from tests.cases import each_case
from tests.events.made import log
from tests.recorded import ROOT

SQL = "create table a.b (v varchar(3))"


@each_case("source", [None, 1, 1.5, {}, object()])
def test_wl3283_no_source(source):
    for take in (tailrace.open, tailrace.changes):
        with pytest.raises(UsageError, match=r"(?i)a path"):
            take(source)


@each_case(
    "given",
    [
        *({"handlers": None}, {"handlers": 1}, {"keyring": 1}),
        *({"layers": 1}, {"layers": b"x"}, {"layers": [1]}, {"unknown": []}),
    ],
)
def test_wl3283_no_option_of_open(tmp_path, given):
    path = log(tmp_path, 1)
    with pytest.raises(UsageError):
        tailrace.open(path, **given)


@each_case("given", [{"statements": "Skip"}, {"statements": None}, {"schema": 5}, {"schema": b"x"}])
def test_what_reads_checks_its_arguments_in_the_call(tmp_path, given):
    path = log(tmp_path, 1)
    for read in (
        tailrace.rows,
        tailrace.transactions,
        tailrace.changes,
        tailrace.undo,
        tailrace.redo,
    ):
        with pytest.raises(UsageError, match=f"{next(iter(given))} is"):
            read(path, **given)
    with pytest.raises(UsageError, match="rows_per_insert"):
        tailrace.redo(path, rows_per_insert="2")


def test_wl3283_no_timeout(tmp_path):
    with tailrace.open(log(tmp_path, 1)) as opened, pytest.raises(UsageError, match="timeout"):
        opened.wait_for_next_event("")


def test_wl3283_no_types_of_a_row():
    opened = tailrace.open(ROOT / "examples" / "shop" / "mysql" / "binlog.000001")
    event = next(each for each in opened if isinstance(each, WriteRowsEvent))
    row = next(iter(RowSet(event, event.table_map)))
    with pytest.raises(UsageError, match="types by column name"):
        Converter().row(row, 1)


@each_case(
    "given",
    [
        *({"sql": None}, {"sql": b"x"}, {"database": 1}, {"database": []}, {"session": 1}),
        *({"flavour": "MariaDB"}, {"flavour": ""}, {"flavour": None}, {"server_version": 1}),
        *({"flavour": "mariadb", "session": what} for what in ("", [], {})),
        *({"flavour": "mariadb", "server_version": what} for what in ("garbage", "\0", "a:b:c")),
        {"flavour": "mysql", "server_version": "10.11.8-MariaDB"},
    ],
)
def test_wl3283_no_table(given):
    """What is no version and no session does not count as one."""
    with pytest.raises(UsageError):
        Table.parse(**{"sql": SQL, **given})


SHOP = str(ROOT / "examples" / "shop" / "mysql")
AWAY = "mysql://x@127.0.0.1:1/?retry=0"


@each_case(
    "call",
    [
        lambda to: tailrace.create(to, flavour="mysql", server_id=5, server_uuid=5),
        lambda to: tailrace.create(to, flavour="mysql", server_id=5, server_version=5),
        lambda to: tailrace.create(to, flavour="mysql", server_id=True),
        lambda to: tailrace.create(to, flavour="mariadb", server_id=5, domain_id="x"),
        lambda to: tailrace.receive(5, to),
        lambda to: tailrace.receive(None, to),
        lambda to: tailrace.receive(AWAY, to, every="x"),
        lambda to: tailrace.receive(AWAY, to, retain=5),
        lambda to: tailrace.apply(SHOP, None),
        lambda to: tailrace.apply(SHOP, f"sqlite:///{to}", workers="x"),
        lambda to: tailrace.serve(5, server_id=1, user="a", password="b"),
        lambda to: tailrace.create(to, flavour="mysql", server_id=5, now=5),
        lambda to: tailrace.create(to, flavour="mysql", server_id=5, observers=None),
        lambda to: tailrace.append("\0"),
        lambda to: tailrace.serve(SHOP, server_id=1, user="a", password=5),
        lambda to: tailrace.serve(SHOP, server_id=1, user=[], password="b"),
        lambda to: tailrace.serve(SHOP, server_id=1, user="a", password="\ud800"),
        lambda to: tailrace.serve(SHOP, server_id=1, user="a", password="b", tls_cert=5),
        lambda to: tailrace.serve(SHOP, server_id=1, user="a", password="b", server_uuid=5),
        lambda to: tailrace.apply(SHOP, f"sqlite:///{to}", table=5),
        lambda to: tailrace.apply(SHOP, f"sqlite:///{to}", channel=b"x"),
        lambda to: tailrace.apply(SHOP, f"sqlite:///{to}", conflicts=[]),
        lambda to: tailrace.rows(SHOP, schema="\0"),
        lambda to: tailrace.rows(SHOP, verify_checksums="x"),
        lambda to: tailrace.changes(SHOP, columns=[5]),
        lambda to: tailrace.changes(SHOP, columns=b"id"),
        lambda to: tailrace.Position.parse(5),
        lambda to: tailrace.GtidSet.parse(None),
        lambda to: tailrace.GtidList.parse(5),
        lambda to: tailrace.GtidSet("x"),
        lambda to: tailrace.GtidSet({("a", ""): 1}),
        lambda to: tailrace.GtidList(5),
        lambda to: pickle.dumps(tailrace.open(SHOP)),
        lambda to: pickle.dumps(tailrace.rows(SHOP)),
        lambda to: pickle.dumps(tailrace.transactions(SHOP)),
        lambda to: pickle.dumps(tailrace.changes(SHOP)),
    ],
)
def test_arguments_of_writing_and_of_replication(tmp_path, call):
    with pytest.raises(UsageError):
        call(tmp_path / "binlog.000001")
    assert not [*tmp_path.iterdir()]


@each_case("read", [tailrace.rows, tailrace.transactions, tailrace.changes])
def test_threads_that_share_an_iterator_take_each_item_once(read):
    results, taken, errors = read(SHOP), [], []

    def take():
        try:
            taken.extend(1 for _ in results)
        except Exception as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (errors, len(taken)) == ([], len([*read(SHOP)]))


@each_case(
    "call",
    [
        lambda log, changes: changes.insert("s.o", [(1, "x")]),
        lambda log, changes: changes.query(5),
        lambda log, changes: changes.query(None),
        lambda log, changes: changes.query("CREATE TABLE \ud800 (a INT)"),
        lambda log, changes: changes.event(5),
        lambda log, changes: log.write(5),
        lambda log, changes: pickle.dumps(log),
    ],
)
def test_arguments_of_a_transaction(tmp_path, call):
    with tailrace.create(tmp_path / "binlog.000001", flavour="mysql", server_id=5) as log:
        changes = log.transaction()
        with pytest.raises(UsageError):
            call(log, changes)
        changes.rollback()


def test_a_path_that_the_system_rejects(tmp_path):
    with pytest.raises(StorageError, match="too long"):
        tailrace.create("x" * 5000, flavour="mysql", server_id=5)


def test_an_error_without_a_number():
    assert str(ServerError("it ended", code=0)) == "it ended"
