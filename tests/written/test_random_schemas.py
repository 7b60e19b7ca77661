"""What a real server wrote, Tailrace writes anew and another takes: random schemas (hypothesis).

`tools.campaign.written` says what is done to each; `python -m tools.campaign written` does it to
hundreds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tools.campaign.written import Campaign, Plan

if TYPE_CHECKING:
    from tools.servers import Server


@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # a seed is as good as any other: no shrinking
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 10**9))
def test_a_schema_comes_over(origin: Server, taker: Server, seed: int) -> None:
    campaign = Campaign(origin, taker, Plan(1, seed, served_every=0))

    assert campaign.one(0) == []
    assert campaign.report.tables


def test_a_schema_comes_over_served(origin: Server, taker: Server) -> None:
    campaign = Campaign(origin, taker, Plan(1, seed=1, served_every=1))

    assert campaign.one(0) == []
    assert [way for way in campaign.report.ways if way.startswith("served")]
