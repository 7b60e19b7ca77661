"""``tailrace log``: what is in logs, a modern mysqlbinlog."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - cyclopts reads the annotations
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from tailrace.cli.event_json import event_json
from tailrace.cli.lines import output_to
from tailrace.cli.options import (
    From,
    SchemaFile,
    SkipChecksums,
    Sources,
    Tables,
    Until,
    find_series,
    known_tables,
    readers,
    say,
    say_how_it_ended,
    standard_output,
)
from tailrace.cli.text import TextView
from tailrace.cli.verify import verify_series
from tailrace.errors import UsageError
from tailrace.records import Changes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tailrace.reader import Reader

_BLOCK: Final = 512
"""Lines that are written together."""


def log(
    *sources: Sources,
    as_: Annotated[
        Literal["text", "json"],
        Parameter(name="--as", help="``text`` (default), or ``json``: a change record a line."),
    ] = "text",
    events: Annotated[
        bool, Parameter(negative=(), help="With ``--as json``: all events, with their fields.")
    ] = False,
    tables: Tables = (),
    from_: From = None,
    until: Until = None,
    verify: Annotated[
        bool,
        Parameter(negative=(), help="Read all, check all, and print a line for each file."),
    ] = False,
    schema: SchemaFile = None,
    statements: Annotated[
        Literal["error", "skip"],
        Parameter(
            help="What to do in JSON about changes that were logged as statements, whose rows are "
            "not in the log: ``error`` (default) or ``skip``."
        ),
    ] = "error",
    skip_checksums: SkipChecksums = False,
) -> int:
    """Print what is in logs.

    As text, transactions with their GTID, time of commit, statements and rows. As JSON, the rows
    that were committed, a change record a line.
    """
    if events and as_ != "json":
        raise UsageError("--events goes with --as json")
    out = standard_output()
    if verify:
        if tables or from_ or until or events or as_ != "text":
            raise UsageError("--verify reads all: it goes with --schema and --skip-checksums only")
        return _verify(sources, schema, skip_checksums=skip_checksums)
    chosen = readers(
        sources,
        tables=tables,
        start=from_,
        end=until,
        schema=schema,
        skip_checksums=skip_checksums,
    )
    if as_ == "text":
        _text(chosen, only_rows=bool(tables))
        return 0
    for reader in chosen:
        lines = _events(reader) if events else _changes(reader, statements)
        _write(lines, out.write)
        say_how_it_ended(reader)
    return 0


def _text(chosen: Iterable[Reader], *, only_rows: bool) -> None:
    output = output_to(standard_output())
    view = TextView(output, only_rows=only_rows)
    try:
        for reader in chosen:
            view.show(reader)
            output.close()
            say_how_it_ended(reader)
    finally:
        output.close()


def _events(reader: Reader) -> Iterator[str]:
    return (event_json(step.event) for step in reader)


def _changes(reader: Reader, statements: Literal["error", "skip"]) -> Iterator[str]:
    changes = Changes(reader, statements=statements)
    for change in changes:
        yield from change.json_lines()
    if changes.skipped_statements:
        say(
            f"{reader.series.name}: {changes.skipped_statements} changes that were logged as "
            "statements skipped: their rows are not in the log"
        )
    if changes.unfinished:
        say(
            f"{reader.series.name}: the log has no end of a transaction: its rows are left out "
            f"({changes.unfinished} rows events)"
        )


def _write(lines: Iterator[str], write: Callable[[str], object]) -> None:
    """Write lines in blocks; what was made before an error is written, too."""
    block: list[str] = []
    try:
        for line in lines:
            block.append(line)
            if len(block) == _BLOCK:
                block.append("")
                write("\n".join(block))
                block = []
    finally:
        if block:
            block.append("")
            write("\n".join(block))


def _verify(sources: Sequence[str], schema: Path | None, *, skip_checksums: bool) -> int:
    output = output_to(standard_output())
    good = True
    try:
        for series in find_series(sources):
            good &= verify_series(
                series,
                output,
                catalogue=known_tables(schema),
                verify_checksums=not skip_checksums,
            )
    finally:
        output.close()
    return 0 if good else 2
