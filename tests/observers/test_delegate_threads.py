"""Delegates under load: observers come and go while calls run in several threads."""

import itertools
import random
import sys
import threading
from contextlib import suppress

import pytest

from tailrace.errors import UsageError
from tailrace.observers import RelayFlag, RelayIo, RelayIoDelegate, RelayIoObserver
from tests.waiting import DEADLINE, ended, in_thread, wait_for


class Gate(RelayIoObserver):
    """Stands still in a call until it is let go."""

    def __init__(self):
        self.entered, self.go = threading.Event(), threading.Event()

    def thread_start(self, io):
        self.entered.set()
        assert self.go.wait(DEADLINE)


def test_remove_waits_for_the_calls_that_see_the_observer():
    gate = Gate()
    delegate = RelayIoDelegate([gate])
    call = in_thread(lambda: delegate.thread_start(RelayIo()))
    assert gate.entered.wait(DEADLINE)
    removed = threading.Event()
    remove = in_thread(lambda: (delegate.remove(gate), removed.set()))
    while not delegate.is_empty:  # it is out of the list at once, for calls that begin now
        assert not remove.done()
    delegate.thread_start(RelayIo())
    assert not removed.wait(0.05)
    gate.go.set()
    assert removed.wait(DEADLINE)
    ended(call)


def test_remove_does_not_wait_for_calls_that_began_behind_it():
    gate, other = RelayIoObserver(), Gate()
    delegate = RelayIoDelegate([gate, other])
    delegate.remove(gate)
    call = in_thread(lambda: delegate.thread_start(RelayIo()))
    assert other.entered.wait(DEADLINE)
    delegate.add(gate)  # another list than that of the call that runs
    delegate.remove(gate)
    other.go.set()
    ended(call)


def test_remove_inside_a_call_returns_while_another_call_stands_still():
    gate = Gate()

    class Removes(RelayIoObserver):
        def after_reset_replica(self, io):
            delegate.remove(gate)
            done.set()

    done = threading.Event()
    delegate = RelayIoDelegate([gate, Removes()])
    call = in_thread(lambda: delegate.thread_start(RelayIo()))
    assert gate.entered.wait(DEADLINE)
    inside = in_thread(lambda: delegate.after_reset_replica(RelayIo()))
    assert done.wait(DEADLINE)
    gate.go.set()
    ended(call, inside)


class Counted(RelayIoObserver):
    """Knows whether it may be called, and what it was called with."""

    def __init__(self, name):
        self.name = name
        self.gone = False
        self.wrong = []
        self.calls = 0

    def after_queue_event(self, io, event, flags):
        self.calls += 1
        if self.gone:
            self.wrong.append("called after remove had returned")
        io.flags.append(self.name)  # the thread's own list


@pytest.fixture
def _many_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_many_switches")
@pytest.mark.parametrize("seed", range(3))
def test_observers_come_and_go_under_load(seed):
    """None is called after `remove` has returned, or twice in a call, or in another order."""
    numbers = itertools.count()
    fixed = [Counted(next(numbers)) for _ in range(2)]
    delegate = RelayIoDelegate(fixed)
    stop = threading.Event()
    wrong = []
    rounds = [0, 0, 0]
    came = []

    def call(slot):
        while not stop.is_set():
            io = RelayIo(flags=[])
            delegate.after_queue_event(io, memoryview(b""), RelayFlag.NONE)
            names = io.flags
            if names[:2] != [0, 1]:
                wrong.append(f"the fixed ones are not the first: {names}")
            if len(set(names)) != len(names):
                wrong.append(f"called twice: {names}")
            rounds[slot] += 1

    def change(number):
        chance = random.Random(seed * 100 + number)
        mine = []
        for turn in range(400):
            if turn % 8 == 0:  # calls go on between changes
                before = sum(rounds)
                wait_for(lambda before=before: sum(rounds) > before, "a call")
            if mine and chance.random() < 0.5:
                observer = mine.pop(chance.randrange(len(mine)))
                delegate.remove(observer)
                observer.gone = True
                with suppress(UsageError):
                    delegate.remove(observer)
                    wrong.append("removed twice")
            else:
                observer = Counted(next(numbers))
                delegate.add(observer)
                mine.append(observer)
                came.append(observer)
        for observer in mine:
            delegate.remove(observer)
            observer.gone = True

    callers = [in_thread(lambda slot=slot: call(slot)) for slot in range(3)]
    changers = [in_thread(lambda number=number: change(number)) for number in range(4)]
    ended(*changers)
    stop.set()
    ended(*callers)
    assert not wrong
    assert not [each.wrong for each in came if each.wrong]
    assert sum(each.calls for each in came) > 0
    assert fixed[0].calls == fixed[1].calls == sum(rounds)
    for observer in fixed:
        delegate.remove(observer)
    assert delegate.is_empty
