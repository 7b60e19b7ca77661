"""What SELECT gave for each recording of the corpus: its `expected.json`.

Many recordings have equal tables, and one of them holds the tables. In the `expected.json` of the
others, `tables` is the name of that recording's folder.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tools import dumps

if TYPE_CHECKING:
    from pathlib import Path

_FILE = "expected.json"


def load_expected(folder: Path) -> dict[str, Any]:
    """The content of a recording's `expected.json`, with its tables wherever they are held."""
    content: dict[str, Any] = json.loads((folder / _FILE).read_text(encoding="utf-8"))
    if isinstance(content["tables"], str):
        content["tables"] = load_expected(folder.parent / content["tables"])["tables"]
    return content


def write_expected(folder: Path, content: dict[str, Any]) -> None:
    """Write a recording's `expected.json`."""
    dumps.write(folder / _FILE, content)


def unshare(corpus: Path) -> None:
    """Give every recording its own tables, so that any recording can be replaced."""
    loaded = {path.parent: load_expected(path.parent) for path in corpus.glob(f"*/{_FILE}")}
    for folder, content in loaded.items():
        write_expected(folder, content)


def share(corpus: Path) -> None:
    """Keep equal tables once: in the first recording by name that has them."""
    holders: dict[str, str] = {}
    for path in sorted(corpus.glob(f"*/{_FILE}")):
        folder, content = path.parent, load_expected(path.parent)
        holder = holders.setdefault(json.dumps(content["tables"]), folder.name)
        if holder != folder.name:
            content["tables"] = holder
        write_expected(folder, content)
