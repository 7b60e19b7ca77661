"""Sources that go, die, are purged, reset or replaced, and a file that cannot grow."""

import os
import resource
import subprocess
import sys

import pytest

from tailrace.errors import ConnectionLost, LogPurged, LogReset
from tailrace.replication.receiver import Receiver
from tests import waiting
from tests.recorded import ROOT
from tests.replication.conftest import end_of, insert, rotate, run, same, url_of
from tests.replication.test_receiver_left import killed_between_two_files
from tests.waiting import DEADLINE, next_second, wait_for


def kept(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refused(source, folder, *kinds):
    """An error of these, and the copy is as it was."""
    before = kept(folder)
    with pytest.raises(kinds, match="is kept, up to"):
        run(source, folder)
    assert kept(folder) == before


def purge(source, to):
    waiting.purge(source, source.binlogs()[to].name)


def reset(source):
    wait_for(lambda: not source.dumps())
    source.execute("RESET MASTER" if source.flavour == "mariadb" else "RESET BINARY LOGS AND GTIDS")


def test_the_source_restarts_and_dies(source, folder):
    insert(source, [10])
    run(source, folder)
    source.restart()  # its log ends with STOP
    source.settle()
    insert(source, [20])
    run(source, folder)
    insert(source, [30])
    run(source, folder)
    source.kill()  # this one with nothing
    source.start()
    source.settle()
    insert(source, [40])
    run(source, folder)
    same(source, folder)
    source.kill()
    source.start()
    source.settle()
    run(source, folder.parent / "later")  # all at once
    same(source, folder.parent / "later")


def test_files_that_are_purged_at_the_source_stay(source, folder):
    rotate(source)
    insert(source, [10])
    run(source, folder)
    before = set(kept(folder))
    purge(source, -1)
    insert(source, [20])
    run(source, folder)
    assert set(kept(folder)) == before
    last = source.binlogs()[-1]
    assert (folder / last.name).read_bytes() == last.read_bytes()


def test_purged_behind_a_file_that_we_have_whole(source, folder):
    """What is purged is had already: it goes on with the next file, if that follows."""
    if source.flavour == "mysql" and source.query("SELECT @@gtid_mode")[0][0] != "ON":
        source.execute("SET GLOBAL enforce_gtid_consistency = ON")
        for mode in ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"):
            source.execute(f"SET GLOBAL gtid_mode = {mode}")
        rotate(source)
    insert(source, [10])
    rotate(source)
    run(source, folder)
    newest = max(folder.glob("binlog.0*"))
    killed_between_two_files(folder)  # so the copy ends with a whole file
    purge(source, -1)
    insert(source, [20])
    run(source, folder)
    last = source.binlogs()[-1]
    assert (folder / last.name).read_bytes() == last.read_bytes()
    # And if that is a file of another log of the same name, it does not.
    killed_between_two_files(folder)
    reset(source)
    insert(source, [30])
    while source.binlogs()[-1].name < newest.name:
        rotate(source)
    purge(source, -1)
    refused(source, folder, LogReset, LogPurged)


def test_purged_before_we_had_it(source, folder):
    run(source, folder)
    insert(source, [10])
    rotate(source)
    rotate(source)
    purge(source, -1)
    refused(source, folder, LogReset, LogPurged)


@pytest.mark.parametrize("grown", [False, True])
def test_reset(source, folder, grown):
    reset(source)
    insert(source, [10, 20])
    run(source, folder)
    next_second()  # else the new file is the old one, as far as a reader can see
    reset(source)
    if grown:
        insert(source, [500] * 20)
    refused(source, folder, LogReset)


def test_another_server(source, folder, fresh_server):
    reset(source)
    insert(source, [10])
    run(source, folder)
    other = fresh_server(source.name, server_id=77)
    other.execute("CREATE DATABASE d")
    other.execute("CREATE TABLE d.t (a INT PRIMARY KEY AUTO_INCREMENT, b LONGBLOB)")
    insert(other, [100] * 40)
    refused(other, folder, LogReset)
    other.discard()


_LIMITED = """
import resource, sys
from tailrace.replication.receiver import Receiver
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
try:
    Receiver(sys.argv[1], sys.argv[2], follow=False).run()
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def limited(source, folder, size):
    """A receiver whose files may have so many bytes: what the system refuses is refused for real."""
    return subprocess.run(
        [sys.executable, "-c", _LIMITED, url_of(source), str(folder), str(size)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )


def test_a_file_cannot_grow(source, folder):
    rotate(source)
    insert(source, [1000] * 30)
    binlog, _ = end_of(source)
    for size in (10_000, 20_000, 200):
        ran = limited(source, folder, size)
        assert ran.returncode == 1
        assert "StorageError" in ran.stderr
        assert "File too large" in ran.stderr
        assert f"start again, it resumes at {binlog}:" in ran.stderr
    run(source, folder)
    same(source, folder)


def test_a_process_with_many_open_files(tmp_path):
    """File descriptors above 1023, which select() cannot take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1200:
        pytest.skip("no process may open so many files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1030)]
    try:
        with pytest.raises(ConnectionLost, match="retry allows for"):
            Receiver("mysql://u:p@127.0.0.1:1/?start=now&retry=0.1", tmp_path).run()
    finally:
        for each in opened:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
