"""The zero-loss campaign, small; and that it finds a receiver that acknowledges too early.

`python -m tools.campaign zeroloss --size full` has 50 rounds of each flavour, and so has it with
`--into s3`.
"""

import pytest

from tools.campaign import zeroloss
from tools.campaign.zeroloss import Round, ZerolossReport

pytestmark = pytest.mark.slow

WITHOUT_SYNC = """
import sys
from tailrace.replication.copy.files import Copy
from tools.campaign.zeroloss_receiver import main
Copy.sync = lambda copy: None
main(sys.argv[1:])
"""


def _round(server, **settings):
    given = {
        "server": server,
        "seed": 1,
        "wait_point": "AFTER_SYNC",
        "sync": "group",
        "power": True,
        "kills": 1,
        "end": "with",
        "seconds": 0.5,
    }
    return Round(**(given | settings))


@pytest.mark.parametrize(
    "given",
    [
        _round("mysql-9.7"),
        _round("mariadb-11.8", wait_point="AFTER_COMMIT", sync="0.05", power=False, end="asked"),
        _round("mariadb-11.8", into="s3", power=False, end="behind"),
    ],
    ids=lambda given: f"{given.server} {given.into} {given.end}",
)
def test_every_commit_that_was_seen_is_in_the_copy(given):
    report = ZerolossReport(given.server)
    zeroloss.run_round(given, report)
    assert not report.failures, "\n".join(map(str, report.failures))
    assert report.seen > 5
    assert report.killed == given.kills + (given.end != "asked")


@pytest.mark.parametrize("into", zeroloss.INTO)
def test_a_receiver_that_acknowledges_what_is_not_synced_is_found(monkeypatch, into):
    command = zeroloss.receiver_command

    def broken(*given):
        arguments = command(*given)
        at = arguments.index("-m")
        return [*arguments[:at], "-c", WITHOUT_SYNC, *arguments[at + 2 :]]

    monkeypatch.setattr(zeroloss, "receiver_command", broken)
    report = ZerolossReport("mariadb-11.8")
    for seed in range(1, 8):  # a round in which a file ended just before, synced, loses nothing
        zeroloss.run_round(_round("mariadb-11.8", kills=0, seed=seed, into=into), report)
        if any("are not in the copy as seen" in each for each in report.failures):
            return  # other failures are those of a busy machine
    pytest.fail(f"it was not found: {report.failures}")
