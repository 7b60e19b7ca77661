"""Every example of the guide runs, and prints what the guide says that it prints."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout, suppress
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.recorded import ROOT

if TYPE_CHECKING:
    from tests.conftest import FreshServer

PAGES = sorted((ROOT / "docs" / "guide").glob("*.md"))
SERVERS = {
    "live": {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"},
    "pipeline": {"binlog_row_metadata": "FULL"},
}
"""Pages that want a server, and how it is set."""
_BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str, str | None]]:
    """The page's examples in order: language, text, and what it prints (the text block behind)."""
    found = [(match[1], match[2]) for match in _BLOCK.finditer(page.read_text())]
    after = [*found[1:], ("", "")]
    return [
        (language, text, printed if kind == "text" else None)
        for (language, text), (kind, printed) in zip(found, after, strict=True)
        if language != "text"
    ]


_namespace: dict[str, object] = {"__name__": "guide"}
"""The names of a page's examples, each of which goes on from those before."""


def run(language: str, text: str, folder: Path) -> str:
    """Run one example; what it printed."""
    if language == "sh":
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["/bin/sh", "-euc", text],
            cwd=folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
    output = StringIO()
    with redirect_stdout(output):
        exec(compile(text, "<guide>", "exec"), _namespace)
    return output.getvalue()


def test_there_is_a_guide() -> None:
    assert PAGES
    assert all(blocks(page) for page in PAGES)


def local(text: str, port: int) -> str:
    """An example with the port that the tests' server has."""
    return text.replace("127.0.0.1:3306", f"127.0.0.1:{port}").replace("port=3306", f"port={port}")


def _end(pid: Path) -> None:
    """Stop what a page that failed has left running."""
    if pid.exists():
        with suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fresh_server: FreshServer,
    request: pytest.FixtureRequest,
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    port = 0
    if page.stem in SERVERS:
        port = fresh_server("mysql-9.7", SERVERS[page.stem]).port
    request.addfinalizer(lambda: _end(tmp_path / "mirror.pid"))
    # A process of its own: Spark's tasks work in the folder in which their session was started.
    with ProcessPoolExecutor(1, get_context("spawn")) as own:
        for language, example, printed in blocks(page):
            text = local(example, port) if port else example
            output = own.submit(run, language, text, tmp_path).result()
            if printed is not None:
                assert output == printed, text
