"""Timing on a shared machine: commands in turn, on one core, medians and ratios by round."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from resource import struct_rusage


@dataclass(slots=True)
class Series:
    """Seconds of one contender, round by round, and the largest memory of its processes."""

    name: str
    seconds: list[float] = field(default_factory=list)
    peak_bytes: int = 0

    @property
    def median(self) -> float:
        """Seconds."""
        return statistics.median(self.seconds)


def pin() -> None:
    """Keep this process, and those it starts, on one core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def run_command(arguments: Sequence[str]) -> tuple[float, int]:
    """Run a command with its output thrown away: wall seconds and peak bytes of memory."""
    start = time.perf_counter()
    usage = _run(arguments)
    return time.perf_counter() - start, usage.ru_maxrss * 1024


_NOT_COMPILED: Final = {"PYTHONDONTWRITEBYTECODE"}


def user_seconds(arguments: Sequence[str]) -> tuple[float, int]:
    """As `command`, but the processor's seconds in user mode, which others disturb less."""
    usage = _run(arguments)
    return usage.ru_utime, usage.ru_maxrss * 1024


def run_for_cpu(arguments: Sequence[str]) -> tuple[float, float]:
    """Run a command with its output thrown away: the processor's seconds, and the wall's."""
    start = time.perf_counter()
    usage = _run(arguments)
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start


def _run(arguments: Sequence[str]) -> struct_rusage:
    # As a program is that was installed: its modules are compiled once, not at each start.
    environment = {key: os.environ[key] for key in os.environ if key not in _NOT_COMPILED}
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{arguments[0]} ended with {process.returncode}")
    return usage


class _Process:
    """A Python process that runs a statement again and again, timed inside, warm."""

    def __init__(self, setup: str, statement: str, interpreter: str = sys.executable) -> None:
        code = (
            "import sys, time\n"
            f"{setup}\n"
            "for _line in sys.stdin:\n"
            "    _start, _cpu = time.perf_counter(), time.process_time()\n"
            f"    {statement}\n"
            "    print(time.process_time() - _cpu, time.perf_counter() - _start, flush=True)\n"
        )
        self._process = subprocess.Popen(
            [interpreter, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def _timed(self, line: str = "") -> tuple[float, float]:
        """One run, which has ``line`` as ``_line``: seconds of the processor and of the wall."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the worker has no pipes")
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        cpu, wall = map(float, self._process.stdout.readline().split())
        return cpu, wall

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


class Worker(_Process):
    """A warm Python process, measured by the wall's seconds and its memory."""

    def __call__(self) -> tuple[float, int]:
        """One run: seconds, and the process's peak memory in bytes so far."""
        _, wall = self._timed()
        return wall, peak_of(self._process.pid)


class CpuWorker(_Process):
    """A warm Python process, measured by the processor's seconds and the wall's."""

    def __call__(self, line: str) -> tuple[float, float]:
        """One run, which has ``line`` as ``_line``: seconds of the processor and of the wall."""
        return self._timed(line)


def peak_of(pid: int) -> int:
    """The largest resident memory of a running process so far, in bytes."""
    with Path(f"/proc/{pid}/status").open() as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def compare(
    contenders: dict[str, Callable[[], tuple[float, int]]], rounds: int
) -> dict[str, Series]:
    """Run all in turn, ``rounds`` times, after one round that does not count."""
    found = {name: Series(name) for name in contenders}
    for number in range(rounds + 1):
        for name, run in contenders.items():
            seconds, peak = run()
            if number:
                found[name].seconds.append(seconds)
            found[name].peak_bytes = max(found[name].peak_bytes, peak)
    return found


def ratio(slow: Series, fast: Series) -> tuple[float, float, float]:
    """How many times as fast, by round: least, median, most."""
    ratios = sorted(a / b for a, b in zip(slow.seconds, fast.seconds, strict=True))
    return ratios[0], statistics.median(ratios), ratios[-1]
