"""A type checker accepts right calls of the public names, and rejects wrong ones."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CALLS = Path(__file__).with_name("typing_calls.py")
TOP = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_mypy_rejects_wrong_calls_alone():
    """As for a user: without the project's settings, from which the types of others are excluded."""
    options = ("--strict", "--config-file", os.devnull, "--no-pretty", "--hide-error-context")
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--cache-dir", ".mypy_cache/user", str(CALLS)],
        cwd=TOP,  # mypy finds the installed package, whose folder need not be this one
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(
        r"typing_calls\.py:(\d+): error: (.*?)  \[([a-z-]+)\]$", ran.stdout, re.MULTILINE
    )
    expected = [
        (number, code[1])
        for number, line in enumerate(CALLS.read_text(encoding="utf-8").splitlines(), 1)
        if (code := re.search(r"# error: ([a-z-]+)$", line))
    ]
    assert len(expected) > 30
    assert [(int(number), code) for number, _, code in found] == expected, ran.stdout + ran.stderr
