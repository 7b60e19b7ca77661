"""Processes of ours that a campaign kills and starts again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parents[2]
TAILRACE: Final = (sys.executable, "-m", "tailrace")
_PATIENCE: Final = 300.0


class Wrong(AssertionError):
    """What a campaign looks for."""


class Process:
    """A command that runs in the repository; what it prints is added to the file ``log``."""

    def __init__(
        self, log: Path, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self._log = log
        self._command = command
        self._environment = environment or {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def runs(self) -> bool:
        """Whether it was started, and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def running(self) -> subprocess.Popen[bytes]:
        """The process, the first of its group; raises `Wrong` where it ended by itself."""
        if self._process is None or self._process.poll() is not None:
            status = None if self._process is None else self._process.returncode
            raise Wrong(f"{self._name} ended by itself, status {status}: {self.said()[-2000:]}")
        return self._process

    @property
    def _name(self) -> str:
        after = self._command.index("-m") if "-m" in self._command else 0
        return " ".join(self._command[after + 1 : after + 3])

    def said(self) -> str:
        """All that it printed."""
        return self._log.read_text("utf-8", "replace") if self._log.exists() else ""

    def start(self, *more: str) -> None:
        """Start it, with more arguments."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, *more],
                cwd=ROOT,
                env=os.environ | self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> int | None:
        """Kill it if it runs; gives its status."""
        if self._process is None:
            return None
        self._process.kill()
        return self._process.wait()

    def stop(self) -> None:
        """End it as a service manager does. Raises `Wrong`."""
        self.running.send_signal(signal.SIGTERM)
        self.finish("after SIGTERM")

    def wait_for_end(self) -> int | None:
        """Wait until it ends; its status, None if it does not end."""
        try:
            return self._process.wait(_PATIENCE) if self._process is not None else None
        except subprocess.TimeoutExpired:
            return None

    def finish(self, when: str) -> None:
        """Wait until it ends; raises `Wrong` for a status that is not 0."""
        status = self.wait_for_end()
        if status != 0:
            raise Wrong(f"the status of {self._name} {when} is {status}: {self.said()[-2000:]}")

    def wait(self, condition: Callable[[], object], what: str, every: float = 0.01) -> None:
        """Wait until a condition holds; raises `Wrong` where it ends before."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            runs = self.runs
            if condition():
                return
            if not runs or time.monotonic() > deadline:
                _ = self.running
                raise Wrong(f"{self._name} {what} in {_PATIENCE:.0f} s: {self.said()[-2000:]}")
            time.sleep(every)
