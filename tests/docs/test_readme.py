"""README stays short, keeps its two commands, and has no figure that the evidence lacks."""

from __future__ import annotations

import re

from tests.recorded import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_fits_on_two_screens() -> None:
    assert len(README.splitlines()) <= 130


def test_its_two_commands() -> None:
    for command in ("./run tailrace mirror examples/shop --into lake", "./run pytest"):
        assert f"```sh\n{command}\n```" in README


def test_its_figures_are_those_of_the_evidence() -> None:
    evidence = (ROOT / "docs/evidence/speed.md").read_text(encoding="utf-8")
    table = README.partition("## How fast")[2].partition("## ")[0]
    cells = " ".join(line for line in table.splitlines() if line.startswith("| "))
    figures = re.findall(r"\d[\d,.]*(?: MB/s| rows/s| MB)?", cells)
    assert len(figures) >= 10
    missing = [figure for figure in figures if not re.search(rf"\b{figure}\b", evidence)]
    assert not missing
