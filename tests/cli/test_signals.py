"""Signals that come while the main thread holds a lock."""

import signal
import threading

import pytest

from tailrace.cli.signals import on_signals
from tests.cases import each_case
from tests.waiting import DEADLINE


def test_what_stops_a_command_may_need_a_lock_of_the_main_thread():
    """The main thread waits for an event, which has a lock: `mirror --follow` hung when a signal
    came in that moment.
    """
    lock, stopped = threading.Lock(), threading.Event()

    def stop():
        if lock.acquire(timeout=DEADLINE):
            stopped.set()

    with on_signals(stop) as ending:
        with lock:
            signal.raise_signal(signal.SIGTERM)
        assert stopped.wait(DEADLINE)
    assert (ending.numbers, ending.status) == ([signal.SIGTERM], 0)


def test_a_signal_does_not_wait_for_the_main_thread():
    """`index --follow` ignored one signal in 30 that came as its main thread began to wait: Python's
    handler runs in that thread alone. Here another thread gets the signal, which has the same effect.
    """
    stopped = threading.Event()
    other = threading.Thread(target=stopped.wait, args=(2 * DEADLINE,))
    other.start()
    with on_signals(stopped.set) as ending:
        kill = (other.ident, signal.SIGTERM)
        threading.Timer(0.1, signal.pthread_kill, kill).start()
        assert stopped.wait(DEADLINE)
    other.join()
    assert ending.numbers == [signal.SIGTERM]


@each_case("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal(number):
    before = signal.getsignal(number)
    calls = threading.Semaphore(0)
    with on_signals(calls.release, second="stop") as ending:
        for _ in range(2):
            signal.raise_signal(number)
            assert calls.acquire(timeout=DEADLINE)
    assert ending.status == {signal.SIGINT: 130, signal.SIGTERM: 0}[number]
    with on_signals(calls.release, second="interrupt"):
        signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        assert calls.acquire(timeout=DEADLINE)
    with on_signals(calls.release):
        signal.raise_signal(number)
        assert calls.acquire(timeout=DEADLINE)
        assert signal.getsignal(number) is before
    assert signal.getsignal(number) is before
