"""Writers are killed at random moments; the next one puts the log right and goes on.

TAILRACE_KILLS makes it more than 4 kills of each; `python -m tools.campaign killed --size full`
has all cases: compressed, encrypted, power cuts.
"""

import os
import sys

import pytest

from tests.cases import each_case
from tests.writing.made import check_files
from tools.campaign import killed
from tools.campaign.killed_writer import Case

KILLS = int(os.environ.get("TAILRACE_KILLS", "4"))


@each_case(("flavour", "sync"), [("mysql", "none"), ("mariadb", "transaction")])
@pytest.mark.slow
def test_killed_again_and_again(tmp_path, flavour, sync):
    """Whole transactions only, and every one whose commit returned.

    With ``sync="none"`` too: a killed process leaves what it wrote to the operating system. The
    other two pairs are in the small campaign.
    """
    report = killed.run_case(Case(flavour, sync), tmp_path, seed=1, kills=KILLS)
    assert not report.failures, "\n".join(map(str, report.failures))
    assert report.kills == KILLS
    assert report.phases["opening"] < KILLS  # else no kill found a writer at its transactions
    check_files(*sorted((tmp_path / "log").glob("binlog.0*")), restarts=True)


@pytest.mark.slow
def test_the_small_campaign():
    """Compressed, encrypted, and power cuts; killed while they open and purge, too."""
    reports = killed.run(killed.SIZES["small"], seed=3)
    assert [failure for report in reports for failure in report.failures] == []
    assert {bool(report.case.keyring) for report in reports} == {True, False}
    for report in reports:
        assert report.kills == killed.SIZES["small"].kills
        assert report.transactions
    assert sum(report.torn for report in reports)
    assert sum(report.phases["opening"] for report in reports)


WITHOUT_SYNC = """
import sys
from tailrace.storage.binlog_file import BinlogFile
from tools.campaign.killed_writer import main
BinlogFile.sync = lambda file: file.flush()
main(*sys.argv[1:])
"""


def test_a_writer_that_does_not_sync_is_found(tmp_path, monkeypatch):
    """The campaign's power cuts do lose what was only handed to the operating system."""
    arguments = killed.arguments

    def broken(*given):
        return [sys.executable, "-c", WITHOUT_SYNC, *arguments(*given)[3:]]

    monkeypatch.setattr(killed, "arguments", broken)
    report = killed.run_case(Case("mysql", "transaction", power=True), tmp_path, seed=1, kills=30)
    (failure,) = report.failures
    assert "was safe" in failure
