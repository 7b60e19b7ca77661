"""``tailrace verify``: compares a lake's tables with those of the server."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tailrace.cli.options import (
    OUTPUT,
    READING,
    Cores,
    Exclude,
    Lake,
    Tables,
    check_cores,
    chosen_tables,
)
from tailrace.cli.output import output_to, say, standard_output
from tailrace.cli.sources import NO_SERVER, parsed
from tailrace.durations import seconds_of
from tailrace.errors import UsageError
from tailrace.live.scheme import names_server
from tailrace.printable import size

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.cli.output import Output
    from tailrace.spark.verify.report import RowDifference, TableVerdict, VerifyReport


def verify(
    source: Annotated[
        str,
        Parameter(
            name="server",
            help="The server, by the URL that ``mirror`` was given: ``mysql://user@host/``.",
        ),
    ],
    /,
    *,
    into: Lake,
    tables: Tables = (),
    exclude: Exclude = (),
    rows: Annotated[
        int,
        Parameter(
            name="--rows",
            metavar="NUMBER",
            group=OUTPUT,
            help="How many of the differing rows of a table to list (10 by default).",
        ),
    ] = 10,
    wait: Annotated[
        str | None,
        Parameter(
            name="--wait",
            metavar="TIME",
            group=READING,
            help="How long to wait, such as ``60s``, until the lake exists and has caught up.",
        ),
    ] = None,
    range_rows: Annotated[
        int,
        Parameter(
            name="--range-rows",
            metavar="NUMBER",
            group=READING,
            help="How many rows to compare at a time (100,000 by default).",
        ),
    ] = 100_000,
    cores: Cores = None,
) -> int:
    """Compare a lake's current tables with the server's, row by row."""
    if not names_server(source):
        raise UsageError(NO_SERVER.format(source))
    check_cores(cores)
    wants = chosen_tables(tables, exclude)
    longest = None if wait is None else seconds_of(wait, "--wait")
    server = parsed(source)
    from tailrace.spark.runtime.session import session  # noqa: PLC0415 - takes a while
    from tailrace.spark.verify import verify as run  # noqa: PLC0415 - as above

    report = run(
        server,
        into,
        spark=lambda: session(cores),
        tables=wants.only,
        exclude=wants.exclude,
        wait=longest,
        range_rows=range_rows,
        rows=rows,
        progress=partial(_say_waiting, into, longest or 0.0),
    )
    output = output_to(standard_output())
    _print(output, into, report)
    output.close()
    return 2 if report.unsure else int(report.verdict != "equal")


def _say_waiting(lake: str | Path, longest: float, phase: str, done: int, total: int) -> None:
    if phase == "create":
        what = "has no batch yet"
    elif phase == "wait" and longest and done < total:
        what = f"is {size(total)} behind the server"
    else:
        return
    say(f"{lake} {what}: waiting up to {longest:g} s for tailrace mirror")


def _print(output: Output, lake: str | Path, report: VerifyReport) -> None:
    output.table(
        f"{lake}: {_title(report)}, {report.seconds['all']:.1f} s",
        ["table", "rows", "in lake", "missing", "extra", "changed", "checksum"],
        [_row(table) for table in report.tables],
    )
    for table in report.tables:
        for text in _remarks(table):
            output.line((text, "alarm" if table.compared else "quiet"))
        for note in table.notes:
            output.line((f"{table.name}: {note}", "quiet"))
    for note in report.notes:
        say(note)
    if report.behind is None:
        say(f"the lake is at {report.position}, which the server's logs do not have (any more)")
    elif report.transactions:
        count = f"{report.transactions:,}" if report.transactions < 1000 else "1,000 or more"
        say(
            f"the lake is behind the server: at {report.position}, the server at {report.server}, "
            f"{size(report.behind)} and {count} transactions in between; --wait 60s waits for it"
        )


def _title(report: VerifyReport) -> str:
    """The result for all tables together."""
    incomplete = [table for table in report.tables if table.incomplete]
    if report.verdict == "equal":
        return "equal to the server" if report.tables else "no table with rows to compare"
    if report.verdict == "incomplete":
        others = len(report.tables) > len(incomplete)
        return "has incomplete tables" + "; the others are equal to the server" * others
    has = ", and has incomplete tables" if incomplete else ""
    if report.verdict == "unsure":
        return f"could not be verified against the server{has}"
    doubt = "; for other tables this could not be determined" if report.unsure else ""
    return f"differs from the server{has}{doubt}"


def _row(table: TableVerdict) -> list[str]:
    name = table.name
    if table.reason is not None:
        return [name, "-", "-", "", "", "", ""]
    sums = {table.server_checksum, table.lake_checksum}
    counts = [f"{each:,}" if each else "" for each in (table.missing, table.extra, table.changed)]
    checksum = f"{table.server_checksum:016x}" if len(sums) == 1 else "differs"
    return [name, f"{table.server_rows:,}", f"{table.lake_rows:,}", *counts, checksum]


def _remarks(table: TableVerdict) -> list[str]:
    name = table.name
    found = [] if table.reason is None else [f"{name}: {table.reason}"]
    if table.doubled:
        found.append(f"{name}: {table.doubled:,} keys are in the lake more than once")
    if table.undecided:
        found.append(f"{name}: {table.undecided:,} rows changed while they were compared")
    found += [
        f"{name}: {each.differing:,} of {each.rows:,} rows {_bounds(each)}differ"
        for each in table.ranges
        if each.differing
    ]
    return found + [f"{name} {_difference(each)}" for each in table.first]


def _bounds(part: object) -> str:
    low, high = getattr(part, "low", None), getattr(part, "high", None)
    above = "" if low is None else f"above {','.join(low)} "
    upto = "" if high is None else f"up to {','.join(high)} "
    return above + upto


def _difference(row: RowDifference) -> str:
    key = ", ".join(f"{name}={_text(value)}" for name, value in row.key.items())
    if row.server is None:
        return f"{key}: in the lake only"
    if row.lake is None:
        return f"{key}: on the server only"
    parts = [
        f"{name} {_text(row.server[name])} on the server, {_text(row.lake[name])} in the lake"
        for name in row.columns
    ]
    return f"{key}: {'; '.join(parts)}"


def _text(value: str | None) -> str:
    if value is None:
        return "NULL"
    return value if len(value) <= 60 else f"{value[:57]}..."
