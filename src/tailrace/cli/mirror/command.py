"""``tailrace mirror``: loads logs into a lake."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from tailrace.cli.mirror.progress import display, held, left_out, notes, progress_shown
from tailrace.cli.options import (
    LAKE,
    READING,
    Cores,
    Exclude,
    Follow,
    KeyringFile,
    Lake,
    LowerCaseNames,
    SchemaFile,
    SkipTornTail,
    Sources,
    Tables,
    check_cores,
    chosen_tables,
    key_columns,
    patterns,
)
from tailrace.cli.output import output_to, say, say_names, standard_output
from tailrace.cli.signals import on_signals
from tailrace.cli.sources import check_urls, parsed
from tailrace.durations import seconds_of
from tailrace.errors import UsageError
from tailrace.extras import importing
from tailrace.live.scheme import names_server
from tailrace.printable import counted, size
from tailrace.schema.catalogue import NAMES_FROM
from tailrace.storage import find_all

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tailrace.cli.output import Output
    from tailrace.spark import MirrorReport, TableReport


def mirror(
    *sources: Sources,
    into: Lake,
    format: Annotated[  # noqa: A002 - the option's name
        Literal["parquet", "delta", "iceberg"] | None,
        Parameter(
            name="--format",
            metavar="FORMAT",
            group=LAKE,
            help="The tables' format: ``parquet`` (default), ``delta`` or ``iceberg``.",
        ),
    ] = None,
    keep: Annotated[
        str | None,
        Parameter(
            name="--keep",
            metavar="WHAT",
            group=LAKE,
            help="What to keep of each table: ``changelog`` (all changes), ``current`` (the rows "
            "that it has now), ``history`` (all versions of its rows), or several of them; "
            "``changelog,current`` by default.",
        ),
    ] = None,
    keys: Annotated[
        tuple[str, ...],
        Parameter(
            name="--keys",
            metavar="TABLE=COLUMNS",
            group=LAKE,
            negative=(),
            help="The key of a table, if the log does not have it: ``shop.orders=id,line``.",
        ),
    ] = (),
    shards: Annotated[
        bool | None,
        Parameter(
            name="--shards",
            group=LAKE,
            negative=(),
            help="Several sources have the same tables: rows get a column ``_source``.",
        ),
    ] = None,
    update_mode: Annotated[
        Literal["merge-on-read", "copy-on-write"] | None,
        Parameter(
            name="--update-mode",
            metavar="MODE",
            group=LAKE,
            help="How rows of ``current`` are replaced in large tables of Delta and Iceberg. "
            "``merge-on-read`` (default) marks old rows as deleted and writes new ones to other "
            "files: readers must support Delta's deletion vectors or Iceberg's delete files. "
            "``copy-on-write`` rewrites files, for readers that do not.",
        ),
    ] = None,
    cascades: Annotated[
        Literal["name", "apply"] | None,
        Parameter(
            name="--cascades",
            metavar="name|apply",
            group=LAKE,
            help="What to do about foreign keys that change rows without a log of it (``ON "
            "DELETE CASCADE``, ``SET NULL``, ``ON UPDATE CASCADE`` of MariaDB, and of MySQL before "
            "9.6): ``name`` the tables (default), or ``apply`` what the keys do, from their "
            "definitions in the log.",
        ),
    ] = None,
    statements: Annotated[
        Literal["error", "skip"],
        Parameter(
            name="--statements",
            metavar="error|skip",
            group=LAKE,
            help="What to do about changes that were logged as statements, without their rows: "
            "``error`` (default) or ``skip`` them.",
        ),
    ] = "error",
    incomplete: Annotated[
        Literal["error", "accept"],
        Parameter(
            name="--incomplete",
            metavar="error|accept",
            group=LAKE,
            help="What to do about tables that have rows from before the beginning of the log: "
            "``error`` (default), or ``accept`` them; then they are marked as incomplete.",
        ),
    ] = "error",
    retry_tables: Annotated[
        tuple[str, ...],
        Parameter(
            name="--retry-tables",
            metavar="PATTERNS",
            group=LAKE,
            negative=(),
            help="Resume tables that were set aside, once the cause is gone: ``shop.orders``, or "
            "several with commas. The log is read again from where they stopped.",
        ),
    ] = (),
    fail_on_set_aside: Annotated[
        bool,
        Parameter(
            name="--fail-on-set-aside",
            group=LAKE,
            negative="--no-fail-on-set-aside",
            help="Exit with code 1 if a table is set aside (default).",
        ),
    ] = True,
    tables: Tables = (),
    exclude: Exclude = (),
    follow: Follow = False,
    trigger: Annotated[
        str | None,
        Parameter(
            name="--trigger",
            metavar="TIME",
            group=READING,
            help="With ``--follow``: the shortest time between the starts of two batches; ``10s`` "
            "by default.",
        ),
    ] = None,
    spool_limit: Annotated[
        str | None,
        Parameter(
            name="--spool-limit",
            metavar="SIZE",
            group=READING,
            help="How much of servers' logs is received before the lake has it; ``20GB`` by "
            "default. Receiving pauses there and resumes.",
        ),
    ] = None,
    schema: SchemaFile = None,
    lower_case_table_names: LowerCaseNames = None,
    keyring: KeyringFile = None,
    cores: Cores = None,
    skip_torn_tail: SkipTornTail = False,
) -> int:
    """Load logs into a lake: for each table all its changes, and its current rows."""
    if not sources:
        raise UsageError(
            "give a log: a file, a folder of logs, or a server's URL (mysql://user@host)"
        )
    check_urls(sources)
    files = [each for each in sources if not names_server(each)]
    find_all(files, keyring)  # a missing log is reported before anything starts
    check_cores(cores)
    every, given = seconds_of(trigger or "10s", "--trigger"), key_columns(keys)
    if trigger is not None and not follow:
        raise UsageError("--trigger goes with --follow: without it there is one batch")
    wants = chosen_tables(tables, exclude)
    server = partial(parsed, follow=follow, skip_torn_tail=skip_torn_tail)
    chosen = [server(each) if names_server(each) else each for each in sources]
    extra = "spark" if format is None or format == "parquet" else format
    with importing(extra, "a lake"):
        from tailrace.spark import mirror as run  # noqa: PLC0415 - takes a while
    from tailrace.spark import session  # noqa: PLC0415 - as above

    begin = time.monotonic()
    call = partial(
        run,
        chosen,
        into,
        spark=lambda: session(cores),
        tables=wants.only,
        exclude=wants.exclude,
        schema=schema,
        lower_case_table_names=lower_case_table_names,
        keyring=keyring,
        keep=None if keep is None else [each.strip() for each in keep.split(",")],
        keys=given,
        format=format,
        statements=statements,
        shards=shards,
        update_mode=update_mode,
        cascades=cascades,
        spool_limit=spool_limit,
        retry_tables=patterns(retry_tables) or None,
        incomplete=incomplete,
    )
    status = 0
    if follow:
        report, status = _follow(call, str(into), every)
    else:
        with progress_shown() as progress:
            report = call(progress=progress, notice=say)
    output = output_to(standard_output())
    _print(output, into, report, time.monotonic() - begin, told=follow)
    output.close()
    return status or int(fail_on_set_aside and bool(report.set_aside))


def _follow(call: Callable[..., MirrorReport], into: str, every: float) -> tuple[MirrorReport, int]:
    """Follow; SIGTERM and SIGINT end it after the current batch, a second one at once.

    Returns the report, and the exit status.
    """
    stop = threading.Event()
    with display(into) as shown, on_signals(stop.set, second="interrupt") as ending:
        report = call(
            follow=True,
            trigger=every,
            stop=stop,
            progress=shown.progress,
            on_moment=shown.moment,
            notice=shown.line,
        )
    return report, ending.status


def _print(
    output: Output, into: str | Path, report: MirrorReport, seconds: float, *, told: bool
) -> None:
    """The summary; with ``told``, the tables' notes were printed when they came up."""
    live = [
        table
        for table in report.tables
        if not table.dropped or table.changes or table.set_aside is not None
    ]
    read = f"{counted(report.changes, 'change')} from {size(report.log_bytes)} of logs"
    nothing = "nothing new" if report.version else "ended before its first batch"
    title = f"{into}: {read if report.log_bytes else nothing}, {seconds:.1f} s"
    if starting := report.seconds.get("start"):
        title += f", of which {starting:.1f} s starting Spark"
    rows = [_row(table) for table in live]
    for source, place in report.held.items():
        say(held(source, place))
    for source, skipped in report.skipped.items():
        say(left_out(source, skipped))
    output.table(title, ["table", "inserts", "updates", "deletes", "rows", "size", "s"], rows)
    for table in live:
        for text in notes(table) if not told or table.set_aside is not None else ():
            style = "alarm" if table.refused or table.set_aside is not None else "quiet"
            output.line((text, style))
    changed = [table for table in live if table.changes and table.names in NAMES_FROM]
    say_names({table.name: NAMES_FROM[table.names] for table in changed})


def _row(table: TableReport) -> list[str]:
    counts = [table.changes.get(each, 0) for each in ("insert", "update", "delete")]
    rows = "-" if table.rows is None else f"{table.rows:,}"
    return [
        table.name,
        *(f"{count:,}" if count else "" for count in counts),
        rows,
        size(table.size),
        f"{table.seconds:.1f}",
    ]
