"""When a source counts as silent: only for as long as somebody listened."""

import socket

import pytest

from tailrace.errors import HeartbeatTimeout
from tailrace.live.dump import Arrivals
from tests.cases import each_case

SILENCE = 2.0
PARTS = 8


class Machine:
    """A clock and a selector that move where a reader waits; they may stand still there."""

    def __init__(self, selector, *, stands_still_at=None, far=None):
        self.now = 0.0
        self._selector = selector
        self._at, self._far = stands_still_at, far
        self._waits = 0

    def select(self, pause):
        if found := self._selector.select(0):
            return found
        self._waits += 1
        self.now += pause
        if self._waits == self._at:
            self.now += 5
            if self._far is not None:
                self._far.sendall(b"x")
        return []

    def close(self):
        self._selector.close()


@pytest.fixture
def ends():
    near, far = socket.socketpair()
    with near, far:
        yield near, far


def arrivals_on(machine_of, near, monkeypatch):
    monkeypatch.setattr("tailrace.live.dump.monotonic", lambda: 0.0)
    arrivals = Arrivals(near, name="a source", silence=SILENCE)
    machine = arrivals._selector = machine_of(arrivals._selector)
    monkeypatch.setattr("tailrace.live.dump.monotonic", lambda: machine.now)
    return arrivals, machine


@each_case("part", range(1, PARTS + 1))
def test_what_came_while_the_reader_stood_still_is_read(ends, monkeypatch, part):
    near, far = ends
    arrivals, _ = arrivals_on(
        lambda selector: Machine(selector, stands_still_at=part, far=far), near, monkeypatch
    )
    assert arrivals.fill(1, 1, None)
    arrivals.close()


@each_case("part", range(1, PARTS + 1))
def test_a_source_that_stood_still_as_well_has_all_of_its_time(ends, monkeypatch, part):
    near, _ = ends
    arrivals, machine = arrivals_on(
        lambda selector: Machine(selector, stands_still_at=part), near, monkeypatch
    )
    with pytest.raises(HeartbeatTimeout, match="said nothing for 2 seconds"):
        arrivals.fill(1, 1, None)
    assert SILENCE + 5 <= machine.now <= SILENCE + 5 + SILENCE / PARTS
    arrivals.close()


def test_silence_ends_it_in_time_however_short_the_waits(ends, monkeypatch):
    near, _ = ends
    for step in (0.01, 0.3, 1.9, None):
        arrivals, machine = arrivals_on(Machine, near, monkeypatch)
        with pytest.raises(HeartbeatTimeout):  # noqa: PT012 - at one of its waits
            while True:
                assert not arrivals.fill(1, 1, None if step is None else machine.now + step)
        assert SILENCE <= machine.now < SILENCE + SILENCE / PARTS + 1e-6
        arrivals.close()
