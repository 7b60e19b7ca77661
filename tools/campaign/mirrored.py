"""A mirror that follows a server under load, and is killed: the lake is the server's, exactly.

`tailrace mirror --follow --keep changelog,current,history` runs as a process against a server under
a random load with DDL, and is killed by SIGKILL: as it starts, some time after a batch, or as it
commits. The next goes on. Now and then the load pauses, and what SELECT says is noted. At the end
the load stops, the last mirror comes to the end of the log and is ended by SIGTERM. Then

- each current table is what SELECT says, and `tailrace verify` says that too;
- each changelog has every change that the server's own mysqlbinlog counts, once, and played back
  it makes the table;
- each history, at every moment that was noted, is what SELECT said then.

With ``--poison`` one table after another is poisoned instead (`tools.campaign.mirrored_aside`), and
the others have to stay what SELECT says.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from tailrace.spark.manifest.lake_options import FORMATS, KEEP
from tools.campaign.mirrored_aside import run_poisoned
from tools.campaign.mirrored_checks import MARKS, Found, Moments, check
from tools.campaign.mirrored_process import PLACES, Mirror
from tools.campaign.process import Wrong
from tools.campaign.report import Report
from tools.load import Load
from tools.servers import NAMES, Server

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

SERVERS: Final = NAMES
_OPTIONS: Final = {"binlog_row_metadata": "FULL", "max_binlog_size": "4M"}
_BETWEEN_SECONDS: Final = 0.7
"""What the load does between two moments."""


@dataclass(frozen=True)
class Size:
    """How often the mirror of each server and format is killed, and the load meanwhile.

    ``all_servers``: each format with each server; else one of them each.
    """

    kills: int
    moments: int
    rate: float = 40
    large: float = 0.3
    all_servers: bool = True
    actions: int = 0
    """What the load does at least, however soon the kills are done."""
    poisoned: tuple[int, int, int] = (1, 1, 12)
    """With ``--poison``: lakes of each, batches with poisoned tables, rows of a change."""


SIZES: Final = {
    "small": Size(1, 2, rate=20, large=0, all_servers=False, actions=80),
    "equal": Size(0, 20),
    "full": Size(34, 20, poisoned=(2, 3, 200)),
}
"""On three servers the full size is a hundred kills of each format; ``equal`` kills nothing."""


@dataclass
class MirroredReport(Report):
    """What came of one server and format."""

    columns: ClassVar = (
        "Server | Format | Kills | in its start | in a batch | in a commit | prepared |"
        " Seconds each | Batches | Tables equal | by verify | rejected | Changes |"
        " Changelogs replayed | Moments | Rows at these"
    )
    server: str
    format: str
    places: Counter[str] = field(default_factory=Counter)
    killing: float = 0.0
    batches: int = 0
    found: Found = field(default_factory=Found)

    def cells(self) -> list[object]:
        found, kills = self.found, self.places.total()
        cells = [self.server, self.format, kills, *(self.places[place] for place in PLACES)]
        cells.append(f"{self.killing / kills:.1f}" if kills else "")
        cells += [self.batches, found.tables, found.verified, found.refused, found.changes]
        return [*cells, found.replayed, found.moments, found.versions]


def run(name: str, format: str, size: Size, seed: int) -> MirroredReport:  # noqa: A002
    """Follow one server into a lake of one format, with kills, and look at what is there then."""
    report = MirroredReport(name, format)
    rng = random.Random(f"{seed}/{name}/{format}")
    folder = Path(tempfile.mkdtemp(prefix="tailrace-mirrored-"))
    with Server(name, _OPTIONS) as server:
        mirror = Mirror(server, format, folder, keep=KEEP)
        try:
            with Load(server, seed=seed, rate=size.rate, large=size.large, huge=0) as load:
                moments = _under_load(server, mirror, load, size, rng, report)
            _come_to_the_end(server, mirror)
            mirror.stop()
            report.batches = mirror.manifest().version
            report.found = check(server, mirror, moments)
        except Wrong as error:
            report.failures.append(f"{name} {format}, {report.places.total()} kills: {error}")
        finally:
            mirror.kill()
        if report.failures:
            shutil.copytree(server.data, folder / "server", ignore=shutil.ignore_patterns("#*"))
            print(f"left in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return report


def _under_load(
    server: Server,
    mirror: Mirror,
    load: Load,
    size: Size,
    rng: random.Random,
    report: MirroredReport,
) -> Moments:
    """Kill, and note moments between."""
    moments = Moments(server)
    mirror.start()
    rounds = max(size.kills, 1)
    for number in range(rounds):
        if size.kills:
            began = time.monotonic()
            report.places[mirror.start_and_kill(rng)] += 1
            report.killing += time.monotonic() - began
        while len(moments.noted) < size.moments * (number + 1) // rounds:
            time.sleep(_BETWEEN_SECONDS)
            moments.note(load)
    while load.counts.total() < size.actions:
        time.sleep(_BETWEEN_SECONDS)
    return moments


def _come_to_the_end(server: Server, mirror: Mirror) -> None:
    """Wait until a row that is inserted when the load is over is in the lake."""
    server.execute(f"CREATE DATABASE {MARKS}")
    server.execute(f"CREATE TABLE {MARKS}.last (n INT PRIMARY KEY) ENGINE=InnoDB")
    server.execute(f"INSERT INTO {MARKS}.last VALUES (1)")
    if not mirror.runs:
        mirror.start()
    mirror.wait(lambda: f"{MARKS}.last" in mirror.manifest().tables, "has not come to the end", 0.1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--poison", action="store_true", help="poison tables, and kill nothing")
    parser.add_argument("--format", action="append", choices=FORMATS, help="only this one")


def pairs(
    size: Size, servers: Sequence[str] | None, formats: Sequence[str] | None
) -> list[tuple[str, str]]:
    """The servers and formats of a campaign."""
    if size.all_servers or servers or formats:
        return [(name, each) for each in formats or FORMATS for name in servers or SERVERS]
    return list(zip(SERVERS, FORMATS, strict=True))


def reports(given: argparse.Namespace) -> Iterator[Report]:
    size, servers = given.size, given.server if len(given.server) < len(SERVERS) else None
    for name, format in pairs(size, servers, given.format):  # noqa: A001 - the command's word
        if not given.poison:
            yield run(name, format, size, given.seed)
            continue
        lakes, rounds, rows = size.poisoned
        with Server(name, {"binlog_row_metadata": "FULL"}) as server:
            for number in range(lakes):
                rng = random.Random(f"{given.seed + number}/{name}/{format}")
                yield run_poisoned(server, format, rng, rounds=rounds, rows=rows)
