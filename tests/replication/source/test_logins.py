"""Mutated logins and packets: the campaign of `tools.campaign.logins`, small.

``python -m tools.campaign logins --size full`` tries a million connections.
"""

from __future__ import annotations

import pytest

from tools.campaign import logins

pytestmark = pytest.mark.slow


def test_mutated_logins_are_rejected_cleanly_and_harm_nobody():
    report = logins.run(logins.SIZES["small"], seed=20)
    assert not report.failures
    assert report.tried == logins.SIZES["small"]
    assert report.dumps > 1
    outcomes = report.outcomes
    assert outcomes["error 1043"] > 100
    assert sum(number for what, number in outcomes.items() if what.startswith("logged in")) > 50
