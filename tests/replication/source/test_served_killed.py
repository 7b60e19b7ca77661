"""All processes of a chain are killed in turn (`tools.campaign.served`); tables are equal in the end.

TAILRACE_KILLS makes it more than one kill of each; `--size full` of the campaign has a hundred.
"""

from __future__ import annotations

import os

import pytest

from tools.campaign.served import VICTIMS, Size, run
from tools.servers import available

KILLS = int(os.environ.get("TAILRACE_KILLS", "1"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_each_process_is_killed_under_load(name: str):
    """WL#4398, and issue 20: their own SHOW REPLICA STATUS shows nothing but reconnecting."""
    if reason := available(name):
        pytest.skip(reason)
    report = run(name, Size(KILLS * len(VICTIMS), clients=2), seed=1)
    assert report.failures == []
    assert set(report.kills) == set(VICTIMS)
    assert report.transactions > 10
