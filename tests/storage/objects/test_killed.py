"""Writers to a bucket are killed at random moments; the next one goes on, and nothing is lost."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import tailrace
from tailrace.errors import StorageError
from tailrace.storage import find
from tests.recorded import ROOT
from tests.writing.made import FLAVOURS, UUID, check_files, transactions_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.storage.objects.conftest import Bucket

KILLS = 4


@pytest.mark.slow  # alone in this folder: its process builds the server while others need none
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_killed_again_and_again(bucket: Bucket, spool: Path, flavour: str) -> None:
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
        assert any(path.is_file() for path in spool.rglob("binlog.0*"))
        try:  # what is visible is whole, from the first transaction on
            there = transactions_of(url)
        except StorageError:
            there = []
        assert all(each.complete for each in there)
        assert [number(each) for each in there] == list(range(1, len(there) + 1))
        if there:
            assert all(not log.read_bytes()[21] & 1 for log in files(bucket))
    given = {"server_uuid": UUID} if flavour == "mysql" else {}
    tailrace.append(url, recovered=lambda _: None, **given).close()
    numbers = [number(each) for each in transactions_of(url)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert last <= len(numbers) <= last + 1  # the last may not have been told
    check_files(*files(bucket), restarts=True)
    assert not any(path.is_file() for path in spool.rglob("*"))
    names = [file.name for file in find(url)[0].files]
    assert len(names) > KILLS / 2
    index = (bucket.folder / "logs/binlog.index").read_text().splitlines()
    assert index == [f"./{name}" for name in names]


def number(transaction) -> int:
    gtid = transaction.gtid
    return gtid.gno if hasattr(gtid, "gno") else gtid.seq_no


def files(bucket: Bucket) -> list[Path]:
    return sorted((bucket.folder / "logs").glob("binlog.0*"))
