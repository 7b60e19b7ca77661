"""A program that is interrupted (Ctrl-C) while it commits, catches that, and continues."""

import os
import sys
import threading
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

import tailrace
from tailrace.errors import UsageError
from tailrace.storage.local import LocalFolder
from tailrace.storage.memory import forget_memory, memory_folder
from tests.cases import each_case
from tests.writing.made import check_files, log, orders, row

COMMITS = 4
MAX_SIZE = 4096
"""Bytes: every third transaction begins a new file."""
EVERY = int(os.environ.get("TAILRACE_INTERRUPTS_EVERY", "11"))
"""Of the points of a commit, one in so many is tried; 1: all."""
OURS = str(Path(tailrace.__file__).parent)
PLACES = tuple(f"{OURS}/{package}/" for package in ("writing", "storage"))


class Interrupts:
    """Raises KeyboardInterrupt once, at the call of this number; None counts only."""

    def __init__(self, at):
        self.at = at
        self.count = 0
        self.on = False

    def call(self, done, *given):
        """A call that is interrupted before it is made, or after it was."""
        self._point()
        result = done(*given)
        self._point()
        return result

    def _point(self):
        if self.on:
            self.count += 1
            if self.count == self.at:
                raise KeyboardInterrupt


class Calls:
    """A store or a file of it; every call of it is a point."""

    def __init__(self, lower, interrupts):
        self._lower, self._interrupts = lower, interrupts

    @property
    def size(self):
        return self._lower.size

    def path(self, name):
        return self._lower.path(name)


def _called(name):
    def call(self, *given):
        return self._interrupts.call(getattr(self._lower, name), *given)

    return call


class CountedFile(Calls):
    write, update, truncate = _called("write"), _called("update"), _called("truncate")
    flush, sync, close = _called("flush"), _called("sync"), _called("close")


class CountedStore(Calls):
    names, read, remove = _called("names"), _called("read"), _called("remove")
    replace, spill = _called("replace"), _called("spill")
    size = _called("size")

    def create(self, name, head):
        file = self._interrupts.call(self._lower.create, name, head)
        return CountedFile(file, self._interrupts)

    def reopen(self, name):
        return CountedFile(self._interrupts.call(self._lower.reopen, name), self._interrupts)


@contextmanager
def interrupted_at(at):
    """Interrupt this thread in Tailrace's writing, where CPython handles signals: at the beginning
    of a function, and after a call of one that is written in C.
    """
    points = Interrupts(at)
    points.on = True

    def profile(frame, event, _):
        if event in {"call", "c_return"} and frame.f_code.co_filename.startswith(PLACES):
            points._point()

    sys.setprofile(profile)
    try:
        yield points
    finally:
        sys.setprofile(None)


def commit(out, number):
    with out.transaction() as transaction:
        transaction.insert(orders(out.flavour), [row(number) | {"note": "x" * 2500}])


def commit_all(out, numbers):
    """The ids of the rows whose commit returned, and of those whose commit was interrupted."""
    returned, interrupted = set(), set()
    for number in numbers:
        try:
            commit(out, number)
            returned.add(number)
        except KeyboardInterrupt:
            interrupted.add(number)
    return returned, interrupted


def check(source, returned, interrupted):
    """What returned is in the log, once; what was interrupted is, or is not."""
    found = [each["id"] for each in tailrace.rows(source)]
    assert found == sorted(set(found))
    assert returned <= set(found) <= returned | interrupted


def store_of(kind, folder):
    if kind == "disk":
        return LocalFolder(folder)
    forget_memory("interrupted")
    return memory_folder("interrupted")


def interrupt(at, lower, flavour, sync):
    """Commit, rotate and close, interrupted at that call of the store; how many calls there were."""
    interrupts = Interrupts(at)
    store = CountedStore(lower, interrupts)
    out = log(store, flavour, sync=sync, max_size=MAX_SIZE)
    interrupts.on = True
    returned, interrupted = commit_all(out, range(COMMITS))
    try:
        out.close()
    except KeyboardInterrupt:
        with pytest.raises(UsageError, match="closed"):
            commit(out, 100)
        out.close()
    interrupts.on = False
    assert len(returned) >= COMMITS - 1
    listed = bytes(lower.read("binlog.index", 0, 1000)).decode().split()
    assert sorted(name for name in lower.names() if name != "binlog.index") == [
        name.removeprefix("./") for name in listed
    ]
    check(lower.place, returned, interrupted)
    with tailrace.append(lower, server_uuid=None, sync="none") as again:
        assert again.recovery is None
    return interrupts.count


@each_case(
    ("flavour", "sync", "kind"),
    [
        *(("mysql", "none", "memory"), ("mariadb", "transaction", "memory")),
        *(("mysql", "transaction", "disk"), ("mariadb", "none", "disk")),
    ],
)
@pytest.mark.slow
def test_an_interrupted_commit_is_in_the_log_or_is_not_and_the_next_works(
    tmp_path, flavour, sync, kind
):
    """Interrupted at every call of the store, before it and after it."""
    calls = interrupt(None, store_of(kind, tmp_path / "none"), flavour, sync)
    assert calls > 30
    for at in range(1, calls + 1):
        interrupt(at, store_of(kind, tmp_path / f"{at}"), flavour, sync)
        if kind == "disk":
            check_files(*sorted((tmp_path / f"{at}").glob("binlog.0*"))[:-1])


@pytest.mark.slow
@pytest.mark.skipif(
    sys.version_info >= (3, 14),
    reason="from 3.14 on, the lock of a with statement can be taken, and the interrupt come before"
    " its block is entered: nothing releases it then",
)
@each_case(("flavour", "sync"), [("mysql", "transaction"), ("mariadb", "none")])
def test_an_interrupt_anywhere_in_a_commit(tmp_path, flavour, sync):
    for at in count(1, EVERY):
        folder = tmp_path / f"{at}"
        out = log(LocalFolder(folder), flavour, sync=sync, max_size=MAX_SIZE)
        commit(out, 0)
        commit(out, 1)
        with interrupted_at(at) as points:
            returned, interrupted = commit_all(out, range(2, 4))
        done = threading.Thread(target=commit, args=(out, 4), daemon=True)
        done.start()
        done.join(60)
        assert not done.is_alive()
        commit(out, 5)
        out.close()
        check(folder, returned | {0, 1, 4, 5}, interrupted)
        check_files(*sorted(folder.glob("binlog.0*")))
        if points.count < at:  # it was not reached: the end
            assert at > 300
            return
