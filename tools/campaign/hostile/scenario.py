"""One hostile scenario in a process of its own, and what may come of it.

It may succeed, or end with one error of Tailrace's tree on one line: in bounded time and memory,
and with nothing written, changed or removed outside the folder that it was given.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.errors import TailraceError

if TYPE_CHECKING:
    from collections.abc import Callable

_PATIENCE: Final = 60.0
_EXIT_STATUSES: Final = (0, 1, 2)
_VICTIMS: Final = (
    "x.000001",
    "x.index",
    "binlog.000001",
    "authorized_keys",
    "victim/binlog.000001",
)


@dataclass(frozen=True)
class Scenario:
    """``run`` gets an empty folder to work in; `outside` of it is what it may not touch.

    ``seconds`` bounds the processor's time of the process and of each that it starts,
    ``megabytes`` what it may grow by. ``patience`` are the seconds by the clock after which it
    hangs: many, as a machine may have other work.
    """

    name: str
    run: Callable[[Path], None]
    seconds: float = 10
    megabytes: int = 400
    patience: float = 0

    @property
    def deadline(self) -> float:
        """Seconds by the clock."""
        return self.patience or max(_PATIENCE, 3 * self.seconds)


@dataclass(frozen=True)
class Outcome:
    """What came of a scenario; ``failure`` is empty where that is as it should be."""

    name: str
    ended: str
    seconds: float
    megabytes: int
    failure: str = ""


def outside(folder: Path) -> Path:
    """The folder of files that no scenario may touch, next to the one it was given."""
    return folder.parent / "outside"


def command(*arguments: str | Path, accept: tuple[int, ...] = _EXIT_STATUSES) -> str:
    """Run ``tailrace`` with these arguments; gives what it printed to its standard error.

    Raises AssertionError for a traceback, an exit status that is not in ``accept`` (a signal is
    negative), and an error of more than one line.
    """
    argv = [sys.executable, "-m", "tailrace.cli", *map(str, arguments)]
    done = subprocess.run(argv, check=False, capture_output=True, stdin=subprocess.DEVNULL)
    text = done.stderr.decode("utf-8", "backslashreplace")
    assert "Traceback" not in text, text[-2000:]
    assert done.returncode in accept, f"exit status {done.returncode}: {text[-2000:]}"
    if done.returncode == 2:
        errors = [line for line in text.splitlines() if line.strip()]
        assert len(errors) >= 1, "exit status 2 without a message"
    return text


def attempt(scenario: Scenario) -> Outcome:
    """Run a scenario in a forked process."""
    with tempfile.TemporaryDirectory(prefix="tailrace-hostile-") as name:
        root = Path(name).resolve()
        folder = root / "work"
        folder.mkdir()
        for victim in _VICTIMS:
            path = outside(folder) / victim
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("not yours")
        before = _contents(root, folder)
        began = time.monotonic()
        ended, failure, megabytes = _child(scenario, folder)
        seconds = time.monotonic() - began
        after = _contents(root, folder)
        changed = sorted(map(str, {path for path, _ in before ^ after}))
        if not failure and changed:
            failure = f"touched outside of its folder: {', '.join(changed)}"
        if not failure and megabytes > scenario.megabytes:
            failure = f"grew by {megabytes} MB, and {scenario.megabytes} are allowed"
        return Outcome(scenario.name, ended, seconds, megabytes, failure)


def _contents(root: Path, folder: Path) -> set[tuple[Path, str]]:
    """Every path below ``root`` but those in ``folder``, with what it holds."""
    found = set()
    for path in root.rglob("*"):
        if folder not in path.parents and path != folder:
            held = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            found.add((path, held))
    return found


def _child(scenario: Scenario, folder: Path) -> tuple[str, str, int]:
    """Give how it ended, what is wrong with that, and the megabytes by which it grew."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setsid()
        most = math.ceil(scenario.seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
        result = json.dumps(_run(scenario, folder)).encode()
        os.write(writing, result)
        os._exit(0)
    os.close(writing)
    said, late = b"", False
    end = time.monotonic() + scenario.deadline
    with open(reading, "rb", buffering=0) as pipe:  # noqa: PTH123 - a descriptor
        while not late:
            ready, _, _ = select.select([pipe], [], [], max(0, end - time.monotonic()))
            late = not ready
            piece = pipe.read(1 << 16) if ready else b""
            if not piece:
                break
            said += piece
    if late:
        os.killpg(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    grown = max(0, usage.ru_maxrss - _resident()) >> 10
    if late:
        return "late", f"longer than {scenario.deadline:g} s", grown
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in {signal.SIGXCPU, signal.SIGKILL}:
        return "late", f"more than {scenario.seconds:g} s of the processor's time", grown
    if not said:
        return "ended", f"ended with status {status}", grown
    ended, failure = json.loads(said)
    return ended, failure, grown


def _resident() -> int:
    """KiB of this process in memory: what a forked one begins with."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 10


def _run(scenario: Scenario, folder: Path) -> tuple[str, str]:
    """In the child: how it ended, and what is wrong with that."""
    try:
        scenario.run(folder)
    except TailraceError as error:
        lines = str(error).splitlines()
        failure = "" if len(lines) == 1 else f"an error of {len(lines)} lines: {error}"
        return type(error).__name__, failure
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        return type(error).__name__, "".join(traceback.format_exception(error))[-2000:]
    return "no error", ""
