"""The examples in the public names' docstrings run as they are."""

from __future__ import annotations

import doctest
import inspect
import shutil
from pathlib import Path

import pytest

import tailrace

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def examples(name):
    """The examples of a public name, and of its methods, as doctests."""
    value = getattr(tailrace, name)
    found = doctest.DocTestFinder(exclude_empty=True)
    return [test for test in found.find(value, name, globs={}) if test.examples]


@pytest.mark.parametrize("name", [each for each in tailrace.__all__ if each != "__version__"])
def test_examples_run(name, tmp_path, monkeypatch):
    if name not in (
        "Table",
        "changes",
        "open",
        "redo",
        "rows",
        "stat",
        "table",
        "transactions",
        "undo",
    ):
        pytest.skip("no example yet")
    assert inspect.getdoc(getattr(tailrace, name))
    shutil.copytree(EXAMPLES / "shop", tmp_path / "examples" / "shop")
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    tests = examples(name)
    assert tests, f"{name} has no example"
    for test in tests:
        report = []
        runner.run(test, out=report.append)
        assert not runner.failures, "".join(report)
