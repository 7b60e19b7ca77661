"""What README says, tried as a new user would: in a fresh clone, and from the wheel.

`./run python -m tools.transcript` runs each command and program of README in both, and writes what
they print to docs/evidence/readme.md. It ends with an error if one of them fails. The server is one
that `tools.servers` starts. Left out are `git clone`, `./run pytest` and `pip install`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.servers import Server
from tools.wheel.installed import ROOT, UV, Failed, built, environment, locked, run

_TARGET: Final = ROOT / "docs" / "evidence" / "readme.md"
_BLOCK: Final = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LEFT_OUT: Final = ("git clone", "./run pytest", "pip install")
_FIRST: Final = 4
_LAST: Final = 3
_WIDTH: Final = 150
_SECONDS: Final = 600
_HEAD: Final = """\
# README, as a new user tries it

`./run python -m tools.transcript` wrote this page. It runs each command and program of README in a
fresh clone, and from the wheel `tailrace[delta]` in a folder that has only a copy of `examples/`.
All ended without an error. Long output is cut. The server is a MySQL 9.7 with two orders; `verify`
waits with `--wait`, as it is typed at once.
"""


@dataclass
class Session:
    """A folder in which a user types, and what was seen there."""

    folder: Path
    path: str
    url: str
    lines: list[str] = field(default_factory=list)

    def shell(self, command: str) -> None:
        """Type a command; one that follows is stopped once the next one has ended."""
        self._say(f"$ {command}")
        begun = time.monotonic()
        done = subprocess.run(
            ["/bin/sh", "-euc", self._local(command)],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        self._show(done.stdout, time.monotonic() - begun)
        if done.returncode:
            raise Failed(f"{command}: status {done.returncode}\n{done.stdout[-3000:]}")

    def follow(self, command: str, then: str) -> None:
        """Type a command that follows, another one next, and Ctrl-C."""
        self._say(f"$ {command} &")
        following = subprocess.Popen(
            ["/bin/sh", "-euc", f"exec {self._local(command)}"],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            self.shell(then)
        finally:
            following.send_signal(signal.SIGINT)
            out, _ = following.communicate(timeout=_SECONDS)
        self._say("$ # Ctrl-C")
        self._show(out)

    def program(self, python: str, text: str) -> None:
        """Run a Python program."""
        for line in text.rstrip().splitlines():
            self._say(f"... {line}" if line.startswith(" ") else f">>> {line}".rstrip())
        command = [*python.split(), "-c", text]
        self._show(run(*command, folder=self.folder, PATH=self.path))

    def _environment(self) -> dict[str, str]:
        return environment() | {"PATH": self.path}

    def _local(self, command: str) -> str:
        return command.replace("mysql://root@127.0.0.1:3306/", self.url)

    def _say(self, line: str) -> None:
        self.lines.append(line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…")

    def _show(self, out: str, seconds: float | None = None) -> None:
        found = out.rstrip().splitlines()
        left = len(found) - _FIRST - _LAST
        if left > 1:
            found[_FIRST:-_LAST] = [f"… {left:,} lines more"]
        for line in found:
            self._say(line)
        if seconds is not None:
            self._say(f"# {seconds:.1f} s")
        self._say("")


def _typed(session: Session, blocks: list[tuple[str, str]], prefix: str) -> str:
    """Type README's blocks; gives the transcript."""
    for language, text in blocks:
        if language == "python":
            session.program(f"{prefix}python", _imported(text, blocks))
            continue
        commands = [
            line.removeprefix("./run ") if not prefix else line
            for line in text.splitlines()
            if not line.startswith(_LEFT_OUT)
        ]
        while commands:
            command = commands.pop(0)
            if command.endswith("--follow"):
                session.follow(command, f"{commands.pop(0)} --wait 120s")
            else:
                session.shell(command)
    return "\n".join(session.lines).rstrip()


def _imported(text: str, blocks: list[tuple[str, str]]) -> str:
    """README's programs continue each other: the first one imports."""
    first = next(text for language, text in blocks if language == "python")
    return text if text == first else f"{first.splitlines()[0]}\n\n{text}"


def main() -> None:
    """Try README in both ways, and write the page."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = [(match[1], match[2]) for match in _BLOCK.finditer(readme)]
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tailrace-readme-")))
        server = stack.enter_context(Server("mysql-9.7"))
        server.execute("CREATE DATABASE shop")
        server.execute("CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(40))")
        server.execute("INSERT INTO shop.orders VALUES (1, 'first'), (2, 'second')")
        url = f"mysql://{server.user}@{server.host}:{server.port}/"
        system = os.environ["PATH"].removeprefix(f"{Path(sys.executable).parent}{os.pathsep}")

        clone = work / "clone"
        run("git", "clone", "--quiet", ROOT, clone, folder=work)
        cloned = _typed(Session(clone, system, url), blocks, "./run ")

        installed, folder = work / "environment", work / "folder"
        run(UV, "venv", "--quiet", installed, folder=work)
        wheel = f"tailrace[delta] @ {built(work).as_uri()}"
        options = ("--quiet", "--python", installed / "bin/python", "--constraints", locked(work))
        run(UV, "pip", "install", *options, wheel, folder=work)
        folder.mkdir()
        run("cp", "-r", ROOT / "examples", folder / "examples", folder=work)
        path = f"{installed / 'bin'}{os.pathsep}{system}"
        from_wheel = _typed(Session(folder, path, url), blocks, "")
    parts = (("In a fresh clone", cloned), ("From the wheel", from_wheel))
    pages = [f"## {title}\n\n```text\n{text}\n```\n" for title, text in parts]
    _TARGET.write_text("\n".join([_HEAD, *pages]), encoding="utf-8")
    print(f"{_TARGET}: {len(cloned.splitlines())} and {len(from_wheel.splitlines())} lines")


if __name__ == "__main__":
    main()
