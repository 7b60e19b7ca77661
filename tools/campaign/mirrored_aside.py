"""One lake, many tables, and something wrong with one after another: the others stay the server's.

Each table of `tools.campaign.mirrored_poison` is poisoned between two batches, all in one lake with
tables that are not. Behind each batch every other table is what SELECT says, and each poisoned one
is set aside (or has no current state, by a rule) with a reason that names it. `verify` says so too.
In the end the causes are removed and the tables are taken up again: those that can be are equal.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from tailrace.spark.lake.reading import LakeView
from tailrace.spark.manifest.lake_options import KEEP
from tailrace.spark.verify import verify
from tools.applied import forget
from tools.campaign.mirrored_checks import check_seqs, logged_seqs
from tools.campaign.mirrored_here import mirrored, no_spark
from tools.campaign.mirrored_lake import LakeReader, compare
from tools.campaign.mirrored_poison import DATABASE, POISONS, Poison
from tools.campaign.process import Wrong
from tools.campaign.report import Report
from tools.dumps import dump_databases

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path

    from tailrace.spark import MirrorReport
    from tailrace.spark.manifest.manifest import Manifest
    from tools.servers import Server

_HEALTHY: Final = 4


@dataclass
class Poisoned(Report):
    """What came of one server and format."""

    columns: ClassVar = (
        "Server | Format | Poisoned | set aside | no current state | Batches | Other tables equal |"
        " by verify | Taken up and equal | cannot be"
    )
    server: str
    format: str
    tables: int = 0
    aside: int = 0
    refused: int = 0
    batches: int = 0
    equal: int = 0
    verified: int = 0
    mended: int = 0
    lost: int = 0


def run_poisoned(
    server: Server,
    format: str,  # noqa: A002 - what the command calls it
    rng: random.Random,
    *,
    rounds: int = 2,
    rows: int = 20,
) -> Poisoned:
    """Poison the tables of one lake, on a server of one's own."""
    report = Poisoned(server.name, format)
    with report.in_folder(f"{server.name} {format}") as folder:
        _Run(server, format, folder, rng, report, rows).run(rounds)
    return report


