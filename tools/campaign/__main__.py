"""Campaigns from the command line: `NAME --help` lists what one takes.

./run python -m tools.campaign differential --schemas 500 --seed 1 [--spark-every 50]
./run python -m tools.campaign differential --schemas 0 --values full --seed 1
./run python -m tools.campaign badinput --minutes 5 --seed 1
./run python -m tools.campaign badinput --verdicts 500000 --seed 1
./run python -m tools.campaign badinput --endings 1
./run python -m tools.campaign NAME --size full --seed 1 [--server mysql-9.7]
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Final

from tools.campaign import (
    alters,
    applied,
    badinput,
    definitions,
    differential,
    hostile,
    indexed,
    killed,
    live,
    logins,
    mirrored,
    names,
    owned,
    paused,
    readers,
    received,
    renamed,
    replicated,
    restarted,
    searched,
    served,
    written,
    zeroloss,
)
from tools.campaign.report import Report, Tries, conclude

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

CAMPAIGNS: Final[dict[str, ModuleType]] = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        *(alters, applied, badinput, definitions, differential, hostile, indexed, killed, live),
        *(logins, mirrored, names, owned, paused, readers, received, renamed, replicated),
        *(restarted, searched, served, written, zeroloss),
    )
}
"""Each gives ``reports``, or has ``run`` (of a server, if it has ``SERVERS``, a size and a seed).
``SIZES``, ``SERVERS`` and ``add_arguments`` are what it takes.
"""


def main() -> int:
    """Run a campaign; gives 1 where something failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.campaign",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="name", required=True)
    for name, module in CAMPAIGNS.items():
        own = commands.add_parser(name, help=(module.__doc__ or "").partition("\n")[0])
        own.add_argument("--seed", type=int, default=1)
        if hasattr(module, "SIZES"):
            own.add_argument("--size", choices=module.SIZES, default="small")
        if hasattr(module, "SERVERS"):
            choices = module.SERVERS
            own.add_argument("--server", action="append", choices=choices, help="only this one")
        if hasattr(module, "add_arguments"):
            module.add_arguments(own)
    given = parser.parse_args()
    module = CAMPAIGNS[given.name]
    if "size" in given:
        given.size = module.SIZES[given.size]
    if "server" in given:
        given.server = given.server or list(module.SERVERS)
    began = time.monotonic()
    reports = []
    for report in _reports(module, given):  # printed as they come, and all in the end
        reports.append(report)
        print(report.line(), flush=True)
        for failure in report.failures:
            print(f"FAILED {failure}", flush=True)
    return conclude(reports, f"seed {given.seed}: {time.monotonic() - began:.0f} s")


def _reports(module: ModuleType, given: argparse.Namespace) -> Iterator[Report | Tries]:
    if hasattr(module, "reports"):
        yield from module.reports(given)
        return
    for server in [(name,) for name in given.server] if "server" in given else [()]:
        found = module.run(*server, given.size, given.seed)
        yield from [found] if isinstance(found, Report | Tries) else found


if __name__ == "__main__":
    sys.exit(main())
