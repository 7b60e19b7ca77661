"""A shell with job control in a terminal of its own, as a user has one."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from tests.waiting import DEADLINE

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHELL: Final = """\
: <"$0"  # the first terminal that the leader of a session opens becomes the session's own
set -emu
while read -r script; do
    . "$script" <"$0" >"$script.out" 2>"$script.err"
    echo done
done
"""


class Terminal:
    """Runs commands in one shell: background jobs and variables outlive the call.

    Standard input and /dev/tty are the terminal, so that the system stops a background job that
    reads it. Output goes to files.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._count = 0
        self._keyboard, terminal = pty.openpty()
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SHELL, os.ttyname(terminal)],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        os.close(terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what is left in the session."""
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.getsid(pid := int(process.name)) == self._shell.pid:
                    os.kill(pid, signal.SIGKILL)
        self._shell.communicate()
        os.close(self._keyboard)

    def run(self, commands: str, *, prompt: str = "", answer: str = "") -> str:
        """What the commands print. AssertionError, with their errors, if one fails.

        When the terminal shows ``prompt``, ``answer`` is typed.
        """
        assert self._shell.stdin and self._shell.stdout  # noqa: PT018
        script = self._folder / f".terminal{self._count}"
        self._count += 1
        script.write_text(commands, encoding="utf-8")
        self._shell.stdin.write(f"{script}\n".encode())
        self._shell.stdin.flush()
        if prompt:
            self._expect(prompt)
            os.write(self._keyboard, f"{answer}\n".encode())
        done = self._shell.stdout.readline()
        assert done, script.with_suffix(".err").read_text(encoding="utf-8")
        return script.with_suffix(".out").read_text(encoding="utf-8")

    def _expect(self, prompt: str) -> None:
        shown = ""
        while prompt not in shown:
            ready, _, _ = select.select([self._keyboard], [], [], DEADLINE)
            assert ready, f"the terminal shows {shown!r}, not {prompt!r}"
            shown += os.read(self._keyboard, 1024).decode()
