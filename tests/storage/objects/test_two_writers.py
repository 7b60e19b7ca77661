"""Issue 20: a writer is stopped, another one takes the file over, the first one wakes up."""

import os
import re
import threading
from contextlib import contextmanager, suppress

import pytest

import tailrace
from tailrace.errors import StorageError
from tailrace.storage.objects import ObjectFolder, ObjectStore, ObjectUrl
from tailrace.storage.objects import folder as folders
from tailrace.storage.objects import output as outputs
from tailrace.storage.objects.bucket import bucket_of
from tailrace.storage.objects.output import FAN
from tests.cases import each_case
from tests.storage.objects.test_landing import NAME, a_folder, forget
from tests.storage.objects.test_landing import stored as as_stored
from tests.writing.made import UUID, orders, row
from tests.writing.made import log as new_log

HEAD = b"(head)"
TORN = b"(torn"
STRIDE = int(os.environ.get("TAILRACE_STRIDE", "4"))
"""Of so many requests one is tried in each way to stop there, and each in one of the ways; 1: all."""


def stored(url):
    """What a reader gets, without the flag: a change of it on its way comes even after a takeover."""
    return as_stored(url).lower()


class Stopped:
    """A bucket whose client stops at its ``n``-th request, before or after it, for ``act``."""

    def __init__(self, lower, n, act, *, after):
        self.lower = lower
        self.left = n
        self.act = act
        self.after = after

    def __getattr__(self, name):
        request = getattr(self.lower, name)

        def call(*given, **named):
            self.left -= 1
            stops = self.left == 0
            if stops and not self.after:
                self.act()
            try:
                return request(*given, **named)
            finally:
                if stops and self.after:
                    self.act()

        return call


