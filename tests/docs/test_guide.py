"""Every block of code in docs/, README and CONTRIBUTING runs, and prints what the page says.

A block of ``python``, ``sh`` or ``sql`` runs in the order of its page, in a folder that holds the
repository's ``examples/`` and a ``run`` in place of the repository's. A block of ``text`` right
after it is what it prints. One that cannot run has a comment before it, `<!-- not run: the reason -->`, and
its page is in `NOT_RUN`. Blocks of other languages show a file.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout, suppress
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pymysql
import pytest

from tests.recorded import ROOT

if TYPE_CHECKING:
    from tests.conftest import FreshServer

PAGES = sorted(
    [
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    ]
)
NOT_RUN = {
    "CONTRIBUTING.md": 4,
    "README.md": 3,
    "docs/design/architecture.md": 1,
    "docs/evidence/apply.md": 1,
    "docs/evidence/badinput.md": 3,
    "docs/evidence/differential.md": 2,
    "docs/evidence/hostile.md": 1,
    "docs/evidence/killed.md": 1,
    "docs/evidence/live.md": 6,
    "docs/evidence/pipeline.md": 3,
    "docs/evidence/search.md": 2,
    "docs/evidence/serve.md": 3,
    "docs/evidence/speed.md": 4,
    "docs/evidence/written.md": 1,
    "docs/guide/applying.md": 2,
    "docs/guide/from-debezium.md": 1,
    "docs/guide/from-flink-cdc.md": 1,
    "docs/guide/lake-history.md": 1,
    "docs/guide/live.md": 1,
    "docs/guide/pipeline.md": 2,
    "docs/guide/search.md": 2,
    "docs/guide/serve.md": 4,
    "docs/guide/storage.md": 1,
    "docs/tutorial.md": 1,
    "examples/README.md": 1,
    "examples/cluster/README.md": 1,
    "examples/pipelines/README.md": 1,
}
"""How many blocks of each page do not run, for the reasons that the page gives."""
RUN = ("python", "sh", "sql")
SHOWN = ("ini", "json", "text", "yaml")
SERVER = {"gtid_mode": "ON", "enforce_gtid_consistency": "ON", "binlog_row_metadata": "FULL"}

_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>.+?) -->\n)?```(?P<language>.*)\n(?P<text>(?s:.*?))^```$",
    re.MULTILINE,
)
_OUTPUT = re.compile(r"\n\n```text\n(?P<text>(?s:.*?))^```$", re.MULTILINE)
_INDENTED = re.compile(r"(?:\A|\n)\n    \S.*")


class Block(NamedTuple):
    language: str
    text: str
    reason: str | None
    printed: str | None
    """What it prints, if the page says so."""


def blocks(page: Path) -> list[Block]:
    """The page's blocks of code, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for block in _BLOCK.finditer(text):
        output = _OUTPUT.match(text, block.end())
        printed = output["text"] if output else None
        found.append(Block(block["language"], block["text"], block["reason"], printed))
    return found


def runnable(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language in RUN and not block.reason]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


_namespace: dict[str, object] = {"__name__": "guide"}
"""The names of a page's examples, each of which goes on from those before."""


def run(block: Block, folder: Path, port: int) -> str:
    """Run one example; what it printed."""
    text = local(block.text, port)
    if block.language == "sh":
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
    if block.language == "sql":
        with pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True) as server:
            for statement in re.findall(r"(\S[^;]*);", text):
                server.cursor().execute(statement)
        return ""
    output = StringIO()
    with redirect_stdout(output):
        exec(compile(text, "<guide>", "exec"), _namespace)
    return output.getvalue()


def local(text: str, port: int) -> str:
    """An example with the port that the tests' server has."""
    return re.sub(r"\b3306\b", str(port), text) if port else text


def _end(pid: Path) -> None:
    """Stop what a page that failed has left running."""
    if pid.exists():
        with suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_blocks_of_code_name_their_language(page: Path) -> None:
    """So that none is missed: neither an indented one nor one of an unknown kind."""
    text = page.read_text(encoding="utf-8")
    assert {block.language for block in blocks(page)} <= {*RUN, *SHOWN}
    assert text.count("\n```") == 2 * len(blocks(page))
    assert not _INDENTED.findall(_BLOCK.sub("", text))


def test_blocks_that_do_not_run_say_why() -> None:
    found = Counter(name(page) for page in PAGES for block in blocks(page) if block.reason)
    assert found == NOT_RUN


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=name)
def test_examples(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fresh_server: FreshServer,
    request: pytest.FixtureRequest,
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "run").write_text('#!/bin/sh\nexec "$@"\n')
    (tmp_path / "run").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    port = 0
    if any("3306" in block.text for block in runnable(page)):
        port = fresh_server("mysql-9.7", SERVER).port
    request.addfinalizer(lambda: _end(tmp_path / "mirror.pid"))
    # A process of its own: Spark's tasks work in the folder in which their session was started.
    with ProcessPoolExecutor(1, get_context("spawn")) as own:
        for block in runnable(page):
            output = own.submit(run, block, tmp_path, port).result()
            if block.printed is not None:
                assert output == block.printed, block.text
