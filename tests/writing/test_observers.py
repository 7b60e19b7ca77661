"""Observers of a log that is written: WL#4398's transaction and binlog storage observers, and
after_reset_master.
"""

import os
import threading

import pytest

import tailrace
from tailrace.errors import BoundaryError, GtidError, ObserverError, StorageError, UsageError
from tailrace.events import GtidEvent, MariadbGtidEvent, QueryEvent, XidEvent
from tailrace.gtid import Gtid
from tailrace.observers import (
    LogStorageFlag,
    LogStorageObserver,
    RelayIoObserver,
    TransactionFlag,
    TransactionObserver,
    TransmitObserver,
)
from tests.cases import each_case
from tests.writing.made import FLAVOURS, UUID, check_files, ddl, events_of, fill, log, orders, row

both = each_case("flavour", FLAVOURS)


WAIT = 300.0


def in_threads(*works):
    """Do these at the same time."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive()


class Notes(TransactionObserver, LogStorageObserver, TransmitObserver):
    """Notes what it is told, with what it was given."""

    interface_version = 2

    def __init__(self, name="", calls=None, breaks=""):
        self.name, self.breaks = name, breaks
        self.calls = [] if calls is None else calls

    def _note(self, hook, *given):
        self.calls.append((hook, self.name) if self.name else (hook, *given))
        if hook == self.breaks:
            raise ValueError("it broke")

    def after_flush(self, io, file, position, flags):
        self._note("after_flush", io.server_id, file, position, flags)

    def after_sync(self, io, file, position):
        self._note("after_sync", io.server_id, file, position)

    def after_commit(self, io):
        self._note("after_commit", io.server_id, io.file, io.position, io.all, str(io.gtid))

    def after_rollback(self, io):
        self._note("after_rollback", io.server_id, io.file, io.position)

    def after_reset_source(self, io):
        self._note("after_reset_source", io.server_id, io.connection)

    def taken(self):
        calls, self.calls[:] = [*self.calls], []
        return calls


def told(out, flags, *, commits=True, whole=True):
    """What observers are told of the log's last transaction."""
    file, end = out.position.file, out.position.offset
    last = ("after_rollback", 7, file, end)
    if commits:
        gtid = f"{UUID}:{len(out.gtids)}" if out.flavour == "mysql" else str(out.gtids)
        last = ("after_commit", 7, file, end, whole, gtid)
    return [("after_flush", 7, file, end, flags), ("after_sync", 7, file, end), last]


@both
@each_case("sync", ["transaction", "none"])
def test_after_flush_has_the_end_and_whether_it_was_synced_then_after_commit(
    tmp_path, flavour, sync
):
    flags = LogStorageFlag.SYNCED if sync == "transaction" else LogStorageFlag.NONE
    notes = Notes()
    with log(tmp_path / "binlog.000001", flavour, sync=sync, observers=[notes]) as out:
        fill(out, 1)
        assert notes.taken() == told(out, flags)
        ddl(out, 1)
        assert notes.taken() == told(out, flags)
        out.rotate()
        assert not notes.calls
        fill(out, 1, first=2)
        assert out.position.file == "binlog.000002"
        assert notes.taken() == told(out, flags)
        with out.transaction():
            """Without events."""
        assert not notes.calls
    assert not notes.calls
    check_files(tmp_path / "binlog.000001", tmp_path / "binlog.000002")


@both
def test_after_flush_is_called_when_the_bytes_are_synced(tmp_path, flavour, monkeypatch):
    order = []

    class Looks(LogStorageObserver):
        def after_flush(self, io, file, position, flags):
            order.append(f"after_flush {(tmp_path / file).stat().st_size == position}")

    with log(tmp_path / "binlog.000001", flavour, sync="transaction", observers=[Looks()]) as out:
        for name in ("fsync", "fdatasync"):
            real = getattr(os, name)
            monkeypatch.setattr(
                os, name, lambda file, real=real: (order.append("sync"), real(file))
            )
        fill(out, 1)
        monkeypatch.undo()
    assert order == ["sync", "after_flush True"]


@both
def test_after_commit_of_a_ddl_between_rows_is_one_of_three(tmp_path, flavour):
    notes = Notes()
    with (
        log(tmp_path / "binlog.000001", flavour, observers=[notes]) as out,
        out.transaction() as transaction,
    ):
        transaction.insert(orders(out.flavour), [row(1)])
        transaction.query("create table shop.t (a int)")
        transaction.insert(orders(out.flavour), [row(2)])
    commits = [call for call in notes.calls if call[0] == "after_commit"]
    assert len(commits) == 3
    ends = [end for file, end in [call[2:4] for call in notes.calls if call[0] == "after_flush"]]
    assert ends == [call[3] for call in commits]
    assert ends == sorted(set(ends))


