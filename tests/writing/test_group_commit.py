"""Transactions that commit at the same time are synced together, as mysqld's group commit does."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

import tailrace
from tailrace.constants import EventType
from tailrace.errors import StorageError
from tailrace.events import XidEvent
from tailrace.observers import LogStorageFlag, LogStorageObserver, TransactionObserver
from tailrace.storage.local import LocalFolder
from tests.cases import each_case
from tests.waiting import wait_for
from tests.writing.made import FLAVOURS, UUID, check_files, events_of, fill, log, orders, row
from tests.writing.test_observers import WAIT, in_threads, statement

both = each_case("flavour", FLAVOURS)
CLIENTS = 8


class Syncs:
    """How often a file was written and synced, up to where, and what is to happen then."""

    def __init__(self):
        self.count = self.durable = self.writes = 0
        self.written = self.synced = 0  # transactions
        self.first = lambda: None
        self.first_write = lambda: None
        self.before_cut = lambda: None

    def slowly(self, seconds):
        self.first = lambda: time.sleep(seconds)


class Disk(LocalFolder):
    """A folder on a disk of the test's making."""

    syncs: Syncs

    def __init__(self, folder):
        super().__init__(folder)
        object.__setattr__(self, "syncs", Syncs())

    def create(self, name, head):
        made = super().create(name, head)
        self.syncs.durable = len(head)
        return Watched(self.syncs, made)


class Watched:
    """A file of it. No thread may write or sync it while another does."""

    def __init__(self, syncs, lower):
        self._syncs, self._lower, self._alone = syncs, lower, threading.Lock()
        self.flush, self.update, self.close = lower.flush, lower.update, lower.close

    @property
    def size(self):
        return self._lower.size

    def write(self, data, /):
        assert self._alone.acquire(blocking=False)
        try:
            self._syncs.writes += 1
            self._syncs.first_write()
            self._lower.write(data)
            self._syncs.written += transactions_in(data)
        finally:
            self._alone.release()

    def truncate(self, size, /):
        self._syncs.before_cut()
        self._lower.truncate(size)

    def sync(self):
        assert self._alone.acquire(blocking=False)
        try:
            self._syncs.count += 1
            self._syncs.first()
            self._lower.sync()
            self._syncs.durable, self._syncs.synced = self._lower.size, self._syncs.written
        finally:
            self._alone.release()


def transactions_in(data):
    """How many transactions end in whole events."""
    count = at = 0
    while at < len(data):
        count += data[at + 4] == EventType.XID
        at += int.from_bytes(data[at + 9 : at + 13], "little")
    return count


def commit(out, number):
    with out.transaction() as transaction:
        transaction.insert(orders(out.flavour), [row(number)])
    return transaction


def given_out(out):
    """How many GTIDs were given out, also to transactions that still wait."""
    gtids = out.dialect.gtids.written
    if out.flavour == "mysql":
        return len(gtids)
    return gtids.position[0].seq_no if gtids.position else 0


@both
@each_case("sync", ["transaction", "none"])
def test_one_sync_is_for_all_that_wait_and_a_commit_returns_after_its_own(tmp_path, flavour, sync):
    """And one write if nothing is synced. Each waits here until all clients wait for the next."""
    disk, path, lock = Disk(tmp_path), tmp_path / "binlog.000001", threading.Lock()
    late = []
    running = CLIENTS
    with log(disk, flavour, sync=sync) as out:
        writes, syncs = disk.syncs.writes, disk.syncs.count

        def all_wait():
            wait_for(lambda: given_out(out) - done() >= running, every=0.001)

        def done():
            return disk.syncs.synced if sync == "transaction" else disk.syncs.written

        if sync == "transaction":
            disk.syncs.first = all_wait
        else:
            disk.syncs.first_write = all_wait

        def client(first):
            nonlocal running
            for number in range(first, first + 25):
                position = commit(out, number).position
                there = disk.syncs.durable if sync == "transaction" else path.stat().st_size
                if position.offset > there:
                    late.append((position, there))
            with lock:
                running -= 1

        in_threads(*(lambda each=each: client(100 * each) for each in range(CLIENTS)))
        assert not late
        if sync == "transaction":
            assert disk.syncs.count - syncs <= CLIENTS * 25 * 3 / 4
        else:
            assert disk.syncs.writes - writes <= CLIENTS * 25 * 3 / 4
            assert disk.syncs.count == syncs
    check_files(path)
    assert [event.name for event in events_of(tmp_path)].count("XID") == CLIENTS * 25


