"""Tables whose addresses kernels hold are made once, whichever threads ask first."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tailrace.columns import calendar
from tests.cases import each_case
from tests.waiting import DEADLINE

THREADS = 4


def test_threads_that_ask_together_get_the_same():
    """The first is held up in making it until another has begun to, or long enough not to."""
    calls = []
    second = threading.Event()
    ready = threading.Barrier(THREADS)

    def make():
        calls.append(threading.get_ident())
        if len(calls) > 1:
            second.set()
        second.wait(0.5)
        return np.zeros(3)

    table = calendar._once(make)

    def ask():
        ready.wait(DEADLINE)
        return table()

    with ThreadPoolExecutor(THREADS) as pool:
        asked = [pool.submit(ask) for _ in range(THREADS)]
        found = [each.result() for each in asked]
    assert len(calls) == 1
    assert {id(each) for each in found} == {id(table())}


@each_case("table", [calendar.calendar, calendar.powers_of_ten, calendar.crc_tables])
def test_what_kernels_hold_stays(table):
    assert table() is table()
    assert table.__doc__
