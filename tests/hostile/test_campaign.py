"""The campaign's own judge: what may not come of a scenario is found.

The scenarios are in ``tools/campaign/hostile``; the full run's result in
``docs/evidence/hostile.md``.
"""

import os
import time

import pytest

from tailrace.errors import MalformedPacket
from tools.campaign.hostile import MODULES, scenarios
from tools.campaign.hostile.scenario import Scenario, attempt, outside


@pytest.mark.timeout(7200)  # each scenario has a bound of its own
@pytest.mark.parametrize("module", MODULES)
def test_scenarios(module):
    outcomes = [attempt(each) for each in scenarios("small", 1) if each.name.startswith(module)]
    assert len(outcomes) > 10
    assert [f"{each.name}: {each.failure}" for each in outcomes if each.failure] == []


def _typed(folder):
    raise MalformedPacket("this is no packet")


def _two_lines(folder):
    raise MalformedPacket("this is\nno packet")


def _untyped(folder):
    raise IndexError


def _writes_elsewhere(folder):
    (outside(folder) / "x.000001").write_text("mine")


def _sleeps(folder):
    time.sleep(60)


def _works(folder):
    while True:
        pass


def _takes(folder):
    bytearray(os.urandom(1)) * (128 << 20)


def _dies(folder):
    os._exit(3)


def test_judge():
    for run, found in (
        (_typed, ""),
        (_two_lines, "2 lines"),
        (_untyped, "IndexError"),
        (_writes_elsewhere, "touched outside"),
        (_works, "more than 1 s of the processor"),
        (_takes, "grew by"),
        (_dies, "ended with status"),
        (_sleeps, "longer than 0.5 s"),
    ):
        seconds, patience = (1 if run is _works else 20), (0.5 if run is _sleeps else 0)
        outcome = attempt(Scenario("a scenario", run, seconds, 100, patience))
        assert (found in outcome.failure) if found else not outcome.failure, run
