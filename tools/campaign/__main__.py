"""Campaigns from the command line.

./run python -m tools.campaign differential --schemas 500 --seed 1 [--spark-every 50]
./run python -m tools.campaign differential --schemas 0 --values full --seed 1
./run python -m tools.campaign badinput --minutes 5 --seed 1
./run python -m tools.campaign badinput --verdicts 500000 --seed 1
./run python -m tools.campaign badinput --endings 1
./run python -m tools.campaign written --size full --seed 1
./run python -m tools.campaign killed --size full --seed 1
./run python -m tools.campaign live --size full --seed 1
./run python -m tools.campaign received --size full --seed 1
./run python -m tools.campaign served --size full --seed 1
./run python -m tools.campaign zeroloss --size full --seed 1
./run python -m tools.campaign mirrored --size full --seed 1
./run python -m tools.campaign hostile --size full --seed 1
./run python -m tools.campaign applied --size full --seed 1
./run python -m tools.campaign logins --size full --seed 1
./run python -m tools.campaign searched --size full --seed 1
./run python -m tools.campaign indexed [--spark] --size full --seed 1
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from tools.campaign import (
    applied,
    badinput,
    characters,
    differential,
    documents,
    endings,
    hostile,
    indexed,
    killed,
    live,
    logins,
    mirrored,
    received,
    searched,
    served,
    verdicts,
    written,
    zeroloss,
)
from tools.campaign.report import Report, conclude
from tools.servers import NAMES, Server

if TYPE_CHECKING:
    from types import ModuleType

_OF_SERVERS: Final[dict[str, ModuleType]] = {
    "applied": applied,
    "hostile": hostile,
    "indexed": indexed,
    "live": live,
    "logins": logins,
    "mirrored": mirrored,
    "received": received,
    "searched": searched,
    "served": served,
    "zeroloss": zeroloss,
}

_VALUES: Final[dict[str, tuple[int | None, int]]] = {"small": (60, 2), "full": (None, 500)}
"""Codes of each character set (None: all), and rounds of documents."""


def main() -> int:
    """Run a campaign; gives 1 where something failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.campaign",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    differ = commands.add_parser("differential", help="random schemas on real servers")
    differ.add_argument("--schemas", type=int, default=500, help="schemas on each server")
    differ.add_argument("--first", type=int, default=0, help="number of the first")
    differ.add_argument("--seed", type=int, default=1)
    differ.add_argument("--server", action="append", choices=NAMES, help="only this one")
    differ.add_argument("--spark-every", type=int, default=0, help="read every n-th by Spark, too")
    differ.add_argument(
        "--second-every", type=int, default=0, help="run every n-th's SQL on a second server"
    )
    sizes = sorted(_VALUES)
    differ.add_argument("--values", choices=sizes, default="small", help="character sets, JSON")
    bad = commands.add_parser("badinput", help="broken logs")
    bad.add_argument("--minutes", type=float, default=5)
    bad.add_argument("--seed", type=int, default=1)
    bad.add_argument("--verdicts", type=int, help="compare the two paths on so many small logs")
    bad.add_argument("--endings", type=int, metavar="N", help="cut small logs at one in N places")
    bad.add_argument("--first", type=int, default=0, help="number of the first")
    writes = commands.add_parser("written", help="logs written anew, taken by real servers")
    writes.add_argument("--size", choices=written.SIZES, default="small")
    writes.add_argument("--schemas", type=int, help="schemas on each server, whatever the size")
    writes.add_argument("--first", type=int, default=0, help="number of the first")
    writes.add_argument("--seed", type=int, default=1)
    writes.add_argument("--server", action="append", choices=NAMES, help="only this one")
    kills = commands.add_parser("killed", help="writers that are killed")
    kills.add_argument("--size", choices=killed.SIZES, default="small")
    kills.add_argument("--seed", type=int, default=1)
    for name, of_servers in _OF_SERVERS.items():
        of_servers.add_arguments(commands.add_parser(name, help=_first_line(of_servers)))
    given = parser.parse_args()
    run = {
        "differential": _differential,
        "badinput": _bad_input,
        "written": _written,
        "killed": _killed,
        **{name: of_servers.command for name, of_servers in _OF_SERVERS.items()},
    }
    return int(run[given.command](given))


def _first_line(module: ModuleType) -> str:
    return (module.__doc__ or "").partition("\n")[0]


def _differential(given: argparse.Namespace) -> int:
    plan = differential.Plan(
        given.schemas,
        given.seed,
        given.first,
        spark_every=given.spark_every,
        second_every=given.second_every,
    )
    codes, rounds = _VALUES[given.values]
    reports = []
    values: list[list[Report]] = [[], []]
    for name in given.server or NAMES:
        with Server(name) as server:
            reports.append(differential.run(server, plan))
            values[0].append(characters.run(server, given.seed, codes))
            values[1].append(documents.run(server, given.seed, rounds))
    failed = conclude(differential.HEADER, reports)
    for kind, found in zip((characters, documents), values, strict=True):
        for report in found:
            for failure in report.failures:
                print(f"FAILED {report.cells()[0]}: {failure}")
        failed |= conclude(f"\n{kind.HEADER}", found)
    return failed


def _written(given: argparse.Namespace) -> int:
    size = written.SIZES[given.size]
    plan = replace(size, seed=given.seed, first=given.first)
    if given.schemas:
        plan = replace(plan, schemas=given.schemas)
    reports = [written.run(name, plan) for name in given.server or NAMES]
    return conclude(written.HEADER, reports)


def _killed(given: argparse.Namespace) -> int:
    began = time.monotonic()
    reports = killed.run(killed.SIZES[given.size], given.seed)
    for failure in [failure for report in reports for failure in report.failures]:
        print(f"FAILED {failure}")
    kills, seconds = sum(report.kills for report in reports), time.monotonic() - began
    return conclude(killed.HEADER, reports, f"seed {given.seed}: {kills} kills in {seconds:.0f} s")


def _verdicts(given: argparse.Namespace) -> int:
    say = partial(print, flush=True)
    if given.endings:
        report = endings.run(given.seed, given.endings, say=say)
    else:
        report = verdicts.run(given.seed, given.verdicts, first=given.first, say=say)
    print(report.line())
    for counts in (report.outcomes, report.kinds):
        for what, count in counts.most_common():
            print(f"{count:8} {what}")
    return int(bool(report.differences))


def _bad_input(given: argparse.Namespace) -> int:
    if given.verdicts or given.endings:
        return _verdicts(given)
    report = badinput.run(given.seed, seconds=60 * given.minutes, first=given.first)
    return report.conclude(f"{report.tried} broken logs in {report.seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
