"""Wrong arguments are a UsageError that says what is expected, and not an error from inside."""

import pickle
import threading

import pytest

import tailrace
from tailrace.errors import ServerError, UsageError
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


def test_an_error_without_a_number():
    assert str(ServerError("it ended", code=0)) == "it ended"
