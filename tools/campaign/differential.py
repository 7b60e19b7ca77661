"""Random schemas on real servers: what Tailrace reads of their logs is what SELECT gives."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tailrace.columns.read.committed import committed_in
from tools.campaign import characters, documents, second, selected, source
from tools.campaign.replay import Replayed
from tools.campaign.report import Report, SchemasReport
from tools.campaign.witnesses import (
    arrow_changes,
    counted,
    document_changes,
    json_changes,
    json_lines,
    typed_changes,
)
from tools.campaign.workload import Workload
from tools.servers import NAMES, Server

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from tools.campaign.replay import Texts
    from tools.campaign.witnesses import Change
    from tools.campaign.workload import Recorded, Selected


SERVERS: Final = NAMES
_VALUES: Final[dict[str, tuple[int | None, int]]] = {"small": (60, 2), "full": (None, 500)}
"""Codes of each character set (None: all), and rounds of documents."""


@dataclass
class DifferentialReport(SchemasReport):
    """What a campaign on one server came to."""

    columns: ClassVar = (
        "Server | Seed | Schemas | Tables | Types | Inserts / updates / deletes | Rows at the end |"
        " Values compared | Schemas checked by way | Seconds"
    )
    changes: Counter[str] = field(default_factory=Counter)
    cells_read: int = 0
    features: Counter[str] = field(default_factory=Counter)
    """Schemas that have what only MariaDB has."""

    def count(self, recorded: Recorded) -> None:
        """Take in one schema's size."""
        super().count(recorded)
        made = " ".join(sql for sql in recorded.statements if " -- " not in sql)
        self.features.update(name for name, mark in _FEATURES.items() if mark in made)
        self.features["old temporal format"] += (
            recorded.settings.globals_.get("mysql56_temporal_format") == "OFF"
        )
        tables = recorded.tables.values()
        self.cells_read += sum(len(table.rows) * len(table.columns) for table in tables)

    def cells(self) -> list[object]:
        changes = " / ".join(str(self.changes[name]) for name in ("insert", "update", "delete"))
        counted = {**self.ways, **+self.features}
        ways = ", ".join(f"{way} {count}" for way, count in counted.items())
        counts = [self.schemas, self.tables, len(self.types), changes, self.rows, self.cells_read]
        return [self.server, self.seed, *counts, ways, f"{self.seconds:.0f}"]


_FEATURES: Final = {
    "versioned": "WITH SYSTEM VERSIONING",
    "periods": "WITHOUT OVERLAPS",
    "portions": "FOR PORTION OF",
    "sequences": "DO NEXTVAL",
}


class Ways:
    """Every way through Tailrace to a recorded schema's changes, as SELECT's texts."""

    def __init__(self, recorded: Recorded, folder: Path, spark: SparkSession | None = None) -> None:
        self._recorded = recorded
        self._spark = spark
        self._columns = {name: table.columns for name, table in recorded.tables.items()}
        self._logs = folder / "logs"
        shutil.rmtree(self._logs, ignore_errors=True)
        self._logs.mkdir()
        for file in recorded.series.files:
            (self._logs / file.name).symlink_to(file.path)
        self._schema = None
        if recorded.schema:
            self._schema = folder / "schema.sql"
            self._schema.write_text(recorded.schema, encoding="utf-8")

    def command(self) -> Iterator[Change]:
        """``tailrace log --as json``."""
        return json_changes(json_lines(self._recorded.series, self._schema), self._columns)

    def arrow(self) -> Iterator[Change]:
        """`tailrace.changes`."""
        return arrow_changes(self._recorded.series, self._schema, self._columns)

    def source(self) -> Iterator[Change]:
        """The data source, all tables, images as JSON."""
        batches = source.read(self._logs, self._schema, self._spark)
        return document_changes(batches, self._columns)

    def typed_source(self) -> Iterator[Change]:
        """The data source, table by table, typed."""
        for name in self._recorded.tables:
            if name in self.changed:
                options = {"tables": name, "images": "both"}
                batches = source.read(self._logs, self._schema, self._spark, **options)
                yield from typed_changes(batches, self._columns)

    changed: frozenset[str] = frozenset()
    """The tables that have changes at all; others cannot be read by name."""


