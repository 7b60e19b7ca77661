"""Random ALTER TABLE statements, mirrored: each table is the server's, or it is set aside by name.

A round is a log of many tables. Each has a column of a random type, which may be its key, and
rows. Then it is altered, in a strict ``sql_mode`` or not, once or twice, and rows are inserted,
updated and deleted in between and after. The log becomes lakes of a format in one batch, and in
several. Of each table the current state, and the history's open versions, must be what SELECT
gives. The same logs go to the other targets (`tools.campaign.alters_targets`).
"""

from __future__ import annotations

import random
import re
import shutil
import tempfile
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import pymysql

from tailrace.spark.lake.reading import LakeView
from tailrace.spark.manifest.lake_options import FORMATS
from tools.campaign import alters_statements
from tools.campaign.alters_targets import (
    COPIES,
    Indexer,
    Rejected,
    Targets,
    apply_parts,
    compare_copies,
    copy_tables,
)
from tools.campaign.mirrored_checks import at
from tools.campaign.mirrored_here import mirrored
from tools.campaign.mirrored_lake import LakeReader, compare
from tools.campaign.report import Report
from tools.dumps import dump_table
from tools.dumps import tables as tables_of
from tools.postgres import Postgres, programs
from tools.servers import NAMES, Server

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tailrace.spark.manifest.manifest import TableRows, TableState
    from tools.campaign.alters_statements import Altered
    from tools.dumps import TableDump

SERVERS: Final = NAMES


@dataclass(frozen=True)
class Size:
    """Rounds for each server, and tables in each."""

    rounds: int
    tables: int


SIZES: Final = {"small": Size(1, 40), "full": Size(4, 170)}
DATABASE: Final = "altered"
_OURS: Final = re.compile(r"\b[A-Z]\w*(?:Error|Invalid|Iteration)\b")
"""What only a mistake of ours says."""
_FUTURE: Final = 7_258_118_400_000_000
"""A moment in 2200, in microseconds."""


@dataclass
class Alters(Report):
    """What came of a round."""

    columns: ClassVar = (
        "Server | Format | Metadata | Image | Tables | altered | Equal | set aside | Histories |"
        " set aside"
    )
    server: str
    format: str
    metadata: str
    image: str
    tables: int = 0
    altered: int = 0
    equal: int = 0
    aside: int = 0
    histories: int = 0
    histories_aside: int = 0


@dataclass
class Round:
    """A round's tables, those that were copied, what came of these in other targets, and why tables
    were set aside.
    """

    tables: list[Altered]
    copied: list[Altered] = field(default_factory=list)
    targets: list[Targets] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """More of a round than its table's row."""
    parser.add_argument("--reasons", action="store_true", help="print why tables were set aside")


def reports(given: argparse.Namespace) -> Iterator[Alters | Targets]:
    """The reports of each round."""
    with ExitStack() as stack:
        postgres = stack.enter_context(Postgres()).url if programs() else None
        for name in given.server:
            with Server(name, {"explicit_defaults_for_timestamp": 1}) as server:
                for number in range(given.size.rounds):
                    rng = random.Random(f"{given.seed} {name} {number}")
                    kind = FORMATS[number % len(FORMATS)]
                    report, done = run(rng, server, given.size.tables, kind, postgres)
                    if given.reasons:
                        for reason, count in done.reasons.most_common():
                            print(f"{count:6} {reason}")
                    yield report
                    yield from done.targets


def run(
    rng: random.Random, server: Server, tables: int, kind: str, postgres: str | None = None
) -> tuple[Alters, Round]:
    """One round: its statements, its lakes, its other targets, and whether they are right."""
    ((before,),) = server.query("SELECT @@GLOBAL.binlog_row_metadata")
    metadata = rng.choice(("FULL", "FULL", "MINIMAL"))
    image = rng.choice(("FULL",) * 5 + ("MINIMAL",))
    report = Alters(server.name, kind, metadata, image)
    folder = Path(tempfile.mkdtemp(prefix="tailrace-alters-"))
    try:
        done = Round(alters_statements.tables(rng, server.flavour, tables))
        _begin(server, metadata, image)
        indexers = _indexers(server, report, folder)
        after = [each.take for way, each in indexers.items() if way == "several"]
        logs = _told(server, done.tables, after)
        report.tables = len(done.tables)
        report.altered = sum(each.altered for each in done.tables)
        plain = {name for _, name in tables_of(server, DATABASE)}  # SELECT hides old versions
        wanted: dict[str, TableDump] = {}
        for each in list(done.tables):
            try:
                if each.name in plain:
                    wanted |= {each.full: dump_table(server, DATABASE, each.name)}
                else:
                    done.tables.remove(each)
            except pymysql.Error:  # its tablespace was discarded
                done.tables.remove(each)
        done.copied = copy_tables(server, done.tables)
        copies = server.rotate()
        for way, parts in {"one": [logs], "several": _cut(rng, logs)}.items():
            lake = _landed(folder / way, parts, kind)
            states, reader = LakeView.open(lake).manifest.tables, LakeReader(lake, kind)
            for each in done.tables:
                state, dump = states.get(each.full), wanted.get(each.full)
                _check(report, done, each, way, state, reader, dump)
            _others(done, report, way, indexers, [*parts, [copies]], folder / way, postgres)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _drop(server)
        server.execute(f"SET GLOBAL binlog_row_metadata = {before}")
        server.disconnect()  # the session has settings of its own
    return report, done


