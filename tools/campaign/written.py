"""Random schemas of a real server, written anew by Tailrace, taken by another: the same tables.

A server is changed at random and its log read (see `tools.campaign.workload`); Tailrace writes
those changes as a log of its own, under random options and out of random forms of rows; a second
server of the same release takes that log: by its tool, by its applier, or served by the first one
out of its own index. Both must then hold the same tables: CHECKSUM TABLE, and all of SELECT.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from tailrace.constants import Flavour
from tailrace.storage import LogSeries
from tailrace.storage.file import LogFile
from tools.applied import (
    ApplyFailed,
    as_relay_log,
    by_tool,
    differences,
    forget,
    gtid_mode,
    insert_files,
    replicate,
)
from tools.campaign.report import SchemasReport
from tools.campaign.workload import Workload
from tools.campaign.written_manner import Manner, Written, full_images, parse_again, write
from tools.servers import NAMES, Server

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from tools.applied.target import GtidMode
    from tools.campaign.workload import Recorded

Way = Literal["tool", "relay log", "served by position", "served by GTID"]

SERVERS: Final = NAMES
_END: Final = "end_of_logs"


@dataclass
class WrittenReport(SchemasReport):
    """What a campaign on one release came to."""

    columns: ClassVar = (
        "Server | Seed | Schemas | Tables | Types | Rows at the end | Written | Taken by | Seconds"
    )
    counts: Counter[str] = field(default_factory=Counter)

    def cells(self) -> list[object]:
        ways = ", ".join(f"{way} {count}" for way, count in sorted(self.ways.items()))
        written = ", ".join(f"{what} {count}" for what, count in sorted(self.counts.items()))
        counts = [self.schemas, self.tables, len(self.types), self.rows]
        return [self.server, self.seed, *counts, written, ways, f"{self.seconds:.0f}"]


@dataclass(frozen=True)
class Plan:
    """So many schemas from ``first`` on; every n-th is served by the origin (0: none is).

    After ``seconds`` no further schema is begun.
    """

    schemas: int
    seed: int = 1
    first: int = 0
    served_every: int = 20
    seconds: float = float("inf")


SIZES: Final = {
    "small": Plan(40, served_every=5, seconds=12),
    "full": Plan(400, served_every=25),
}
"""Campaigns by size: the small one ends within a minute on three servers."""


def server_options(name: str) -> list[str]:
    """What a server needs for this."""
    mysql = ["--gtid-mode=ON_PERMISSIVE", "--enforce-gtid-consistency=ON"]
    return ["--relay-log=relay", *(mysql if name.startswith("mysql") else [])]


class Campaign:
    """An origin and a taker of one release, both started with `server_options`, of two ids."""

    def __init__(self, origin: Server, taker: Server, plan: Plan) -> None:
        self.origin = origin
        self.taker = taker
        self.plan = plan
        self.report = WrittenReport(f"{origin.name} ({origin.version})", plan.seed)
        self._workload = Workload(origin)

    def run(self) -> WrittenReport:
        """Write and compare schemas; failures are noted, and the rest goes on."""
        began = time.monotonic()
        plan = self.plan
        for number in range(plan.first, plan.first + plan.schemas):
            if time.monotonic() - began > plan.seconds:
                break
            self.one(number)
        self.report.seconds = time.monotonic() - began
        return self.report

    def one(
        self, number: int, *, manner: Manner | None = None, way: Way | None = None
    ) -> list[str]:
        """Write and compare one schema; gives what went wrong.

        ``manner`` and ``way`` are random ones where they are not given.
        """
        plan = self.plan
        rng = random.Random(f"written/{plan.seed}/{self.origin.name}/{number}")
        manner = manner or Manner.choose(rng, Flavour(self.origin.flavour))
        way = way or self._way(rng, number, manner)
        folder = Path(tempfile.mkdtemp(prefix="tailrace-written-"))
        try:
            with self._workload.record(plan.seed, number, full_images) as recorded:
                self.report.count(recorded)
                what = f"{recorded.label}, {way}, {manner}"
                before = len(self.report.failures)
                with self.report.noting(what):
                    found = self._compare(recorded, manner, way, folder)
                    self.report.failures += [f"{what}: {line}" for line in found]
                return self.report.failures[before:]
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _way(self, rng: random.Random, number: int, manner: Manner) -> Way:
        every = self.plan.served_every
        if not every or number % every != every - 1:
            return rng.choice(("tool", "relay log"))
        if manner.gtids == "anonymous":
            return "served by position"
        return rng.choice(("served by position", "served by GTID"))

    def _compare(self, recorded: Recorded, manner: Manner, way: Way, folder: Path) -> list[str]:
        database = next(iter(recorded.tables)).partition(".")[0]
        databases = [database]
        forget(self.taker, database, _END)
        gtid_mode(self.taker, "ON_PERMISSIVE")
        try:
            if way.startswith("served"):
                databases += self._serve(recorded, manner, folder, by_gtid=way.endswith("GTID"))
            else:
                files = self._write(recorded.series, manner, folder).files
                way = self._take(recorded, files, way)
            self.report.ways[way] += 1
            if manner.form != "rows":
                parse_again(self.origin, recorded)
            twins = [f"{name.partition('.')[2]}twin" for name in recorded.tables]
            return differences(self.origin, self.taker, *databases, besides=twins)
        finally:
            forget(self.taker, *databases, _END)
            for own in databases[1:]:
                self.origin.execute(f"DROP DATABASE {own}")

    def _take(self, recorded: Recorded, files: list[Path], way: Way) -> Way:
        """By tool or as relay log; the way that it went.

        Where the tool's output is refused, but that of the origin's own log is, too (MariaDB: XA
        COMMIT of what its client rolled back), it goes as relay log.
        """
        if way == "relay log":
            as_relay_log(self.taker, files)
            return way
        try:
            by_tool(self.taker, files)
        except ApplyFailed:
            if self._own_is_taken(recorded):
                raise
            as_relay_log(self.taker, files)
            self.report.ways["(tool rejects the origin's own log, too)"] += 1
            return "relay log"
        return way

    def _own_is_taken(self, recorded: Recorded) -> bool:
        """Whether the tool's output of the origin's own log is taken; the taker forgets it all."""
        database = next(iter(recorded.tables)).partition(".")[0]
        forget(self.taker, database)
        try:
            by_tool(self.taker, [Path(file.path) for file in recorded.series.files])
        except ApplyFailed:
            return False
        finally:
            forget(self.taker, database)
        return True

    def _write(self, series: LogSeries, manner: Manner, folder: Path, gtids: str = "") -> Written:
        written = write(series, manner, folder, self.origin, gtids=gtids)
        self.report.counts.update(written.counts)
        return written

    def _serve(
        self, recorded: Recorded, manner: Manner, folder: Path, *, by_gtid: bool
    ) -> list[str]:
        """Have the origin serve our files and its own; gives the databases of its own.

        Rows by Arrow lie behind files of its own. The others may bring transactions with GTIDs of
        the origin, so that ours lie first, and its own GTIDs go on behind them.
        """
        mysql = self.origin.flavour == "mysql"
        copies = [shutil.copy(file.path, folder) for file in recorded.series.files]
        series = LogSeries("random", tuple(LogFile.at(Path(path)) for path in copies))
        own = ["own_after"]
        gtids = ""
        if manner.form == "arrow":
            forget(self.origin)
            own.insert(0, self._own("own_before"))
            variable = "gtid_executed" if mysql else "gtid_binlog_state"
            if manner.gtids != "anonymous":
                gtids = str(self.origin.query(f"SELECT @@GLOBAL.{variable}")[0][0])
            self.origin.rotate()
        files = self._write(series, manner, folder, gtids).files
        if manner.form != "arrow":
            forget(self.origin)
        insert_files(self.origin, files, alone=manner.form != "arrow")
        mode: GtidMode = "ON" if by_gtid else "ON_PERMISSIVE"
        for server in (self.origin, self.taker):
            gtid_mode(server, mode)
        self._own("own_after")
        replicate(self.origin, self.taker, by_gtid=by_gtid)
        return own

    def _own(self, database: str) -> str:
        """Have the origin write something itself."""
        self.origin.execute(f"CREATE DATABASE {database}")
        self.origin.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
        self.origin.execute(f"INSERT INTO {database}.t VALUES (1), (2)")
        return database


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--schemas", type=int, help="schemas on each server, whatever the size")
    parser.add_argument("--first", type=int, default=0, help="number of the first")


def reports(given: argparse.Namespace) -> Iterator[WrittenReport]:
    count = given.schemas or given.size.schemas
    plan = replace(given.size, seed=given.seed, first=given.first, schemas=count)
    for name in given.server:
        options = server_options(name)
        with (
            Server(name, options, server_id=80) as origin,
            Server(name, options, server_id=90) as taker,
        ):
            yield Campaign(origin, taker, plan).run()