def check(recorded: Recorded, ways: Ways, report: DifferentialReport) -> None:
    """Hold every way through Tailrace against SELECT. Raises what Tailrace or a comparison does."""
    altered = any(sql.startswith("ALTER") for sql in recorded.statements)
    chosen: dict[str, tuple[Callable[[], Iterator[Change]], bool]] = {
        "arrow": (ways.arrow, False),
        "json": (ways.command, True),
        "source": (ways.source, True),
    }
    if not altered:  # else earlier rows are brought to the newest columns
        chosen["typed source"] = (ways.typed_source, False)
    totals = []
    for way, (give, as_json) in chosen.items():
        tables = {
            name: Replayed(
                f"{way} {name}",
                _as_way(table, as_json),
                table.generated,
                [dict(table.defaults)] if table.sequence else [],
                table.sequence,
            )
            for name, table in recorded.tables.items()
        }
        for name, operation, before, after in give():
            tables[name].take(operation, before, recorded.tables[name].logged(after))
        for name, table in recorded.tables.items():
            tables[name].compare([_as_way_row(table, row, as_json) for row in table.rows])
        totals.append({name: table.changes for name, table in tables.items()})
        ways.changed = frozenset(name for name, table in tables.items() if table.changes)
        report.ways[way] += 1
    if any(each != totals[0] for each in totals):
        raise AssertionError(f"changes by table differ: {totals}")
    for changes in totals[0].values():
        report.changes.update(changes)


def _as_way(table: Selected, documents: bool) -> Texts:
    return _as_way_row(table, table.defaults, documents)


def _as_way_row(table: Selected, row: Texts, documents: bool) -> Texts:
    if not documents:
        return row
    return {
        name: selected.as_document(table.columns[name], text) if name in table.columns else text
        for name, text in row.items()
    }


def witness(server: Server, recorded: Recorded, ways: Ways) -> int:
    """Hold the numbers of rows by table and operation against ``mysqlbinlog -v``.

    Gives 0 where the two do not compare: rows that were taken back, types that it cannot print.
    """
    if committed_in(recorded.series).left_out:
        return 0
    if recorded.settings.globals_.get("mysql56_temporal_format") == "OFF":
        return 0  # MariaDB's tool ends with an error at old temporal columns with digits
    output = b""
    for file in recorded.series.files:
        output += server.mysqlbinlog("-v", "--base64-output=DECODE-ROWS", file.path).stdout
    if b"Don't know how to handle column type" in output:
        return 0  # GEOMETRY: it leaves out the rest of the event's rows
    ours = Counter((table, operation) for table, operation, _, _ in ways.arrow())
    theirs = counted(output)
    if ours != theirs:
        raise AssertionError(f"mysqlbinlog counts {dict(theirs)}, Tailrace {dict(ours)}")
    return 1


@dataclass(frozen=True)
class Plan:
    """A campaign: so many schemas from ``first`` on; every n-th with a witness, or with Spark."""

    schemas: int
    seed: int
    first: int = 0
    witness_every: int = 10
    spark_every: int = 0
    second_every: int = 0
    """Every n-th is made again and taken back by SQL on a second server (`second`)."""


def run(server: Server, plan: Plan) -> DifferentialReport:
    """Write and check schemas; failures are noted, and the rest goes on."""
    workload = Workload(server, odd=True)
    report = DifferentialReport(f"{server.name} ({server.version})", plan.seed)
    spark = source.start() if plan.spark_every else None
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tailrace-campaign-") as folder, ExitStack() as stack:
        target = None
        if plan.second_every:
            target = stack.enter_context(Server(server.name, server_id=2))
        for number in range(plan.first, plan.first + plan.schemas):
            with workload.record(plan.seed, number) as recorded:
                with report.noting(f"{recorded.label}, {recorded.settings}"):
                    _one(server, recorded, plan, number, Path(folder), spark, report)
                    if target is not None and number % plan.second_every == 0:
                        report.ways[second.check(server, target, recorded)] += 1
                report.count(recorded)
    report.seconds = time.monotonic() - began
    return report


def _one(
    server: Server,
    recorded: Recorded,
    plan: Plan,
    number: int,
    folder: Path,
    spark: SparkSession | None,
    report: DifferentialReport,
) -> None:
    with_spark = plan.spark_every and number % plan.spark_every == 0
    ways = Ways(recorded, folder, spark if with_spark else None)
    check(recorded, ways, report)
    report.ways["Spark"] += bool(with_spark)
    if plan.witness_every and number % plan.witness_every == 0:
        report.ways["mysqlbinlog"] += witness(server, recorded, ways)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    number: dict[str, Any] = {"type": int, "default": 0}
    parser.add_argument("--schemas", type=int, default=500, help="schemas on each server")
    parser.add_argument("--first", **number, help="number of the first")
    parser.add_argument("--spark-every", **number, help="read every n-th by Spark, too")
    parser.add_argument("--second-every", **number, help="run every n-th's SQL on a second server")
    parser.add_argument("--values", choices=_VALUES, default="small", help="character sets, JSON")


def reports(given: argparse.Namespace) -> Iterator[Report]:
    every = {"spark_every": given.spark_every, "second_every": given.second_every}
    codes, rounds = _VALUES[given.values]
    for name in given.server:
        with Server(name) as server:
            yield run(server, Plan(given.schemas, given.seed, given.first, **every))
            yield characters.run(server, given.seed, codes)
            yield documents.run(server, given.seed, rounds)
