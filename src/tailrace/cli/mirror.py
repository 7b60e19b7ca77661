"""``tailrace mirror``: logs into a lake, on Spark."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from tailrace.cli.lines import output_to, printable, size
from tailrace.cli.options import (
    KeyringFile,
    SchemaFile,
    Sources,
    Tables,
    say,
    split_patterns,
    standard_output,
)
from tailrace.cli.servers import names_server, parsed
from tailrace.errors import UsageError
from tailrace.storage import find_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tailrace.cli.lines import Output
    from tailrace.spark import MirrorReport, TableReport

    Progress = Callable[[str, int, int], None]

_PHASES: Final = {
    "receive": "receiving logs",
    "start": "starting Spark",
    "read": "reading logs",
    "current": "making current tables",
    "commit": "committing",
}
_COUNTED: Final = frozenset({"read", "receive"})
"""Phases that are counted in bytes of log."""
_LINE_SECONDS: Final = 5.0
"""Where there is no terminal, a line of progress so often at most."""


Into = Annotated[Path, Parameter(name="--into", help="The lake: a new folder, or one begun.")]


def mirror(
    *sources: Sources,
    into: Into,
    tables: Tables = (),
    format: Annotated[  # noqa: A002 - the option's name
        Literal["parquet"], Parameter(name="--format", help="The data files' format.")
    ] = "parquet",
    keep: Annotated[
        str,
        Parameter(
            name="--keep",
            help="What to keep of each table: ``changelog``, ``current`` or both (default).",
        ),
    ] = "changelog,current",
    schema: SchemaFile = None,
    keyring: KeyringFile = None,
    cores: Annotated[
        int | None, Parameter(name="--cores", help="Use so many cores; all by default.")
    ] = None,
    statements: Annotated[
        Literal["error", "skip"],
        Parameter(
            name="--statements",
            help="What to do about changes that were logged as statements, without their rows: "
            "``error`` (default), or ``skip`` them.",
        ),
    ] = "error",
) -> int:
    """Land logs in a lake: for each table all its changes, and the rows that it has now.

    Run again, it adds what is new in the logs. Of a server the logs up to its present end are
    received into the lake's folder first, and kept there from where the lake ends.
    """
    if not sources:
        raise UsageError(
            "give a log: a file, a folder of logs, or a server's URL (mysql://user@host)"
        )
    chosen = [parsed(each) if names_server(each) else each for each in sources]
    files = [each for each in sources if not names_server(each)]
    find_all(files, keyring)  # that there is a log is said before anything starts
    if cores is not None and not 1 <= cores <= (os.cpu_count() or 1) * 16:
        raise UsageError(f"--cores {cores}: give a number of cores from 1 on")
    from tailrace.spark import mirror as run  # noqa: PLC0415 - takes a while
    from tailrace.spark import session  # noqa: PLC0415 - as above

    begin = time.monotonic()
    patterns = split_patterns(tables)
    with _progress() as progress:
        report = run(
            chosen,
            into,
            spark=lambda: session(cores),
            tables=patterns or None,
            schema=schema,
            keyring=keyring,
            keep=[each.strip() for each in keep.split(",")],
            format=format,
            statements=statements,
            progress=progress,
        )
    output = output_to(standard_output())
    _print(output, into, report, time.monotonic() - begin)
    output.close()
    return 0


@contextmanager
def _progress() -> Iterator[Progress]:
    """A progress bar on a terminal, lines elsewhere; both on stderr."""
    if not sys.stderr.isatty():
        yield _Lines().tell
        return
    from rich.console import Console  # noqa: PLC0415 - only terminals need rich
    from rich.progress import (  # noqa: PLC0415 - as above
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(_PHASES["start"], total=None)

        def tell(phase: str, done: int, total: int) -> None:
            if phase in _COUNTED:
                bar.update(task, description=_PHASES[phase], completed=done, total=total)
            else:
                bar.update(task, description=_PHASES.get(phase, phase))

        yield tell


class _Lines:
    """Progress as lines, for a file or a pipe."""

    def __init__(self) -> None:
        self._phase = ""
        self._next = 0.0

    def tell(self, phase: str, done: int, total: int) -> None:
        now = time.monotonic()
        if phase == self._phase and now < self._next:
            return
        fresh = phase != self._phase
        self._phase, self._next = phase, now + _LINE_SECONDS
        if phase in _COUNTED:
            say(f"{_PHASES[phase]}: {size(done)} of {size(total)}")
        elif fresh:
            say(_PHASES.get(phase, phase))


def _print(output: Output, into: Path, report: MirrorReport, seconds: float) -> None:
    live = [table for table in report.tables if not table.dropped or table.changes]
    read = f"{report.changes:,} changes from {size(report.log_bytes)} of logs"
    title = f"{into}: {read if report.log_bytes else 'nothing new'}, {seconds:.1f} s"
    if starting := report.seconds.get("start"):
        title += f" ({starting:.1f} s of them until Spark ran)"
    rows = [_row(table) for table in live]
    output.table(title, ["table", "inserts", "updates", "deletes", "rows", "size", "s"], rows)
    for table in live:
        name = printable(table.name)
        if table.refused:
            output.line((f"{name}: no current state: {printable(table.refused)}", "alarm"))
        for note in table.notes:
            output.line((f"{name}: {printable(note)}", "quiet"))
        if table.changes and table.names != "log":
            say(f"{name}: {_NAMES[table.names]}")


_NAMES: Final = {
    "given": "column names from the schema given",
    "ddl": "column names from the DDL in the logs",
    "none": "no column names in the log, so they are c1, c2, ...; --schema FILE gives names",
}


def _row(table: TableReport) -> list[str]:
    counts = [table.changes.get(each, 0) for each in ("insert", "update", "delete")]
    rows = "-" if table.rows is None else f"{table.rows:,}"
    return [
        printable(table.name),
        *(f"{count:,}" if count else "" for count in counts),
        rows,
        size(table.size),
        f"{table.seconds:.1f}",
    ]
