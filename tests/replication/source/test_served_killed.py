"""All processes of a chain are killed in turn (`tools.campaign.served`); tables are equal in the end.

TAILRACE_KILLS makes it more than one kill of each; `--size full` of the campaign has a hundred.
"""

import os

import pytest

from tests.conftest import _require
from tools.campaign.served import VICTIMS, Size, run

KILLS = int(os.environ.get("TAILRACE_KILLS", "1"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_each_process_is_killed_under_load(name):
    """WL#4398, and issue 20: their own SHOW REPLICA STATUS shows nothing but reconnecting."""
    _require(name)
    report = run(name, Size(KILLS * len(VICTIMS), clients=2), seed=1)
    assert not report.failures, "\n".join(map(str, report.failures))
    assert set(report.kills) == set(VICTIMS)
    assert report.transactions > 10