class _Run:
    """One lake."""

    def __init__(
        self,
        server: Server,
        format: str,  # noqa: A002 - what the command calls it
        folder: Path,
        rng: random.Random,
        report: Poisoned,
        rows: int,
    ) -> None:
        self._server = server
        self._format = format
        self._lake = folder / "lake"
        self._rng = rng
        self._report = report
        self._rows = rows
        self._next = 1
        chosen = [
            each for each in POISONS if format in each.formats and server.flavour in each.flavours
        ]
        self._poisons = rng.sample(chosen, len(chosen))
        self._healthy = [f"healthy_{number}" for number in range(_HEALTHY)]
        self._renamed: dict[str, str] = {}

    def run(self, rounds: int) -> None:
        """All of it; raises `Wrong`."""
        server, report = self._server, self._report
        forget(server, DATABASE)
        server.execute(f"CREATE DATABASE {DATABASE}")
        server.execute(f"USE {DATABASE}")
        for name in self._healthy:
            server.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT, t VARCHAR(40))")
        for poison in self._poisons:
            if poison.before:
                server.execute(f"CREATE TABLE {poison.name} ({poison.columns})")
        self._change()
        self._land()
        with ExitStack() as planted:
            for poison in self._poisons:
                self._poison(poison)
                if poison.plant is not None:
                    planted.enter_context(poison.plant(poison.name))
            for number in range(rounds + 1):
                self._change()
                self._land()
                self._check(self._poisons)
                if number == rounds - 1:
                    self._rename()
        self._check_verified()
        report.tables = len(self._poisons)
        report.refused = sum(each.refused for each in self._poisons)
        report.aside = report.tables - report.refused
        for poison in self._poisons:
            if poison.cure is not None:
                poison.cure(self._lake, self._format, poison.name)
        self._land(retry=f"{DATABASE}.*")
        left = [each for each in self._poisons if not each.mends]
        self._check(left)
        self._change()
        self._land()
        self._check(left)
        report.mended = report.tables - len(left)
        report.lost = len(left)
        self._check_changelogs(left)

    # --- the server -------------------------------------------------------------------------------

    def _change(self) -> None:
        """Inserts, updates and deletes in each table."""
        server, first = self._server, self._next
        self._next += self._rows
        names = [*self._healthy, *(each.name for each in self._poisons)]
        there = {str(name) for (name,) in server.query("SHOW TABLES")}
        for name in self._rng.sample(names, len(names)):
            name = self._renamed.get(name, name)  # noqa: PLW2901 - what it is called by now
            if name not in there:
                continue
            values = ", ".join(f"({n}, {n % 7}, 'row {n} ü')" for n in range(first, self._next))
            server.execute(f"INSERT INTO {name} (id, n, t) VALUES {values}")
            if name == "partial":
                doc = f"JSON_OBJECT('a', 1, 'b', '{'long' * 40}')"
                server.execute(f"UPDATE {name} SET doc = {doc} WHERE doc IS NULL")
            server.execute(f"UPDATE {name} SET n = n + 10, t = 'changed' WHERE id % 5 = 0")
            server.execute(f"DELETE FROM {name} WHERE id % 11 = {self._rng.randrange(11)}")
        server.connection.commit()

    def _poison(self, poison: Poison) -> None:
        server = self._server
        if not poison.before:
            server.execute(f"CREATE TABLE {poison.name} ({poison.columns})")
        for statement in poison.sql:
            server.execute(statement.format(table=poison.name))
        server.connection.commit()
        if poison.lake is not None:
            poison.lake(self._lake, self._format, poison.name)

    def _rename(self) -> None:
        for poison in self._poisons:
            if poison.becomes:
                self._server.execute(f"RENAME TABLE {poison.name} TO {poison.becomes}")
                self._renamed[poison.name] = poison.becomes

    # --- the lake ---------------------------------------------------------------------------------

    def _land(self, retry: str | None = None) -> MirrorReport:
        """Mirror what is in the log, in this process; raises `Wrong` where that raises."""
        self._report.batches += 1
        chosen = {"tables": f"{DATABASE}.*", "statements": "skip", "retry_tables": retry}
        data, lake = self._server.data, self._lake
        try:
            return mirrored(data, lake, self._format, spark=None, keep=KEEP, **chosen)
        except Exception as error:
            raise Wrong(f"the mirror ended with {type(error).__name__}: {error}") from error

    def _manifest(self) -> Manifest:
        return LakeView.open(self._lake).manifest

    def _check(self, poisons: Sequence[Poison]) -> None:
        """The poisoned tables are set aside, each with its reason, and all others are equal."""
        manifest = self._manifest()
        expected: dict[str, Poison] = {}
        for each in poisons:
            expected[each.table] = each
            if each.name in self._renamed:
                expected[f"{DATABASE}.{each.becomes}"] = each
        reader = LakeReader(self._lake, self._format)
        for name, state in manifest.tables.items():
            poison = expected.get(name)
            status = state.set_aside
            if poison is None:
                if status is not None:
                    raise Wrong(f"{name} is set aside: {status.reason}")
                continue
            if poison.refused:
                reason = state.current.refused if state.current is not None else None
                if status is not None or reason is None or poison.says not in reason:
                    raise Wrong(f"{name}: refused: {reason}, set aside: {status}")
                continue
            if status is None:
                if poison.becomes and state.dropped:
                    continue
                raise Wrong(f"{name} is not set aside")
            says = poison.says if name == poison.table else "set aside"
            if name not in status.reason or says not in status.reason:
                raise Wrong(f"{name} is set aside, but the reason is: {status.reason}")
        for name, dump in dump_databases(self._server, DATABASE).items():
            if name in expected:
                if name not in manifest.tables:
                    raise Wrong(f"nothing is said of {name}")
                continue
            compare(name, reader.current(name), dump)
            self._report.equal += 1

    def _check_verified(self) -> None:
        server = self._server
        url = f"mysql://root@{server.host}:{server.port}/?ssl_mode=DISABLED"
        found = verify(url, self._lake, spark=no_spark)
        poisoned = {each.table: each for each in self._poisons}
        poisoned |= {f"{DATABASE}.{each.becomes}": each for each in self._poisons if each.becomes}
        for table in found.tables:
            if table.name not in poisoned:
                if not table.compared or table.reason or table.differing:
                    raise Wrong(f"verify: {table.name}: {table.reason}, {table.differing} differ")
                self._report.verified += 1
            elif table.compared or table.reason is None:
                raise Wrong(f"verify compares {table.name}, which is not as the server's")
            elif not poisoned[table.name].refused and "set aside" not in table.reason:
                raise Wrong(f"verify: {table.name}: {table.reason}")

    def _check_changelogs(self, left: Sequence[Poison]) -> None:
        """Of a table that was taken up, no change is missing or there twice."""
        lost = {each.table for each in left if not each.refused}
        wanted = logged_seqs(self._server, tables=f"{DATABASE}.*", exclude=sorted(lost))
        reader = LakeReader(self._lake, self._format)
        for name, seqs in wanted.items():
            check_seqs(name, reader.changelog(name, ["_seq"]), seqs)