@both
def test_after_flush_is_in_the_logs_order_behind_the_sync_and_before_after_sync(tmp_path, flavour):
    disk = Disk(tmp_path)
    disk.syncs.slowly(0.002)
    flushed = []
    wrong = []

    class Order(TransactionObserver, LogStorageObserver):
        interface_version = 2

        def after_flush(self, io, file, position, flags):
            flushed.append(position)
            if position > disk.syncs.durable or flags is not LogStorageFlag.SYNCED:
                wrong.append(("after_flush", position, flags))

        def after_sync(self, io, file, position):
            synced = threading.get_ident(), position
            if position not in flushed:
                wrong.append(("after_sync", position))
            seen[threading.get_ident()] = synced

        def after_commit(self, io):
            if seen.pop(threading.get_ident()) != (threading.get_ident(), io.position):
                wrong.append(("after_commit", io.position))

    seen = {}
    with log(disk, flavour, sync="transaction", observers=[Order()]) as out:
        in_threads(*(lambda each=each: fill(out, 10, first=100 * each) for each in range(CLIENTS)))
        assert not wrong
        assert flushed == sorted(flushed)
        assert len(flushed) == CLIENTS * 10
        assert flushed[-1] == out.position.offset


@both
def test_rotate_flush_and_close_wait_for_what_is_synced_and_large_transactions_too(
    tmp_path, flavour
):
    disk = Disk(tmp_path)
    disk.syncs.slowly(0.001)
    with log(disk, flavour, sync="transaction", max_size=4096) as out:

        def rotates():
            for _ in range(10):
                out.rotate()
                out.flush()
                assert out.position.offset <= disk.syncs.durable

        def large():
            with out.transaction() as transaction:
                transaction.insert(orders(out.flavour), map(row, range(10_000)))
            assert transaction.position.offset <= disk.syncs.durable
            assert transaction.position.offset > 1 << 18

        in_threads(
            rotates,
            large,
            *(lambda each=each: fill(out, 20, first=100 * each) for each in range(1, CLIENTS)),
        )
        files = out.files
    check_files(*(tmp_path / name for name in files))
    assert [event.name for event in events_of(tmp_path)].count("XID") == 20 * (CLIENTS - 1) + 1


@both
def test_after_a_sync_that_failed_none_of_those_that_waited_is_in_the_log(tmp_path, flavour):
    disk = Disk(tmp_path)
    broken, others = threading.Event(), threading.Event()
    told = []
    failed = []

    class Told(TransactionObserver, LogStorageObserver):
        def after_flush(self, io, file, position, flags):
            told.append("flushed")

        def after_commit(self, io):
            told.append(str(io.gtid))

        def after_rollback(self, io):
            told.append("rolled back")

    with log(disk, flavour, sync="transaction", observers=[Told()]) as out:
        fill(out, 1)
        gtids, position, size = out.gtids, out.position, (tmp_path / "binlog.000001").stat().st_size
        told.clear()

        def full():
            disk.syncs.first = lambda: None
            broken.set()
            assert others.wait(WAIT)
            raise StorageError("No space left on device")

        def client(number):
            try:
                commit(out, number)
            except StorageError as error:
                failed.append(error)

        disk.syncs.first = full
        leader = threading.Thread(target=client, args=(100,))
        leader.start()
        assert broken.wait(WAIT)
        threads = [threading.Thread(target=client, args=(each,)) for each in range(101, 104)]
        for thread in threads:
            thread.start()
        wait_for(lambda: given_out(out) == 5)
        assert out.gtids == gtids
        assert out.position == position
        others.set()
        for thread in [leader, *threads]:
            thread.join(WAIT)
        assert [str(error) for error in failed] == ["No space left on device"] * 4
        assert len({id(error) for error in failed}) == 4
        assert told == ["rolled back"] * 4
        assert (out.gtids, out.position) == (gtids, position)
        assert (tmp_path / "binlog.000001").stat().st_size == size
        fill(out, 2, first=2)
    check_files(tmp_path / "binlog.000001")
    assert [event.name for event in events_of(tmp_path)].count("XID") == 3


