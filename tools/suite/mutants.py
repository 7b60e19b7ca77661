"""Mutants of the core: for a changed operator, number or constant, does a test fail?

A mutant is one change of one line that tests execute. It is run against the test functions that
execute this line, those first that execute the fewest lines in all: they are the quickest and the
nearest. Kernels are left out, since coverage does not see them, and so is the pipeline.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

from tools.suite.arcs import tests_by_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SOURCE: Final = Path("src/tailrace")
_LEFT_OUT: Final = ("spark", "columns/kernels", "testing")
_STEPS: Final = (10, 40)
"""How many test functions are run at first; and then, if the mutant survives these."""
_SECONDS: Final = 900
"""A mutant may loop for ever: a run that takes longer has noticed it."""


@dataclass(frozen=True)
class Mutant:
    """A change, as Cosmic Ray names it, and the line before it."""

    path: str
    line: int
    operator: str
    occurrence: int
    text: str


def mutants(lines: Mapping[tuple[str, int], set[str]], count: int, seed: int) -> Iterator[Mutant]:
    """``count`` random ones: each of a random line, with a random operator that fits there."""
    chance = random.Random(seed)
    paths = sorted({path for path, _ in lines if not path.startswith(_LEFT_OUT)})
    places = [(path, line) for path, line in sorted(lines) if path in paths]
    chance.shuffle(places)
    known: dict[str, dict[int, list[tuple[str, int]]]] = {}
    for path, line in places:
        if path not in known:
            known[path] = _possible(path)
        if count and (possible := known[path].get(line)):
            operator, occurrence = chance.choice(possible)
            text = (_SOURCE / path).read_text(encoding="utf-8").splitlines()[line - 1]
            yield Mutant(path, line, operator, occurrence, text.strip())
            count -= 1


def _possible(path: str) -> dict[int, list[tuple[str, int]]]:
    """By line, the operators that can change it, with the number of the place in the file."""
    found: dict[int, list[tuple[str, int]]] = {}
    nodes = list(ast_nodes(get_ast((_SOURCE / path).read_text(encoding="utf-8"))))
    for name in operator_names():
        operator = get_operator(name)
        if operator.arguments() or "BitOr" in name:  # most of these are in annotations
            continue
        places = (start for node in nodes for start, _ in operator().mutation_positions(node))
        for occurrence, (line, _) in enumerate(places):
            found.setdefault(line, []).append((name, occurrence))
    return found


def killed_by(mutant: Mutant, tests: list[str]) -> str | None:
    """The first of these tests that fails with the mutant; None if all pass."""
    path = _SOURCE / mutant.path
    source = path.read_text(encoding="utf-8")
    changed = mutate_code(source, get_operator(mutant.operator)(), mutant.occurrence)
    if changed is None or source.splitlines()[mutant.line - 1].strip() != mutant.text:
        return "another line"
    path.write_text(changed, encoding="utf-8")
    try:
        done = 0
        for most in _STEPS:
            if part := tests[done:most]:
                if failed := _failed(part):
                    return failed
                done = most
    finally:
        path.write_text(source, encoding="utf-8")
    return None


def _failed(tests: list[str]) -> str | None:
    argv = (sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", *tests)
    # a mutant of the same size in the same second would stay in its file's bytecode
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=_SECONDS, env=environment
        )
    except subprocess.TimeoutExpired:
        return "no end"
    if done.returncode == 0:
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0] if failed else f"exit status {done.returncode}"


def main() -> int:
    """Run mutants, write each with the test that noticed it; 1 if one of --only survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="combined coverage with test functions as contexts")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--into", type=Path, required=True, help="results, as JSON lines")
    parser.add_argument("--only", type=Path, help="results: run the mutants that were killed there")
    given = parser.parse_args()
    lines = tests_by_line(given.data)
    sizes = Counter(test for tests in lines.values() for test in tests)
    if given.only:
        before = [json.loads(line) for line in given.only.read_text().splitlines()]
        wanted = [Mutant(**each["mutant"]) for each in before if each["killed"]]
    else:
        wanted = list(mutants(lines, given.count, given.seed))
    killed = 0
    with given.into.open("a", encoding="utf-8") as results:
        for number, mutant in enumerate(wanted, 1):
            tests = sorted(lines.get((mutant.path, mutant.line), ()), key=lambda each: sizes[each])
            by = killed_by(mutant, tests)
            killed += by is not None
            result: dict[str, Any] = {"mutant": asdict(mutant), "killed": by}
            results.write(json.dumps(result) + "\n")
            results.flush()
            print(
                f"{number}/{len(wanted)} killed {killed}: {mutant.path}:{mutant.line} {by}",
                flush=True,
            )
    return int(bool(given.only) and killed < len(wanted))


if __name__ == "__main__":
    sys.exit(main())
