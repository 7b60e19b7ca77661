"""`tailrace search INDEX --serve`, running."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from contextlib import contextmanager

from tests.waiting import DEADLINE


@contextmanager
def served(folder, listen="127.0.0.1:0"):
    """The page's address, of a command of its own, which says nothing else and ends by SIGTERM."""
    command = [sys.executable, "-m", "tailrace", "search", folder, "--serve", listen]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        yield re.fullmatch(r"tailrace: the page is at (http://127\.0\.0\.1:\d+/)\n", line)[1]
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=DEADLINE)
    assert (process.returncode, said) == (0, ""), said
