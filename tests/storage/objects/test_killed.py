"""Writers to a bucket are killed at random moments; the next one goes on, and nothing is lost."""

import random
import subprocess
import sys

import pytest

import tailrace
from tailrace.storage import find
from tests.recorded import ROOT
from tests.writing.made import FLAVOURS, UUID, check_files, transactions_of

KILLS = 3


@pytest.mark.slow  # alone in this folder: its process builds the server while others need none
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_killed_again_and_again(bucket, flavour):
    """Issue 20, zero-loss landing: nothing but the bucket is there for the next writer."""
    url = f"{bucket.url}/logs"
    chance = random.Random(3)
    last = 0
    for seed in range(KILLS):
        argv = [sys.executable, "-m", "tests.storage.objects.victim", url, flavour, str(seed)]
        with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as victim:
            told = [victim.stdout.readline() for _ in range(chance.randint(1, 40))]
            victim.kill()
            told += victim.stdout.readlines()
        last = int([line for line in told if line.endswith("\n")][-1])
        there = [each for each in transactions_of(url) if each.complete]
        assert [number(each) for each in there] == list(range(1, len(there) + 1))
        assert last <= len(there) <= last + 1  # the last may not have been told
    given = {"server_uuid": UUID} if flavour == "mysql" else {}
    tailrace.append(url, recovered=lambda _: None, **given).close()
    numbers = [number(each) for each in transactions_of(url)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert last <= len(numbers) <= last + 1
    check_files(*files(bucket), restarts=True)
    names = [file.name for file in find(url)[0].files]
    assert len(names) > KILLS / 2
    assert [path.name for path in files(bucket)] == names
    assert all(not path.read_bytes()[21] & 1 for path in files(bucket))
    index = (bucket.folder / "logs/binlog.index").read_text().splitlines()
    assert index == [f"./{name}" for name in names]


def number(transaction):
    gtid = transaction.gtid
    return gtid.gno if hasattr(gtid, "gno") else gtid.seq_no


def files(bucket):
    return sorted((bucket.folder / "logs").glob("binlog.0*"))
