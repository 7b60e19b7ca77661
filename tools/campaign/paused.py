"""A mirror that follows a growing log is stopped by SIGSTOP, at a random moment, and another one
takes over its lake. Continued by SIGCONT, the first ends with an error and commits nothing.

While the first one ends, the second is stopped, too: so nobody else can have changed the lake. The
second is the next to be paused. At the end each changelog has every insert of the log once, and
each current table has its row.

A process that is stopped in a transaction of SQLite, which has the catalogue of an Iceberg lake,
keeps its lock. Then the second ends with an error, until the first is killed.
"""

from __future__ import annotations

import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final

import tailrace
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.manifest.lake_options import FORMATS
from tailrace.spark.manifest.manifest import Manifest
from tailrace.spark.manifest.on_disk import OWN_CATALOG
from tools.campaign.mirrored_lake import LakeReader
from tools.campaign.process import TAILRACE, Process, Wrong
from tools.campaign.report import Report

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

SIZES: Final = {"small": 2, "full": 100}
"""Pauses for each format."""
_TABLES: Final = ("a", "b", "c")
_BETWEEN_SECONDS: Final = 0.02
_BATCHES: Final = 2
"""What the one that takes over commits by itself before the first continues."""


@dataclass
class PausedReport(Report):
    """What came of one format. A mirror was stopped with a batch ``prepared``, or between; or in a
    transaction of SQLite (``locked``).
    """

    columns: ClassVar = "Format | Pauses | prepared | between | locked | Batches | Rows"
    counted: ClassVar = ("prepared", "between", "locked")
    format: str
    places: Counter[str] = field(default_factory=Counter)
    batches: int = 0
    rows: int = 0


