"""Random schemas on real servers: what Tailrace reads of their logs is what SELECT gives."""

from __future__ import annotations

import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.columns.splits import find_rollbacks
from tools.campaign import selected
from tools.campaign.replay import Replayed
from tools.campaign.witnesses import arrow_changes, counted, json_changes, json_lines
from tools.campaign.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tools.campaign.replay import Texts
    from tools.campaign.witnesses import Change
    from tools.campaign.workload import Recorded, Selected
    from tools.servers import Server


@dataclass
class Report:
    """What a campaign on one server came to."""

    server: str
    version: str
    seed: int
    schemas: int = 0
    tables: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    cells: int = 0
    witnessed: int = 0
    refused: int = 0
    seconds: float = 0.0
    types: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def line(self) -> str:
        """The report as one row of a Markdown table."""
        every = ", ".join(f"{self.changes[name]} {name}s" for name in sorted(self.changes))
        return (
            f"| {self.version} | {self.seed} | {self.schemas} | {self.tables} | {every} | "
            f"{self.rows} | {self.cells} | {self.witnessed} | {self.seconds:.0f} | "
            f"{len(self.failures)} |"
        )


def check(recorded: Recorded, schema: Path | None, report: Report) -> None:
    """Hold every way through Tailrace against SELECT. Raises what Tailrace or a comparison does."""
    columns = {name: table.columns for name, table in recorded.tables.items()}
    ways: dict[str, tuple[Callable[[], Iterator[Change]], bool]] = {
        "json": (lambda: json_changes(json_lines(recorded.series, schema), columns), True),
        "arrow": (lambda: arrow_changes(recorded.series, schema, columns), False),
    }
    totals = []
    for way, (give, documents) in ways.items():
        tables = {
            name: Replayed(f"{way} {name}", _as_way(table, documents), table.generated)
            for name, table in recorded.tables.items()
        }
        for name, operation, before, after in give():
            tables[name].take(operation, before, after)
        for name, table in recorded.tables.items():
            tables[name].compare([_as_way_row(table, row, documents) for row in table.rows])
        totals.append({name: table.changes for name, table in tables.items()})
    if totals[0] != totals[1]:
        raise AssertionError(f"changes by table differ: {totals[0]} and {totals[1]}")
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


def witness(server: Server, recorded: Recorded, schema: Path | None) -> int:
    """Hold the numbers of rows by table and operation against ``mysqlbinlog -v``.

    Gives 0 where the two do not compare: rows that were taken back, types that it cannot print.
    """
    if find_rollbacks(recorded.series).ranges:
        return 0
    output = b""
    for file in recorded.series.files:
        output += server.mysqlbinlog("-v", "--base64-output=DECODE-ROWS", file.path).stdout
    if b"Don't know how to handle column type" in output:
        return 0  # GEOMETRY: it leaves out the rest of the event's rows
    ours: Counter[tuple[str, str]] = Counter()
    for table, operation, _, _ in arrow_changes(recorded.series, schema, {}):
        ours[table, operation] += 1
    theirs = counted(output)
    if ours != theirs:
        raise AssertionError(f"mysqlbinlog counts {dict(theirs)}, Tailrace {dict(ours)}")
    return 1


def run(
    server: Server,
    schemas: int,
    seed: int,
    *,
    first: int = 0,
    witness_every: int = 10,
    say: Callable[[str], None] = print,
) -> Report:
    """Write and check so many schemas; failures are said and counted, the rest goes on."""
    workload = Workload(server)
    report = Report(server.name, f"{server.name} ({server.version})", seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tailrace-campaign-") as folder:
        for number in range(first, first + schemas):
            _one(workload, seed, number, Path(folder), report, witness_every, say)
    report.seconds = time.monotonic() - began
    return report


def _one(
    workload: Workload,
    seed: int,
    number: int,
    folder: Path,
    report: Report,
    witness_every: int,
    say: Callable[[str], None],
) -> None:
    with workload.record(seed, number) as recorded:
        schema = None
        if recorded.schema:
            schema = folder / "schema.sql"
            schema.write_text(recorded.schema, encoding="utf-8")
        try:
            check(recorded, schema, report)
            if witness_every and number % witness_every == 0:
                report.witnessed += witness(workload.server, recorded, schema)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{recorded.label}: {type(error).__name__}: {error} ({where.name})"
            report.failures.append(text)
            say(f"FAILED {text}\n  {recorded.settings}")
        report.schemas += 1
        report.refused += recorded.refused
        for table in recorded.tables.values():
            report.tables += 1
            report.rows += len(table.rows)
            report.cells += len(table.rows) * len(table.columns)
            report.types.update(column.base for column in table.columns.values())
