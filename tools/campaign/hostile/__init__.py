"""Hostile servers, names and files: only typed errors, bounded, nothing written elsewhere.

Each module of `MODULES` gives scenarios (`Scenario`), each of which runs in a process of its own.

./run python -m tools.campaign hostile --size full --seed 1 [--only TEXT]
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Protocol

from tools.campaign.hostile import indexes, lake, names, server
from tools.campaign.hostile.scenario import Outcome, Scenario, attempt

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

SIZES: Final = ("small", "full")


class Module(Protocol):
    """A family of scenarios."""

    def scenarios(self, size: str, seed: int) -> Iterator[Scenario]:
        """Those of a size; which inputs are drawn depends on ``seed`` only."""


MODULES: Final[dict[str, Module]] = {
    "names": names,
    "indexes": indexes,
    "server": server,
    "lake": lake,
}


def scenarios(size: str, seed: int) -> Iterator[Scenario]:
    """The scenarios of all modules, each name led by its module's."""
    for name, module in MODULES.items():
        for each in module.scenarios(size, seed):
            yield Scenario(f"{name}: {each.name}", each.run, each.seconds, each.megabytes)


def run(chosen: Iterable[Scenario]) -> list[Outcome]:
    """Run scenarios one after another."""
    return [attempt(scenario) for scenario in chosen]


def add_arguments(parser: Any) -> None:
    """What the command takes."""
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only scenarios whose name has this text")


def command(given: argparse.Namespace) -> int:
    """Run it as the arguments say, and print what came of it."""
    began = time.monotonic()
    chosen = (each for each in scenarios(given.size, given.seed) if given.only in each.name)
    outcomes = run(chosen)
    failures = [outcome for outcome in outcomes if outcome.failure]
    for outcome in failures:
        print(f"FAILED {outcome.name}: {outcome.failure}", flush=True)
    kinds = Counter(f"{each.name.partition(':')[0]}: {each.ended}" for each in outcomes)
    for kind, count in sorted(kinds.items()):
        print(f"{count:6} {kind}")
    if outcomes:
        slowest = max(outcomes, key=lambda outcome: outcome.seconds)
        largest = max(outcomes, key=lambda outcome: outcome.megabytes)
        print(f"slowest: {slowest.seconds:.1f} s, {slowest.name}")
        print(f"largest: grew by {largest.megabytes} MB, {largest.name}")
    print(f"seed {given.seed}: {len(outcomes)} scenarios in {time.monotonic() - began:.0f} s")
    print(f"{len(failures)} failures")
    return int(bool(failures))
