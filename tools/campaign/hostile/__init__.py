"""Hostile servers, names and files: only typed errors, bounded, nothing written elsewhere.

Each module of `MODULES` gives scenarios (`Scenario`), each of which runs in a process of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from tools.campaign.hostile import indexes, lake, names, server
from tools.campaign.hostile.scenario import Scenario, attempt
from tools.campaign.report import Tries

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

SIZES: Final = {"small": "small", "full": "full"}


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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", default="", help="only scenarios whose name has this text")


def reports(given: argparse.Namespace) -> Iterator[Tries]:
    report = Tries("scenarios")
    chosen = (each for each in scenarios(given.size, given.seed) if given.only in each.name)
    outcomes = [attempt(scenario) for scenario in chosen]
    for each in outcomes:
        report.take(each.name, f"{each.name.partition(':')[0]}: {each.ended}", each.failure)
    if outcomes:
        slowest = max(outcomes, key=lambda outcome: outcome.seconds)
        largest = max(outcomes, key=lambda outcome: outcome.megabytes)
        print(f"slowest: {slowest.seconds:.1f} s, {slowest.name}")
        print(f"largest: grew by {largest.megabytes} MB, {largest.name}")
    yield report
