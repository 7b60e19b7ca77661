"""One hostile scenario in a process of its own, and what may come of it.

It may succeed, or end with one error of Tailrace's tree on one line: in bounded time and memory,
and with nothing written, changed or removed outside the folder that it was given.
"""

from __future__ import annotations

import hashlib
import math
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark import cloudpickle

from tailrace.errors import TailraceError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from multiprocessing.connection import Connection

_FORKS: Final = multiprocessing.get_context("forkserver")
"""Processes are forked from one that has done nothing yet: what has threads is not to be forked."""
_FORKS.set_forkserver_preload(
    [
        "tools.campaign.hostile",  # and what the commands import when they are run
        *(
            f"tailrace.cli.{name}"
            for name in ("log", "receive", "receive_progress", "stat", "text")
        ),
        *("tailrace.ahead", "tailrace.replication.semisync.replica", "encodings.idna"),
    ]
)
_PATIENCE: Final = 300.0
_EXIT_STATUSES: Final = (0, 1, 2)
_VICTIMS: Final = (
    "x.000001",
    "x.index",
    "binlog.000001",
    "authorized_keys",
    "victim/binlog.000001",
    "victim/part-000003-000000-0123456789ab.parquet",
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
    argv = [sys.executable, "-m", "tailrace", *map(str, arguments)]
    done = subprocess.run(argv, check=False, capture_output=True, stdin=subprocess.DEVNULL)
    text = done.stderr.decode("utf-8", "backslashreplace")
    assert "Traceback" not in text, text[-2000:]
    assert done.returncode in accept, f"exit status {done.returncode}: {text[-2000:]}"
    if done.returncode == 2:
        errors = [line for line in text.splitlines() if line.strip()]
        assert len(errors) >= 1, "exit status 2 without a message"
    return text


def flipped(data: bytes, rng: random.Random, pieces: tuple[bytes, ...] = ()) -> bytes:
    """Some bytes changed, taken out, cut off or doubled, or with pieces put in."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(3 + bool(pieces)):
            case 0:
                found[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del found[at : at + rng.randrange(1, 40)]
            case 2:
                found[at:at] = found[: rng.randrange(len(found) + 1)]
            case _:
                found[at:at] = rng.choice(pieces)
    return bytes(found)


def attempt(scenario: Scenario) -> Outcome:
    """Run a scenario in a process of its own."""
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
    reading, writing = _FORKS.Pipe(duplex=False)
    pickled = cloudpickle.dumps(scenario)  # type: ignore[no-untyped-call]
    child = _FORKS.Process(target=_report, args=(pickled, folder, writing))
    child.start()
    writing.close()
    with reading:
        try:
            began = reading.poll(_PATIENCE) and reading.recv()
            if not began or not reading.poll(scenario.deadline):
                assert child.pid is not None
                (os.killpg if began else os.kill)(child.pid, signal.SIGKILL)
                child.join()
                return "late", f"longer than {scenario.deadline:g} s", 0
            ended, failure, grown = reading.recv()
        except EOFError:
            child.join()
            if child.exitcode in {-signal.SIGXCPU, -signal.SIGKILL}:
                return "late", f"more than {scenario.seconds:g} s of the processor's time", 0
            return "ended", f"ended with status {child.exitcode}", 0
    child.join()
    return ended, failure, grown


def _report(pickled: bytes, folder: Path, writing: Connection) -> None:
    """The process of a scenario."""
    os.setsid()
    scenario: Scenario = cloudpickle.loads(pickled)
    writing.send(True)  # it has begun, in a group of its own
    before, most = _largest(), math.ceil(scenario.seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
    ended, failure = _run(scenario, folder)
    writing.send((ended, failure, (_largest() - before) >> 10))
    writing.close()
    os._exit(0)


def _largest() -> int:
    """The most KiB that this process had in memory at any time."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


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
