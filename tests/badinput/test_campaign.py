"""Broken logs, at random: only errors of the tree, no crash, no hang, bounded memory.

The long campaign is ``./run python -m tools.campaign badinput``; its results are in
``docs/evidence/badinput.md``.
"""

import pytest

from tools.campaign import badinput


@pytest.mark.slow
def test_random_mutations():
    report = badinput.run(20261121, seconds=10_000, most=25)
    assert not report.failures, "\n".join(report.failures)
    assert report.tried == 25
    assert sum(report.outcomes.values()) >= 25 * 5
