"""`./run python -m tools.campaign differential --schemas 500 --seed 1`; `... badinput --minutes 5`."""

from __future__ import annotations

import argparse
import sys

from tools.campaign import differential
from tools.servers import NAMES, Server


def main() -> int:
    """Run a campaign; gives 1 where something failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.campaign", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    differ = commands.add_parser("differential", help="random schemas on real servers")
    differ.add_argument("--schemas", type=int, default=500, help="schemas on each server")
    differ.add_argument("--first", type=int, default=0, help="number of the first")
    differ.add_argument("--seed", type=int, default=1)
    differ.add_argument("--server", action="append", choices=NAMES, help="only this one")
    given = parser.parse_args()
    failed = 0
    for name in given.server or NAMES:
        with Server(name) as server:
            report = differential.run(server, given.schemas, given.seed, first=given.first)
        print(report.line(), flush=True)
        failed += len(report.failures)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
