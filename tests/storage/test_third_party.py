"""A stream of another package: found by its entry point, checked by the suite that is shipped."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

MODULE = """
from tailrace.storage.streams.base import RandomInput, RandomOutput, needs
from tailrace.storage.streams.layer import Layer
from tailrace.testing import StreamContract

TABLE = bytes(each ^ 0x55 for each in range(256))

class Input:
    def __init__(self, lower):
        needs(lower, RandomInput, "Input")
        self.lower = lower
        self.seek, self.tell, self.size = lower.seek, lower.tell, lower.size
        self.close = lower.close

    def read(self, count):
        return self.lower.read(count).translate(TABLE)

    def readinto(self, view):
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

class Output:
    def __init__(self, lower):
        needs(lower, RandomOutput, "Output")
        self.lower = lower
        self.truncate, self.flush = lower.truncate, lower.flush
        self.sync, self.close = lower.sync, lower.close

    @property
    def size(self):
        return self.lower.size

    def write(self, data):
        self.lower.write(bytes(data).translate(TABLE))

    def update(self, offset, data):
        self.lower.update(offset, bytes(data).translate(TABLE))

LAYER = Layer("masked", Input, Output, suffix=".masked")
NONE = object()

class TestMasked(StreamContract):
    layer = LAYER
"""
POINTS = "[tailrace.streams]\nmasked = other_streams:LAYER\nwrong = other_streams:NONE\n"
CODE = """
from tailrace.errors import UsageError
from tailrace.storage.streams.layer import layer, stacked
from tailrace.testing import FaultyInput, FaultyOutput, check
stacked(["masked", "buffer"]).output(FaultyOutput()).close()
store = FaultyOutput()
out = stacked(["masked", "buffer", "zstd"]).output(store)
out.write(b"plain" * 100)
out.sync()
print(bytes(store.data[:4]).hex(), stacked(["masked", "zstd"]).input(FaultyInput(store.data)).read(5))
check(layer("masked"))
check(stacked(["counting", "masked", "read-ahead"]), seeds=[1])
for name in ("wrong", "missing"):
    try:
        layer(name)
    except UsageError as error:
        print(error)
try:
    stacked(["zstd", "masked"]).input(FaultyInput(b""))
except UsageError as error:
    print(error)
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    info = tmp_path / "site" / "other_streams-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-streams\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    (info.parent / "other_streams.py").write_text(MODULE)
    return info.parent


def test_it_is_found_and_stacks(site: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(site)},
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        f"{bytes(each ^ 0x55 for each in bytes.fromhex('28b52ffd')).hex()} b'plain'",
        "wrong: an entry point of 'tailrace.streams' gives a Layer",
        (
            "no stream is called 'missing'; known are buffer, counting, masked, read-ahead, wrong,"
            " zstd. A package adds one by an entry point of the group 'tailrace.streams'"
        ),
        (
            "Input needs a RandomInput below it; ZstdInput is none (it has no readinto, size):"
            " stack them in another order"
        ),
    ]


def test_it_is_on_files_by_option(site: Path, tmp_path: Path) -> None:
    """WL#10956: a layer of another package is put into the chain of any source and target."""
    code = (
        "import sys, tailrace\n"
        "from tailrace.cli import main\n"
        "folder = sys.argv.pop()\n"
        "table = tailrace.Table.parse('create table d.t (a int primary key)', flavour='mysql')\n"
        "for layers in (['masked'], ['masked', 'zstd']):\n"
        "    target = f'{folder}/{len(layers)}/binlog.000001'\n"
        "    with tailrace.create(target, flavour='mysql', server_id=7, layers=layers) as log:\n"
        "        with log.transaction() as trx:\n"
        "            trx.insert(table, [(5,)])\n"
        "for names in (['masked'], ['masked', 'zstd']):\n"
        "    options = [word for name in names for word in ('--layers', name)]\n"
        "    sys.argv = ['tailrace', 'log', f'{folder}/{len(names)}', '--as', 'json', *options]\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as ended:\n"
        "        assert not ended.code\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(site)},
    )
    assert run.returncode == 0, run.stderr
    assert [json.loads(line)["after"] for line in run.stdout.splitlines()] == [{"a": 5}] * 2
    assert [path.name for path in sorted(tmp_path.glob("?/binlog.0*"))] == [
        "binlog.000001.masked",
        "binlog.000001.masked.zst",
    ]


def test_it_runs_the_suite_that_is_shipped(site: Path) -> None:
    """By a test runner that is not ours: unittest."""
    code = (
        "import unittest, other_streams\n"
        "class Test(other_streams.TestMasked, unittest.TestCase): pass\n"
        "del other_streams\n"
        "unittest.main(verbosity=0)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(site)},
    )
    assert run.returncode == 0, run.stderr
    assert "Ran 6 tests" in run.stderr
    assert "pytest" not in run.stderr
