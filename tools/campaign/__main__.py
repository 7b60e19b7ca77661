"""Campaigns from the command line.

./run python -m tools.campaign differential --schemas 500 --seed 1 [--spark-every 50]
./run python -m tools.campaign badinput --minutes 5 --seed 1
"""

from __future__ import annotations

import argparse
import sys

from tools.campaign import badinput, differential
from tools.servers import NAMES, Server


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
    bad = commands.add_parser("badinput", help="broken logs")
    bad.add_argument("--minutes", type=float, default=5)
    bad.add_argument("--seed", type=int, default=1)
    bad.add_argument("--first", type=int, default=0, help="number of the first")
    given = parser.parse_args()
    return _differential(given) if given.command == "differential" else _bad_input(given)


def _differential(given: argparse.Namespace) -> int:
    plan = differential.Plan(given.schemas, given.seed, given.first, spark_every=given.spark_every)
    reports = []
    for name in given.server or NAMES:
        with Server(name) as server:
            reports.append(differential.run(server, plan))
    print(differential.HEADER)
    for report in reports:
        print(report.lines())
    return int(any(report.failures for report in reports))


def _bad_input(given: argparse.Namespace) -> int:
    report = badinput.run(given.seed, seconds=60 * given.minutes, first=given.first)
    for failure in report.failures:
        print(f"FAILED {failure}")
    print(f"seed {report.seed}: {report.tried} broken logs in {report.seconds:.0f} s")
    for outcome, count in sorted(report.outcomes.items()):
        print(f"{count:8} {outcome}")
    print(f"{len(report.failures)} failures")
    return int(bool(report.failures))


if __name__ == "__main__":
    sys.exit(main())