def statement(flavour, end, number=1):
    gtid = [GtidEvent.make(gtid=Gtid(UUID, "", number)), QueryEvent.make(sql="BEGIN")]
    if flavour == "mariadb":
        gtid = [MariadbGtidEvent.make(seq_no=number, domain_id=0, server_id=7)]
    return [*gtid, QueryEvent.make(sql="insert into t values (1)", database="shop"), end]


@both
@each_case("whole", [True, False])
def test_after_commit_of_a_statement_on_non_transactional_tables_has_all_false(
    tmp_path, flavour, whole
):
    """It ends with a COMMIT statement in the log in place of an XID."""
    end = XidEvent.make(xid=1) if whole else QueryEvent.make(sql="COMMIT")
    notes = Notes()
    with log(tmp_path / "binlog.000001", flavour, observers=[notes]) as out:
        for event in statement(flavour, end):
            assert not notes.calls
            out.write(event)
        assert notes.taken() == told(out, LogStorageFlag.NONE, whole=whole)
        out.write_transaction(statement(flavour, end, 2))
        assert notes.taken() == told(out, LogStorageFlag.NONE, whole=whole)


@both
def test_after_rollback_of_a_rollback_that_was_logged_has_its_end(tmp_path, flavour):
    notes = Notes()
    with log(tmp_path / "binlog.000001", flavour, observers=[notes]) as out:
        out.write_transaction(statement(flavour, QueryEvent.make(sql="ROLLBACK")))
        assert notes.taken() == told(out, LogStorageFlag.NONE, commits=False)
        with out.transaction() as transaction:
            transaction.query("XA ROLLBACK X'61',X'',1")
        assert notes.taken() == told(out, LogStorageFlag.NONE, commits=False)
        with out.transaction() as transaction:
            transaction.query("XA COMMIT X'62',X'',1")
        assert notes.taken() == told(out, LogStorageFlag.NONE)


@both
def test_after_rollback_of_what_was_not_logged(tmp_path, flavour):
    notes, here = Notes(), tmp_path / "binlog.000001"
    nothing = [("after_rollback", 7, "", 0)]
    out = log(here, flavour, observers=[notes])

    def fails():
        with out.transaction() as transaction:
            transaction.insert(orders(out.flavour), [row(1)])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert notes.taken() == nothing
    out.transaction().rollback()  # without events
    assert not notes.calls
    with pytest.raises(BoundaryError):
        out.write_transaction(statement(flavour, XidEvent.make(xid=1))[:-1])
    assert notes.taken() == nothing
    fill(out, 1)
    notes.taken()
    with pytest.raises(GtidError):  # the log has it
        out.write_transaction(statement(flavour, XidEvent.make(xid=1)))
    assert not notes.calls  # it had not begun
    for event in statement(flavour, XidEvent.make(xid=1), 2)[:-1]:
        out.write(event)
    with pytest.raises(BoundaryError):
        out.close()
    assert notes.taken() == nothing
    assert [event.name for event in events_of(here)].count("XID") == 1


def test_after_rollback_of_a_commit_that_could_not_be_written(tmp_path, monkeypatch):
    notes = Notes()
    with log(tmp_path / "binlog.000001", "mysql", sync="transaction", observers=[notes]) as out:

        def full(_file):
            monkeypatch.undo()
            raise OSError(28, "No space left on device")

        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, full)
        with pytest.raises(StorageError, match="No space"):
            fill(out, 1)
        assert notes.taken() == [("after_rollback", 7, "", 0)]
        fill(out, 1)
        assert notes.taken() == told(out, LogStorageFlag.SYNCED)


@both
@each_case("hook", ["after_flush", "after_sync", "after_commit"])
def test_an_observer_that_raises_is_told_after_all_others_and_the_transaction_is_in_the_log(
    tmp_path, flavour, hook
):
    calls = []
    observers = [Notes("first", calls), Notes("breaks", calls, hook), Notes("last", calls)]
    with log(tmp_path / "binlog.000001", flavour, observers=observers) as out:
        transaction = out.transaction()
        transaction.insert(orders(out.flavour), [row(1)])
        with pytest.raises(ObserverError, match=f"Notes failed in {hook}: .*it broke") as caught:
            transaction.commit()
        assert f"the transaction is in the log nevertheless, up to {out.position}" in (
            caught.value.__notes__
        )
        assert transaction.position == out.position
        assert transaction.gtid is not None
        with pytest.raises(UsageError, match="committed already"):
            transaction.commit()
        assert calls == [
            (each, name)
            for each in ("after_flush", "after_sync", "after_commit")
            for name in ("first", "breaks", "last")
        ]
        with pytest.raises(ObserverError):
            fill(out, 1, first=2)
        out.remove_observer(observers[1])
        fill(out, 1, first=3)
        with pytest.raises(UsageError, match="is not registered"):
            out.remove_observer(observers[1])
    assert [event.name for event in events_of(tmp_path / "binlog.000001")].count("XID") == 3


