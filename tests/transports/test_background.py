"""The thread that reads ahead: order, bounds, errors in their place, and its end."""

import gc
import sys
import threading
import time

import pytest

from tailrace.errors import LogError, TruncatedEvent
from tailrace.transports import END, BackgroundReader
from tests.cases import each_case
from tests.waiting import DEADLINE, ended, in_thread, wait_for


class Numbers:
    """A stream of ``count`` events of ``size`` bytes; then an error, the end, or a long wait."""

    def __init__(self, count, size=1, *, error=None, wait=False):
        self.count, self.size, self.error, self.wait = count, size, error, wait
        self.given = 0
        self.closed, self.at_end = threading.Event(), threading.Event()
        self.torn_tail = None

    def __iter__(self):
        for number in range(self.count):
            self.given = number + 1
            yield "binlog.000001", number, bytes(self.size)
        self.at_end.set()
        if self.error is not None:
            raise self.error
        if self.wait:
            self.closed.wait(DEADLINE)

    def close(self):
        self.closed.set()


def threads():
    return sum(thread.name == "tailrace reader" for thread in threading.enumerate())


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    before = threads()
    yield
    if threads() != before:
        gc.collect()
    wait_for(lambda: threads() == before, "a thread is left")


def settled(reader, stream, given):
    """How many events the thread took, once it waits for room with that many or more."""
    wait_for(lambda: stream.given >= given and reader._shared.waiting, lambda: stream.given)
    return stream.given


def test_everything_comes_in_order_and_then_the_end():
    reader = BackgroundReader(Numbers(10_000), most_events=7)
    got = []
    while (item := reader.get()) is not END:
        assert isinstance(item, tuple)
        got.append(item[1])
    assert got == list(range(10_000))
    assert reader.get() is END
    assert reader.get(time.monotonic() + DEADLINE) is END
    reader.close()


@each_case(
    ("size", "bounds", "held"),
    [
        (1, {"most_events": 50}, 50),
        (1000, {"most_bytes": 4500}, 4),
        (9000, {"most_bytes": 4500}, 1),
    ],
)
def test_a_full_queue_stops_the_reading(size, bounds, held):
    stream = Numbers(1000, size)
    reader = BackgroundReader(stream, **bounds)
    assert settled(reader, stream, held + 1) == held + 1  # one waits for room
    assert reader.held == (held, held * size)
    for number in range(10):
        item = reader.get()
        assert isinstance(item, tuple)
        assert item[1] == number
    assert settled(reader, stream, held + 11) == held + 11
    got = 10
    while reader.get() is not END:
        got += 1
    assert got == 1000
    reader.close()


def test_an_error_comes_behind_all_events_before_it():
    error = TruncatedEvent("cut", file="binlog.000001", offset=7)
    reader = BackgroundReader(Numbers(7, error=error))
    assert [reader.get() for _ in range(7)][-1] == ("binlog.000001", 6, b"\0")
    for _ in range(2):
        with pytest.raises(LogError, match=r"binlog\.000001 at 7: cut") as caught:
            reader.get()
        assert caught.value is error
    reader.close()


def test_an_error_that_is_not_ours_comes_as_it_is():
    reader = BackgroundReader(Numbers(0, error=ZeroDivisionError("odd")))
    with pytest.raises(ZeroDivisionError, match="odd"):
        reader.get()
    reader.close()


def test_a_deadline_passes_and_nothing_is_lost():
    reader = BackgroundReader(Numbers(1, wait=True))
    assert isinstance(reader.get(), tuple)
    began = time.monotonic()
    assert reader.get(began + 0.1) is None
    assert time.monotonic() - began > 0.09
    assert reader.get(began) is None
    reader.close()


def test_waking():
    reader = BackgroundReader(Numbers(0, wait=True))
    threading.Timer(0.05, reader.wake).start()
    assert reader.get(time.monotonic() + DEADLINE) is None
    reader.close()


@each_case("stream", [Numbers(1000), Numbers(0, wait=True), Numbers(3, wait=True), Numbers(0)])
def test_closing_ends_it_wherever_it_is(stream):
    reader = BackgroundReader(stream, most_events=2)
    wait_for(lambda: stream.at_end.is_set() or reader._shared.waiting)
    reader.close()
    reader.close()
    assert stream.closed.is_set()
    assert reader.get() is END


def test_closing_ends_a_wait_in_another_thread():
    reader, waiter = BackgroundReader(Numbers(0, wait=True)), []
    waiting = in_thread(lambda: waiter.append(threading.get_ident()) or reader.get())
    wait_for(lambda: waiter and sys._current_frames()[waiter[0]].f_code.co_name == "get")
    reader.close()
    assert ended(waiting) == [END]


def test_one_that_nobody_holds_ends():
    stream = Numbers(1000, wait=True)
    reader = BackgroundReader(stream, most_events=3)
    settled(reader, stream, 4)
    del reader
    gc.collect()
    assert stream.closed.wait(DEADLINE)


def test_a_stream_that_does_not_end_is_told(monkeypatch):
    monkeypatch.setattr("tailrace.transports.background._GRACE", 0.05)

    class Deaf(Numbers):
        def close(self):
            """As a transport of others may do."""

    stream = Deaf(0, wait=True)
    reader = BackgroundReader(stream)
    with pytest.warns(ResourceWarning, match="did not end"):
        reader.close()
    stream.closed.set()