def test_what_cannot_be_rolled_back_is_repaired_by_append(tmp_path):
    disk = Disk(tmp_path)
    out = log(disk, "mysql", sync="transaction")
    fill(out, 1)
    gtids = out.gtids

    def fails():
        raise StorageError("I/O error")

    disk.syncs.first = disk.syncs.before_cut = fails
    with pytest.raises(StorageError, match="I/O error"):
        fill(out, 1, first=2)
    for work in (lambda: fill(out, 1, first=3), out.transaction, out.rotate, out.flush, out.close):
        with pytest.raises(StorageError, match=r"I/O error.*tailrace\.append cuts the log back"):
            work()
    assert out.gtids == gtids
    os.truncate(tmp_path / "binlog.000001", (tmp_path / "binlog.000001").stat().st_size - 1)
    with tailrace.append(tmp_path, server_uuid=UUID, recovered=lambda _: None) as again:
        assert again.gtids == gtids


@pytest.fixture
def interruptible():
    """SIGINT raises KeyboardInterrupt, also where a shell started the tests with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_does_not_keep_a_transaction_out_of_the_log(tmp_path):
    """Nor the others that wait: the interrupted thread could be the one to sync for them."""
    disk = Disk(tmp_path)
    syncing, interrupted = threading.Event(), threading.Event()

    def waits():
        syncing.set()
        assert interrupted.wait(WAIT)

    with log(disk, "mysql", sync="transaction") as out:
        disk.syncs.first = waits
        threads = [threading.Thread(target=commit, args=(out, each)) for each in range(2)]
        threads[0].start()
        assert syncing.wait(WAIT)

        def interrupts():
            wait_for(lambda: given_out(out) == 2)
            time.sleep(0.05)  # until the main thread waits
            os.kill(os.getpid(), signal.SIGINT)
            threads[1].start()
            wait_for(lambda: given_out(out) == 3)
            interrupted.set()

        other = threading.Thread(target=interrupts)
        other.start()
        with pytest.raises(KeyboardInterrupt) as caught:
            commit(out, 3)
        assert (
            f"the transaction is in the log nevertheless, up to {out.position.file}"
            in (caught.value.__notes__[0])
        )
        for thread in (*threads, other):
            thread.join(WAIT)
            assert not thread.is_alive()
        assert len(out.gtids) == 3
    check_files(tmp_path / "binlog.000001")


def test_foreign_transactions_of_several_threads_are_synced_before_they_return(
    tmp_path,
):
    disk = Disk(tmp_path)
    late = []
    with log(disk, "mysql", sync="transaction") as out:
        before = disk.syncs.count

        def two_wait():
            disk.syncs.first = lambda: None
            wait_for(lambda: given_out(out) > 1)

        disk.syncs.first = two_wait

        def client(number):
            for each in range(number + 1, 41, CLIENTS):
                out.write_transaction(statement("mysql", XidEvent.make(xid=each), each))
                if out.position.offset > disk.syncs.durable:
                    late.append(out.position)

        in_threads(*(lambda each=each: client(each) for each in range(CLIENTS)))
        assert not late
        assert disk.syncs.count - before < 40
    check_files(tmp_path / "binlog.000001")
    assert len(list(tailrace.open(tmp_path).transactions())) == 40


KILLED = """
import os, random, sys, threading
from pathlib import Path
from tools.campaign.killed_writer import Case, SlowDisk, opened, row
from tailrace.schema.table import Table
from tests.writing.made import orders

folder, flavour, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
SlowDisk(random.Random(seed), power=True).install()
out = opened(folder, Case(flavour, "transaction"))
table = orders(flavour)

def client():
    while True:
        with out.transaction() as transaction:
            transaction.insert(table, [row(1), row(2)])
        os.write(1, f"{transaction.gtid}\\n".encode())

for _ in range(8):
    threading.Thread(target=client).start()
"""


@pytest.mark.slow
@both
def test_no_commit_of_many_threads_that_returned_is_lost_by_a_power_cut(tmp_path, flavour):
    """The writer is killed, and what it had not synced is lost with it."""
    chance = random.Random(5)
    returned = set()
    for kill in range(3):
        command = [sys.executable, "-c", KILLED, str(tmp_path), flavour, str(kill)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            rest = b"".join(process.stdout.readline() for _ in range(chance.randint(1, 100)))
            process.kill()
            rest += process.stdout.read()
        returned.update(
            line.decode() for line in rest.splitlines(keepends=True) if line.endswith(b"\n")
        )
        with tailrace.append(
            tmp_path, recovered=lambda _: None, server_uuid=UUID if flavour == "mysql" else None
        ) as out:
            files = out.files
        found = [str(each.gtid) for each in tailrace.open(tmp_path).transactions()]
        assert len(found) == len(set(found))
        assert {line.strip() for line in returned} <= set(found)
    assert len(returned) > 20
    check_files(*(tmp_path / name for name in files), restarts=True)
