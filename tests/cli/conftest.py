"""The command line in this process: its status and what it writes."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

import pytest

from tailrace.cli import main
from tests.recorded import ROOT


class Ran(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def lines(self):
        return [line for line in self.out.split("\n") if line]


@pytest.fixture
def run(monkeypatch, capsys):
    """run("log", path, ...) gives status, stdout and stderr."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["tailrace", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Ran(ended.value.code, out, err)

    return run


@pytest.fixture(scope="session")
def shop():
    return ROOT / "examples" / "shop"


@pytest.fixture(scope="session")
def corpus():
    return ROOT / "tests" / "corpus"


@pytest.fixture
def begin():
    """begin(command, arguments) starts it as a process, which does not outlive the test."""
    begun = []

    def begin(command, *arguments, **settings):
        process = subprocess.Popen(
            [sys.executable, "-m", "tailrace", command, *map(str, arguments)],
            cwd=settings.pop("cwd", ROOT),
            stdout=subprocess.PIPE,
            stderr=settings.pop("stderr", subprocess.PIPE),
            text=True,
            **settings,
        )
        begun.append(process)
        return process

    yield begin
    for process in begun:
        process.kill()
        process.communicate()