class _Log:
    """A log to which a thread commits rows: one into each table."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.rows = 0
        self._log = tailrace.create(folder / "binlog.000001", flavour="mysql", server_id=7)
        self._tables = []
        for name in _TABLES:
            sql = f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT)"
            with self._log.transaction() as transaction:
                transaction.query(sql, "shop")
            self._tables.append(tailrace.Table.parse(sql, database="shop"))
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.wait(_BETWEEN_SECONDS):
            with self._log.transaction() as transaction:
                for table in self._tables:
                    transaction.insert(table, [(self.rows + 1, self.rows)])
            self.rows += 1

    def close(self) -> None:
        """Nothing comes any more."""
        self._ends.set()
        self._thread.join()
        self._log.close()


class _Mirror(Process):
    """A mirror of the log."""

    def __init__(self, folder: Path, number: int, format: str) -> None:  # noqa: A002 - its option
        self.lake = folder / "lake"
        options = ("--format", format, "--follow", "--trigger", "10ms")
        command = [*TAILRACE, "mirror", str(folder / "logs"), "--into", str(self.lake), *options]
        super().__init__(folder / f"output-{number}", command)

    def manifest(self) -> Manifest:
        """What is committed."""
        return LakeView.open(self.lake).manifest if LakeView.is_there(self.lake) else Manifest()

    def send(self, number: signal.Signals) -> None:
        """Send a signal; with SIGSTOP it is stopped on return."""
        self.running.send_signal(number)
        while number == signal.SIGSTOP and _state(self.running.pid) != "T":
            time.sleep(0.001)

    def wait_for_batches(self, count: int) -> None:
        """Wait until so many batches were committed."""
        wanted = self.manifest().version + count
        self.wait(lambda: self.manifest().version >= wanted, "commits nothing")


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123 - no path of ours
        return file.read().rpartition(")")[2].split()[0]


def _visible(lake: Path) -> list[Any] | None:
    """All by which a reader finds rows: the manifest, and each format's own commits.

    None while a process that is stopped has locked the catalogue.
    """
    found: list[Any] = [LakeView.open(lake).manifest]
    found.append(sorted(str(path) for path in lake.glob("*/_delta_log/*.json")))
    with suppress(OSError):
        found.append((lake / "_tailrace" / "now").readlink())
    if (lake / OWN_CATALOG).exists():
        with closing(sqlite3.connect(lake / OWN_CATALOG, timeout=0)) as database:
            try:
                found.append(sorted(database.execute("SELECT * FROM iceberg_tables")))
            except sqlite3.OperationalError:
                return None
    return found


def run(format: str, count: int, seed: int) -> PausedReport:  # noqa: A002 - what the command says
    """Pause mirrors of one format."""
    report = PausedReport(format)
    with report.in_folder(format) as folder:
        mirrors = [_Mirror(folder, number, format) for number in range(count + 1)]
        log = _Log(folder / "logs")
        try:
            _pause_each(mirrors, random.Random(f"{seed}/{format}"), report)
            log.close()
            _check(mirrors[-1], format, log.rows)
            report.rows = log.rows
            report.batches = mirrors[-1].manifest().version
        finally:
            log.close()
            for each in mirrors:
                each.kill()
    return report


def _pause_each(mirrors: list[_Mirror], rng: random.Random, report: PausedReport) -> None:
    mirrors[0].start()
    for first, second in pairwise(mirrors):
        first.wait_for_batches(1)
        if rng.random() < 0.7:  # as it commits
            before = _prepared(first.lake)
            first.wait(lambda: _prepared(first.lake) != before, "prepares nothing", 0.0005)  # noqa: B023
        time.sleep(rng.choice((0, rng.uniform(0, 0.01), rng.uniform(0, 0.1))))
        first.send(signal.SIGSTOP)
        last = max(_prepared(first.lake))
        journal = first.lake / "_tailrace" / "journal"
        done = (journal / last.replace(".jsonl", ".done.jsonl")).exists()
        second.start()
        try:
            second.wait_for_batches(_BATCHES)
        except Wrong:
            if "database is locked" not in second.said():
                raise
            report.places["locked"] += 1
            first.kill()
            second.start()
            continue
        report.places["between" if done else "prepared"] += 1
        if "taking over from another process" not in second.said():
            raise Wrong(f"it does not say that it takes over: {second.said()}")
        second.send(signal.SIGSTOP)
        while (visible := _visible(first.lake)) is None:
            second.send(signal.SIGCONT)
            time.sleep(rng.uniform(0, 0.1))
            second.send(signal.SIGSTOP)
        first.send(signal.SIGCONT)
        status = first.wait_for_end()
        if status != 2 or "another process has taken over the lake" not in first.said():
            raise Wrong(f"the one that was paused ended with {status}: {first.said()[-2000:]}")
        if _visible(first.lake) != visible:
            raise Wrong("the one that was paused has committed")
        second.send(signal.SIGCONT)


def _prepared(lake: Path) -> set[str]:
    """The documents of batches in the journal."""
    names = (path.name for path in (lake / "_tailrace" / "journal").iterdir())
    return {name for name in names if name.count(".") == 1}


def _check(mirror: _Mirror, format: str, rows: int) -> None:  # noqa: A002 - its option
    """The lake has all rows, once."""
    reader = LakeReader(mirror.lake, format)
    names = [f"shop.{name}" for name in _TABLES]

    def has_all() -> bool:
        found = mirror.manifest().tables
        return all(sum(each.rows for each in found[name].changelog) >= rows for name in names)

    mirror.wait(has_all, "has not come to the end", 0.1)
    mirror.stop()
    wanted = list(range(1, rows + 1))
    for name in names:
        changelog, current = reader.changelog(name, ["after"]), reader.current(name)
        if changelog is None or current is None:
            raise Wrong(f"{name} is not there")
        logged = sorted(each["id"] for each in changelog["after"].to_pylist())
        if logged != wanted or sorted(current["id"].to_pylist()) != wanted:
            twice = len(logged) - len(set(logged))
            raise Wrong(
                f"{name}: of {rows} rows the changelog has {len(set(logged))}, {twice} twice; the "
                f"current table has {current.num_rows}"
            )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", action="append", choices=FORMATS, help="only this one")


def reports(given: argparse.Namespace) -> Iterator[Report]:
    for format in given.format or FORMATS:  # noqa: A001 - the command's word
        yield run(format, given.size, given.seed)