class Writer:
    """Writes numbered records; ``told`` are those whose `sync` returned."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = folder
        self.told = []
        self.output = None
        self.failed = None

    def tries(self, act):
        """Whether it succeeded; never again after an error, as a log that is broken."""
        if self.failed is None:
            try:
                act()
            except StorageError as error:
                self.failed = error
        return self.failed is None

    def open(self):
        if NAME in self.folder.names():
            self.output = self.folder.spool.reopen(NAME)
        else:
            self.output = self.folder.spool.create(NAME, HEAD)
        found = self.output.read(0, self.output.size)
        whole = found.rpartition(b")")
        self.output.truncate(len(found) - len(whole[2]))

    def commit(self):
        record = f"({self.name}{len(self.told)})".encode()
        self.output.write(record)
        self.output.sync()
        self.told.append(record)

    def tear(self):
        """A part of a transaction is stored, and rolled back."""
        self.output.write(TORN)
        self.output.sync()
        self.output.truncate(self.output.size - len(TORN))
        self.output.update(1, b"HEAD"[:4])

    def complete(self):
        self.folder.complete(NAME)
        self.folder.drain()
        forget()
        self.folder.close_up()  # raises what was only logged


def run(url, n, *, after, there, ends, patch):
    """One history; whether the first writer was stopped in it. ``there``: it takes a file over;
    ``ends``: the second one completes the file before the first wakes up.
    """
    if there:
        left = Writer("x", ObjectFolder(url))
        left.open()
        left.commit()
        left.output.write(TORN)
        left.output.sync()
        forget()
    else:
        left = None
    second = Writer("b", ObjectFolder(url))
    took = []

    def take_over():
        forget()
        if second.tries(second.open) and second.tries(second.commit):
            took.append(stored(url))
        if ends:
            second.tries(second.complete)
        forget()

    stopped = Stopped(bucket_of(url), n, take_over, after=after)
    with patch.context() as inner:
        inner.setattr(folders, "bucket_of", lambda _: stopped)
        first = Writer("a", ObjectFolder(url))
    steps = [first.open, *[first.commit] * (FAN + 3), first.tear, first.commit, first.complete]
    for step in steps:
        before = len(took)
        first.tries(step)
        first.folder._worker.drain()
        if took and before and first.failed is not None and second.failed is None:
            assert stored(url).startswith(took[0])  # nobody sees what the first has stored since
    forget()
    ran = stopped.left <= 0
    for _ in range(2):
        if second.output is not None:
            second.tries(second.commit)
    if ran and second.output is not None:
        assert first.failed or second.failed
    found = stored(url)
    for writer in filter(None, (left, first, second)):
        assert [record for record in writer.told if record not in found] == [], (n, writer.name)
    records = re.findall(rb"\([a-zA-Z]+[0-9]*\)", found)
    assert b"".join(records) == found.removesuffix(TORN)
    assert len({*records}) == len(records)
    if second.output is not None and second.failed is None:
        assert first.failed or not ran
        assert found == second.output.read(0, second.output.size).lower()
    last = ObjectFolder(url)
    last.complete(NAME)
    last.clean()
    last.close_up()
    assert bucket_of(url).list((url / f"{NAME}.segments-v1").key).objects == {}
    assert ObjectStore(url).listing() == {NAME: len(found)}
    assert stored(url) == found
    return ran


@pytest.mark.slow
@each_case("after", [False, True], ids=["before", "behind"])
@each_case("there", [False, True], ids=["created", "taken-over"])
@each_case("ends", [False, True], ids=["grows", "completed"])
def test_stopped_at_every_request(ends, there, after, monkeypatch):
    """No commit that returned is lost, and only one of the two continues."""
    n = 1 + (2 * there + after) % STRIDE
    while run(a_folder(), n, after=after, there=there, ends=ends, patch=monkeypatch):
        n += STRIDE
    assert n > 60


class Retried:
    """A bucket whose ``n``-th conditional request is made twice, as its answer was lost."""

    def __init__(self, lower, n):
        self.lower = lower
        self.left = n

    def __getattr__(self, name):
        return getattr(self.lower, name)

    def put(self, key, content, *, new=False):
        self.lower.put(key, content, new=new)
        self.left -= new
        if new and not self.left:
            self.lower.put(key, content, new=new)


def test_an_answer_that_is_lost_is_no_other_writer(monkeypatch):
    """The library makes the request again, and is told that the object exists."""
    n = 0
    left = 0
    while left <= 0:
        n += 1
        url = a_folder()
        bucket = Retried(bucket_of(url), n)
        with monkeypatch.context() as inner:
            inner.setattr(folders, "bucket_of", lambda _, bucket=bucket: bucket)
            writer = Writer("a", ObjectFolder(url))
        for step in [writer.open, writer.commit, writer.tear, writer.commit]:
            assert writer.tries(step), (n, writer.failed)
        forget()
        again = Writer("b", writer.folder)
        for step in [again.open, again.commit, again.complete]:
            assert again.tries(step), (n, again.failed)
        assert stored(url) == HEAD + b"(a0)(a1)(b0)"
        left = bucket.left
    assert n > 10


def test_a_removed_file_stays_away(bucket):
    """What a writer stores that was replaced before the file was removed is no file."""
    url = ObjectUrl.parse(f"{bucket.url}/logs")
    first = Writer("a", ObjectFolder(url))
    first.open()
    first.commit()
    forget()
    ObjectFolder(url).remove(NAME)
    assert not first.tries(first.commit)
    assert len(bucket.names(f"logs/{NAME}.segments-v1")) == 1
    assert ObjectStore(url).listing() == {}
    assert ObjectFolder(url).names() == []
    forget()


def test_what_is_stored_for_a_removed_file_is_not_in_a_new_one():
    """Its writer has not been told of the removal, and stores in the folder of its segments."""
    url = a_folder()
    first = Writer("a", ObjectFolder(url))
    first.open()
    for _ in range(3):
        first.commit()
    forget()
    ObjectFolder(url).remove(NAME)
    again = Writer("b", ObjectFolder(url))
    again.open()
    assert not first.tries(first.commit)
    for _ in range(6):  # up to where the first one has stored, and further
        again.commit()
        assert stored(url) == HEAD + b"".join(again.told)
    forget()


def test_stopped_at_some_requests(bucket, monkeypatch):
    """The same in a real store."""
    in_stores(bucket.url, monkeypatch)


def in_stores(place, patch):
    """The test above, in a folder of any store."""
    for n in [*range(1, 15), 40, 77, 90]:
        url = ObjectUrl.parse(f"{place}/{n}")
        after, there, ends = n % 2 == 0, n > 3, n % 3 == 0
        run(url, n, after=after, there=there, ends=ends, patch=patch)


class StoppedMain(Stopped):
    """Its other threads are not stopped: they would see what the second program has open."""

    def __getattr__(self, name):
        if threading.current_thread() is not threading.main_thread():
            return getattr(self.lower, name)
        return super().__getattr__(name)


class Machine:
    """A program that commits the numbers from ``first`` on; ``told`` are those that returned."""

    def __init__(self, first):
        self.next = first
        self.told = []
        self.open = {}
        self.log = None

    @contextmanager
    def runs(self):
        """It does not share what this process has noted as open."""
        with pytest.MonkeyPatch.context() as patch:
            for module in (outputs, folders):
                patch.setattr(module, "OPEN", self.open)
            yield

    def commit(self):
        self.next += 1
        with self.log.transaction() as transaction:
            transaction.insert(orders("mysql"), [row(self.next) | {"note": "x" * 2500}])
        self.told.append(self.next)


def run_logs(n, *, after, patch):
    """One history of two programs; whether the first was stopped in it."""
    url = a_folder()
    first, second = Machine(0), Machine(1000)

    def take_over():
        with second.runs():
            second.log = tailrace.append(
                str(url), server_uuid=UUID, max_size=4096, sync="transaction"
            )
            second.commit()

    stopped = StoppedMain(bucket_of(url), 0, take_over, after=after)
    with patch.context() as inner:
        inner.setattr(folders, "bucket_of", lambda _: stopped)
        folder = ObjectFolder(url)
    with first.runs(), suppress(StorageError):
        first.log = new_log(folder, "mysql", max_size=4096, sync="transaction")
        stopped.left = n
        for _ in range(5):
            first.commit()
        first.log.close()
    if second.log is None:
        return False
    with second.runs():
        for _ in range(4):
            second.commit()
        second.log.close()
    found = [each["id"] for each in tailrace.rows(str(url))]
    assert [number for number in (*first.told, *second.told) if number not in found] == [], n
    assert len({*found}) == len(found)
    gtids = [
        int(str(each.gtid).rpartition(":")[2]) for each in tailrace.open(str(url)).transactions()
    ]
    assert gtids == [*range(1, len(found) + 1)]
    names = [name for name in ObjectStore(url).listing() if name != "binlog.index"]
    assert len(names) > 2
    index = ObjectStore(url).read("binlog.index", 0, 1000).decode()
    assert index == "".join(f"./{name}\n" for name in sorted(names))
    return True


@pytest.mark.slow
@each_case("after", [False, True], ids=["before", "behind"])
def test_a_log_that_rotates_is_taken_over(after, monkeypatch):
    """The next file's head has all that was committed before."""
    n = 1 + 2 * after % STRIDE
    while run_logs(n, after=after, patch=monkeypatch):
        n += STRIDE
    assert n > 60
