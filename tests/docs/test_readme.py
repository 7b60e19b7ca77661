"""README stays short, keeps its first commands, and has no figure that the evidence lacks."""

import re
import subprocess

from tests.recorded import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_fits_on_two_screens():
    shown = [line for line in README.splitlines() if not line.startswith(("```", "<!--"))]
    assert len(shown) <= 120


def test_its_first_commands():
    for command in ("./run tailrace mirror examples/shop --into lake", "./run pytest"):
        assert f"```sh\n{command}" in README


def test_run_alone_prints_the_tasks_of_contributing():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tasks = page.partition("## Tasks")[2].partition("```sh\n")[2].partition("```")[0]
    assert len(tasks.splitlines()) == 9
    assert subprocess.check_output([ROOT / "run"], text=True) == tasks


def test_its_figures_are_those_of_the_evidence():
    evidence = (ROOT / "docs/evidence/speed.md").read_text(encoding="utf-8")
    section = README.partition("## How fast")[2].partition("## ")[0]
    figures = re.findall(r"\b\d[\d,.]*\d(?: MB|\b)", section)
    assert len(figures) >= 10
    missing = [figure for figure in figures if not re.search(rf"\b{figure}\b", evidence)]
    assert not missing