def test_transactions_of_several_threads_wait_in_after_commit_at_the_same_time(
    tmp_path,
):
    """So one replica's acknowledgement can end several waits; after_flush is in the log's order."""
    together = threading.Barrier(4)
    ends = []

    class Waits(TransactionObserver, LogStorageObserver):
        interface_version = 2

        def after_flush(self, io, file, position, flags):
            ends.append(position)

        def after_sync(self, io, file, position):
            together.wait(WAIT)

        def after_commit(self, io):
            assert io.flags is TransactionFlag.REAL
            together.wait(WAIT)

    with log(tmp_path / "binlog.000001", "mysql", observers=[Waits()]) as out:
        in_threads(*(lambda each=each: fill(out, 3, first=100 * each) for each in range(4)))
    assert len(ends) == 12
    assert ends == sorted(ends)


def test_foreign_transactions_wait_without_the_logs_lock(tmp_path):
    seen = []

    class Commits(TransactionObserver):
        def after_commit(self, io):
            in_threads(lambda: seen.append(out.position))

    with log(tmp_path / "binlog.000001", "mysql", observers=[Commits()]) as out:
        out.write_transaction(statement("mysql", XidEvent.make(xid=1)))
        for event in statement("mysql", XidEvent.make(xid=2), 2):
            out.write(event)
        assert len(seen) == 2
        assert seen[1] == out.position


def test_observers_that_no_commit_calls_are_rejected(tmp_path):
    with pytest.raises(
        UsageError,
        match="a relay I/O observer: a log that is written calls transaction and log storage and"
        " transmit observers only",
    ):
        log(tmp_path / "binlog.000001", "mysql", observers=[RelayIoObserver()])
    assert not [*tmp_path.iterdir()]


@both
def test_append_has_observers_too(tmp_path, flavour):
    with log(tmp_path / "binlog.000001", flavour) as out:
        fill(out, 1)
    notes = Notes()
    uuid = UUID if flavour == "mysql" else None
    with tailrace.append(tmp_path, server_uuid=uuid, observers=[notes]) as out:
        fill(out, 1, first=2)
        assert notes.calls == told(out, LogStorageFlag.SYNCED)


@both
def test_after_reset_master_all_files_are_gone_and_the_log_begins_again(tmp_path, flavour):
    notes = Notes()
    with log(
        tmp_path / "binlog.000003", flavour, observers=[notes], gtids=None, max_size=4096
    ) as out:
        fill(out, 40)
        assert len(out.files) > 2
        for event in statement(flavour, XidEvent.make(xid=1), 41)[:-1]:
            out.write(event)
        notes.taken()
        names = out.files
        assert out.reset() == names
        assert notes.taken() == [
            ("after_rollback", 7, "", 0),
            ("after_reset_source", 7, None),
        ]
        assert out.files == ["binlog.000001"]
        assert not out.gtids
        assert sorted(path.name for path in tmp_path.iterdir()) == ["binlog.000001", "binlog.index"]
        fill(out, 1)
        assert notes.taken() == told(out, LogStorageFlag.NONE)
    check_files(tmp_path / "binlog.000001")


@both
@each_case("killed_at", range(6))
def test_a_reset_that_was_killed_leaves_a_log_or_none(tmp_path, flavour, killed_at, monkeypatch):
    from tailrace.storage.local import LocalFolder  # noqa: PLC0415 - its methods are replaced

    out = log(tmp_path / "binlog.000001", flavour, max_size=4096)
    fill(out, 40)
    left = [killed_at]

    class Killed(BaseException):
        pass

    for name in ("remove", "replace"):
        real = getattr(LocalFolder, name)

        def step(*given, real=real):
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return real(*given)

        monkeypatch.setattr(LocalFolder, name, step)
    with pytest.raises(Killed):
        out.reset()
    monkeypatch.undo()
    with pytest.raises(StorageError, match="writing failed"):
        fill(out, 1)
    if any(path.suffix.strip(".").isdigit() for path in tmp_path.iterdir()):
        with tailrace.append(tmp_path, recovered=lambda _: None) as again:
            again.reset()
            assert again.files == ["binlog.000001"]
    else:
        log(tmp_path / "binlog.000001", flavour).close()
    assert sorted(path.name for path in tmp_path.glob("binlog.*0*")) == ["binlog.000001"]
    check_files(tmp_path / "binlog.000001")
