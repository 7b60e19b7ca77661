"""Every block of code in docs/, README and CONTRIBUTING runs, and prints what the page says.

A block of ``python``, ``sh`` or ``sql`` runs in the order of its page, in a folder that holds the
repository's ``examples/`` and a ``run`` in place of the repository's; those of ``sh`` run in one
shell with job control in a terminal. A block of ``text`` right after it is what it prints, but for
spaces, sizes and times. One that cannot run has a comment before it, `<!-- not run: the reason -->`,
and its page is in `NOT_RUN`. Blocks of other languages show a file.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import traceback
from codeop import compile_command
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import pymysql
import pytest

from tests.recorded import ROOT
from tests.terminal import Terminal

PAGES = sorted(
    [
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    ]
)
NOT_RUN = {
    "CONTRIBUTING.md": 5,
    "README.md": 4,
    "docs/design/architecture.md": 1,
    "docs/evidence/alters.md": 1,
    "docs/evidence/apply.md": 4,
    "docs/evidence/badinput.md": 3,
    "docs/evidence/differential.md": 2,
    "docs/evidence/hostile.md": 1,
    "docs/evidence/killed.md": 1,
    "docs/evidence/live.md": 6,
    "docs/evidence/pipeline.md": 7,
    "docs/evidence/search.md": 2,
    "docs/evidence/serve.md": 3,
    "docs/evidence/speed.md": 6,
    "docs/evidence/written.md": 2,
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
_BLANK = re.compile(r"^\n(?= )", re.MULTILINE)
_INDENTED = re.compile(r"(?:\A|\n)\n    \S.*")


class Block(NamedTuple):
    language: str
    text: str
    reason: str | None
    printed: str | None
    """What it prints, if the page says so."""


def blocks(page):
    """The page's blocks of code, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for block in _BLOCK.finditer(text):
        output = _OUTPUT.match(text, block.end())
        printed = output["text"] if output else None
        found.append(Block(block["language"], block["text"], block["reason"], printed))
    return found


def runnable(page):
    return [block for block in blocks(page) if block.language in RUN and not block.reason]


def name(page):
    return str(page.relative_to(ROOT))


_namespace = {"__name__": "guide"}
"""The names of a page's examples, each of which continues those before."""


def run_python(text):
    """Run one example in this process; what it printed."""
    output = StringIO()
    try:
        with redirect_stdout(output):
            exec(compile(text, "<guide>", "exec"), _namespace)
    except Exception:  # noqa: BLE001 - of any kind: those of Spark do not pickle
        raise AssertionError(traceback.format_exc()) from None
    return output.getvalue()


def run_sql(text, port):
    with pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True) as server:
        for statement in re.findall(r"(\S[^;]*);", text):
            server.cursor().execute(statement)
    return ""


def stable(printed):
    """The words of each line without sizes, and up to a time: these vary."""
    varies = re.compile(r"\b\d+\.\d( kB|$| s\b.*)")
    return [varies.sub("", line).split() for line in printed.splitlines()]


def test_blocks_of_code_name_their_language():
    """So that none is missed: neither an indented one nor one of an unknown kind."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert {block.language for block in blocks(page)} <= {*RUN, *SHOWN}, page
        assert text.count("\n```") == 2 * len(blocks(page)), page
        assert not _INDENTED.findall(_BLOCK.sub("", text)), page


def test_blocks_that_do_not_run_say_why():
    found = Counter(name(page) for page in PAGES for block in blocks(page) if block.reason)
    assert found == NOT_RUN


def test_a_prompt_takes_each_line_of_an_example():
    """But for classes: a blank line ends them at the prompt of Python before 3.13."""
    found = (block for page in PAGES for block in blocks(page) if block.language == "python")
    for block in found:
        typed = ""
        for line in _BLANK.sub("", block.text).split("\n"):
            typed += line
            typed = "" if compile_command(typed) else typed + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=name)
def test_examples(
    page,
    tmp_path,
    monkeypatch,
    fresh_server,
):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "run").write_text('#!/bin/sh\nexec "$@"\n')
    (tmp_path / "run").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    found = runnable(page)
    port = 0
    if any("3306" in block.text for block in found):
        port = fresh_server("mysql-9.7", SERVER).port
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with (
        Terminal(tmp_path, {**os.environ, "PATH": path}) as terminal,
        # A process of its own: Spark's tasks work in the folder in which their session was started.
        ProcessPoolExecutor(1, get_context("spawn")) as own,
    ):
        for block in found:
            text = re.sub(r"\b3306\b", str(port), block.text)
            if block.language == "sh":
                output = terminal.run(text)
            elif block.language == "sql":
                output = run_sql(text, port)
            else:
                output = own.submit(run_python, text).result()
            if block.printed is not None:
                assert stable(output) == stable(block.printed), block.text
