"""The logs that real servers wrote (tests/corpus, examples/shop), and what is known of them."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tests" / "corpus"
SHOP = ROOT / "examples" / "shop"
PROPERTIES = tomllib.loads((CORPUS / "properties.toml").read_text(encoding="utf-8"))


def case_of(folder: Path) -> str:
    """A folder's case: its name without the server."""
    return folder.name.rpartition(".")[2]


def has(folder: Path, *properties: str) -> bool:
    """Whether a folder's case has one of these properties."""
    return any(case_of(folder) in PROPERTIES[name]["cases"] for name in properties)


def folders(*without: str, shop: bool = False) -> list[Path]:
    """The corpus' folders that have none of these properties; with ``shop`` the examples', too."""
    found = sorted({path.parent for path in CORPUS.glob("*/expected.json")})
    if shop:
        found += sorted({path.parent for path in ROOT.glob("examples/shop/*/*.index")})
    return [folder for folder in found if not has(folder, *without)]
