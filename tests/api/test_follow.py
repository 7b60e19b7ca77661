"""Logs that are followed as batches: files, and what other transports give."""

import threading
from collections import deque

import pytest

import tailrace
from tailrace.errors import BoundaryError
from tailrace.storage import find
from tailrace.transports import SeriesTransport
from tests.cases import each_case
from tests.recorded import SHOP, case_of, folders
from tests.waiting import DEADLINE, wait_for

LOGS = [SHOP / "mysql", *(each for each in folders() if case_of(each) in ("xa", "payload-full"))]
TABLE = tailrace.Table("shop.t", "id int primary key")


def taken_up_to(end, results):
    """All that a followed log has up to its end; this thread closes it while the other waits."""
    taken = []
    thread = threading.Thread(target=lambda: taken.extend(results))
    thread.start()
    wait_for(lambda: results.position >= end, lambda: (results.position, end))
    results.close()
    thread.join(DEADLINE)
    assert not thread.is_alive()
    return taken


def sequences(batches):
    return sorted(int(seq) for batch in batches for seq in batch.column("_seq").to_pylist())


@each_case("log", LOGS, ids=[each.name for each in LOGS])
def test_batches_of_a_followed_log_are_its_rows(log):
    options = {"follow": True, "statements": "skip"}
    (last,) = deque(tailrace.rows(log, statements="skip"), 1)
    end = last.position
    rows = sorted(row.sequence for row in taken_up_to(end, tailrace.rows(log, **options)))
    batches = tailrace.changes(log, **options)
    found = taken_up_to(end, batches)
    assert sequences(found) == rows
    middle = found[len(found) // 2].position
    rest = sequences(taken_up_to(end, tailrace.changes(log, start=str(middle), **options)))
    before = {seq for batch in found[: len(found) // 2 + 1] for seq in sequences([batch])}
    assert before | {*rest} == {*rows}


def test_what_is_written_later_comes(tmp_path):
    path = tmp_path / "binlog.000001"
    writer = tailrace.create(path, flavour="mysql", server_id=1, metadata="minimal")
    with writer, tailrace.changes(path, follow=True, tables="shop.t") as batches:
        found = []
        for number in range(3):
            with writer.transaction() as trx:
                trx.query("create table if not exists t (id int primary key)", database="shop")
            with writer.transaction() as trx:
                trx.insert(TABLE, [(number,)])
            batch = next(batches)
            found += [row["id"] for row in batch.column("after").to_pylist()]
            assert batch.position == writer.position
            if number == 1:
                writer.rotate()
        assert found == [0, 1, 2]
        assert batch.position.file == "binlog.000002"


def test_the_end_of_a_followed_log():
    log = SHOP / "mysql"
    until = "binlog.000002:60823"
    followed = tailrace.changes(log, follow=True, until=until)
    assert sequences(followed) == sequences(tailrace.changes(log, until=until))
    gtid = "b1499b96-e58b-11f1-8132-02fc00000001:1167"
    found = sequences(tailrace.changes(log, follow=True, start="binlog.000004:4", until=gtid))
    assert found == sequences(tailrace.changes(log, start="binlog.000004:4", until=gtid))


class Given:
    """A transport that is no other's: it gives the events of a series."""

    def __init__(self, folder):
        (series,) = find(folder)
        self._under = SeriesTransport(series)
        self.name = "given"

    def __getattr__(self, name):
        if name == "series":
            raise AttributeError(name)
        return getattr(self._under, name)


def test_any_transport_gives_batches():
    for log in (SHOP / "mysql", SHOP / "mariadb"):
        assert sequences(tailrace.changes(Given(log))) == sequences(tailrace.changes(log))


@each_case("name", ["mysql-9.7.relay-log", "mariadb-11.8.relay-log"])
def test_nothing_of_a_relay_log_is_lost(name):
    (case,) = (each for each in folders() if each.name == name)
    assert sequences(tailrace.changes(Given(case))) == sequences(tailrace.changes(case))


def test_a_transaction_that_goes_on_in_the_next_file_is_an_error(tmp_path):
    """As in relay logs: its first rows would be lost. The file's ``created`` is 0 then."""
    original = (SHOP / "mysql" / "binlog.000001").read_bytes()
    events = [
        (each.offset, each.end_offset)
        for each in tailrace.open(SHOP / "mysql" / "binlog.000001", expand_payloads=False)
    ]
    names = [
        each.name for each in tailrace.open(SHOP / "mysql" / "binlog.000001", expand_payloads=False)
    ]
    cut = events[names.index("WRITE_ROWS")][1]
    head = bytearray(original[4 : events[0][1]])
    head[71:75] = bytes(4)
    (tmp_path / "relay.000001").write_bytes(original[:cut])
    (tmp_path / "relay.000002").write_bytes(original[:4] + head + original[cut:])
    given = tailrace.changes(Given(tmp_path), verify_checksums=False)
    with pytest.raises(BoundaryError, match="continues a transaction of the one before it"):
        list(given)
