"""A stream of another package: found by its entry point, checked by the suite that is shipped."""

import json
import os
import subprocess
import sys

import pytest

from tests.generators.test_another_package import package
from tests.recorded import ROOT

POINTS = (
    "[tailrace.streams]\n"
    "masked = tests.storage.layers:MASKED\n"
    "wrong = tests.storage.layers:LAYERS\n"
)
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
def run(tmp_path):
    """Runs a program where the package of `tests.storage.layers` is installed."""
    package(tmp_path / "site", "other_streams", "", POINTS)

    def program(code, *arguments):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={"PYTHONPATH": f"{tmp_path / 'site'}{os.pathsep}{ROOT}"},
        )
        assert done.returncode == 0, done.stderr
        return done

    return program


def test_it_is_found_and_stacks(run):
    assert run(CODE).stdout.splitlines() == [
        f"{bytes(each ^ 0x55 for each in bytes.fromhex('28b52ffd')).hex()} b'plain'",
        "wrong: an entry point of 'tailrace.streams' gives a Layer",
        (
            "no stream is called 'missing'; known are buffer, counting, masked, read-ahead, wrong,"
            " zstd. A package adds one by an entry point of the group 'tailrace.streams'"
        ),
        (
            "MaskedInput needs a RandomInput below it; ZstdInput is none (it has no readinto,"
            " size): stack them in another order"
        ),
    ]


def test_it_is_on_files_by_option(run, tmp_path):
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
    lines = run(code, str(tmp_path)).stdout.splitlines()
    assert [json.loads(line)["after"] for line in lines] == [{"a": 5}] * 2
    assert [path.name for path in sorted(tmp_path.glob("?/binlog.0*"))] == [
        "binlog.000001.masked",
        "binlog.000001.masked.zst",
    ]


def test_it_runs_the_suite_that_is_shipped(run):
    """By a test runner that is not ours: unittest."""
    code = (
        "import unittest\n"
        "from tailrace.testing import StreamContract\n"
        "from tests.storage.layers import MASKED\n"
        "class Test(StreamContract, unittest.TestCase):\n"
        "    layer = MASKED\n"
        "unittest.main(verbosity=0)\n"
    )
    said = run(code).stderr
    assert "Ran 6 tests" in said
    assert "pytest" not in said