def _begin(server: Server, metadata: str, image: str) -> None:
    """Empty databases, a session, and a log of its own."""
    _drop(server)
    server.execute(f"SET GLOBAL binlog_row_metadata = {metadata}")
    server.disconnect()
    for each in (DATABASE, COPIES):
        server.execute(f"CREATE DATABASE {each} CHARACTER SET utf8mb4")
    server.rotate()
    server.execute(f"USE {DATABASE}")
    server.execute(f"SET SESSION binlog_row_image = {image}")


def _drop(server: Server) -> None:
    for each in (DATABASE, COPIES):
        server.execute(f"DROP DATABASE IF EXISTS {each}")


def _told(
    server: Server, tables: Sequence[Altered], after: Sequence[Callable[[], object]]
) -> list[Path]:
    """Run the statements, phase by phase, and something after each; the log of each phase."""
    found: list[Path] = []
    for phase in range(max(len(each.phases) for each in tables)):
        for table in tables:
            for statement in table.phases[phase] if phase < len(table.phases) else ():
                _execute(server, table, statement)
        server.connection.commit()
        found.append(server.rotate())
        for each in after:
            each()
    return found


def _indexers(server: Server, report: Alters, folder: Path) -> dict[str, Indexer]:
    """An index for each way; the log has to have whole rows, and to resume names of columns."""
    start = f"{server.binlogs()[-1].name}:4"
    url = f"mysql://root@127.0.0.1:{server.port}/?ssl-mode=DISABLED"
    ways = ("one", "several") if report.metadata == "FULL" else ("one",)
    return {way: Indexer(url, start, folder / way) for way in ways if report.image == "FULL"}


def _others(
    done: Round,
    report: Alters,
    way: str,
    indexers: Mapping[str, Indexer],
    parts: Sequence[Sequence[Path]],
    folder: Path,
    postgres: str | None,
) -> None:
    """The tables in SQLite, PostgreSQL and an index."""
    urls = {"SQLite": f"sqlite:///{folder}/applied.db", "PostgreSQL": postgres, "index": None}
    for target, url in urls.items():
        made = Targets(report.server, target, way, report.metadata, report.image)
        if target == "index" and way in indexers:
            indexers[way].take()
            rows, rejected = indexers[way].rows(), indexers[way].rejected
        elif url is not None:
            rejected = Rejected()
            rows = apply_parts(folder / target, parts, url, rejected)
        else:
            continue
        compare_copies(made, done.copied, rows, rejected)
        done.reasons.update(f"{target}: {_kind_of(each)}" for each in rejected.reasons.values())
        done.targets.append(made)


def _execute(server: Server, table: Altered, statement: str) -> None:
    """Run a statement, which the server may reject; only an ALTER TABLE that it takes counts."""
    with suppress(pymysql.Error):
        server.execute(statement)
        server.connection.commit()
        if statement.startswith("ALTER"):
            table.altered = True
            table.done.append(statement)


def _cut(rng: random.Random, logs: Sequence[Path]) -> list[list[Path]]:
    """The logs in several batches."""
    found: list[list[Path]] = [[]]
    for log in logs:
        if found[-1] and rng.random() < 0.7:
            found.append([])
        found[-1].append(log)
    return found


def _landed(folder: Path, parts: Sequence[Sequence[Path]], kind: str) -> Path:
    """A lake that has taken the parts one after the other."""
    logs = folder / "logs"
    logs.mkdir(parents=True)
    for part in parts:
        for log in part:
            shutil.copy(log, logs / log.name)
        keep = ["current", "history"]
        mirrored(logs, folder / "lake", kind, keep=keep, tables=f"{DATABASE}.*")
    return folder / "lake"


def _check(
    report: Alters,
    done: Round,
    table: Altered,
    way: str,
    state: TableState | None,
    reader: LakeReader,
    wanted: TableDump | None,
) -> None:
    """Compare a table's current state and history; one that is set aside has a reason."""
    told = f"{report.server} {report.format} {way} batch: {table.story()}"
    if state is not None and state.set_aside is not None:
        report.aside += 1
        report.histories_aside += 1
        if _OURS.search(state.set_aside.reason):
            report.failures.append(f"{told}: {state.set_aside}")
        return
    with report.noting(told):
        current = state.current if state is not None else None
        if current is not None and current.refused:
            report.aside += 1
            done.reasons[_kind_of(current.refused)] += 1
        else:
            rows = reader.current(table.full) if current is not None else None
            compare(table.full, rows, wanted, optional=_missing(current))
            report.equal += 1
    with report.noting(f"history: {told}"):
        history = state.history if state is not None else None
        if history is not None and (history.refused or history.gaps):
            report.histories_aside += 1
        else:
            rows = reader.history(table.full) if history is not None else None
            rows = None if rows is None else at(rows, _FUTURE)
            compare(table.full, rows, wanted, optional=_missing(history))
            report.histories += 1


def _missing(state: TableRows | None) -> tuple[str, ...]:
    """The columns that a lake leaves out: those that no row has shown, or that are not logged."""
    if state is None:
        return ()
    return (*state.unlogged, *(name for name, *_ in state.added))


def _kind_of(reason: str) -> str:
    return re.sub(r"'[^']*'|\d+", "…", reason)
