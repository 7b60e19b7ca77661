"""Every example of the guide runs, and prints what the guide says that it prints."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import FreshServer

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "guide").glob("*.md"))
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


def run(language: str, text: str, namespace: dict[str, object], folder: Path) -> str:
    """Run one example; what it printed."""
    if language == "sh":
        tailrace = Path(sys.executable).with_name("tailrace")
        done = subprocess.run(
            ["/bin/sh", "-euc", f'tailrace() {{ "{tailrace}" "$@"; }}\n{text}'],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
    output = StringIO()
    with redirect_stdout(output):
        exec(compile(text, "<guide>", "exec"), namespace)
    return output.getvalue()


def test_there_is_a_guide() -> None:
    assert PAGES
    assert all(blocks(page) for page in PAGES)


def local(text: str, port: int) -> str:
    """An example with the port that the tests' server has."""
    return text.replace("127.0.0.1:3306", f"127.0.0.1:{port}").replace("port=3306", f"port={port}")


@pytest.mark.filterwarnings("ignore::tailrace.writing.recover.LogRecovered")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_server: FreshServer
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    port = 0
    if page.stem == "live":
        port = fresh_server("mysql-9.7", {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}).port
    namespace: dict[str, object] = {"__name__": "guide"}
    for language, example, printed in blocks(page):
        text = local(example, port) if port else example
        output = run(language, text, namespace, tmp_path)
        if printed is not None:
            assert output == printed, text
