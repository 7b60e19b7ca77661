"""``tailrace log``: prints the content of logs, a modern mysqlbinlog."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - cyclopts reads the annotations
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

from cyclopts import Parameter

from tailrace.cli.options import (
    OUTPUT,
    Exclude,
    ExcludeGtids,
    Follow,
    IncludeGtids,
    KeyringFile,
    Layers,
    LowerCaseNames,
    RewriteDb,
    SchemaFile,
    ServerId,
    SkipChecksums,
    SkipGtids,
    SkipTornTail,
    Sources,
    Start,
    Tables,
    Until,
    chosen_tables,
    picked_transactions,
    renamed_databases,
)
from tailrace.cli.output import LineOutput, output_to, standard_output
from tailrace.cli.signals import until_stopped
from tailrace.cli.sources import (
    as_read,
    check_tables,
    readers,
    say_how_it_ended,
    say_what_is_not_there,
    say_where_names_are_from,
)
from tailrace.columns.text.readers import JSON, SQL, TEXT
from tailrace.errors import UsageError
from tailrace.printable import printable_json

if TYPE_CHECKING:
    from tailrace.log.reader import Reader


def log(
    *sources: Sources,
    tables: Tables = (),
    exclude: Exclude = (),
    start: Start = None,
    until: Until = None,
    include_gtids: IncludeGtids = None,
    exclude_gtids: ExcludeGtids = None,
    server_id: ServerId = None,
    as_: Annotated[
        Literal["text", "json", "sql", "undo", "raw"],
        Parameter(
            name="--as",
            metavar="FORM",
            group=OUTPUT,
            help="``text`` (default); ``json``: a change record per line; ``sql``: statements that "
            "repeat the changes on a copy of the tables; ``undo``: statements that undo them, the "
            "last change first; ``raw``: a log again, see ``--into``. SQL is not escaped: look at "
            "it in a pager, as names may contain terminal control characters.",
        ),
    ] = "text",
    events: Annotated[
        bool,
        Parameter(
            group=OUTPUT, negative=(), help="With ``--as json``: all events, with their fields."
        ),
    ] = False,
    into: Annotated[
        Path | None,
        Parameter(
            metavar="FILE",
            group=OUTPUT,
            help="With ``--as raw``: the first file to write, such as ``cut.000001``; it must not "
            "exist.",
        ),
    ] = None,
    statements: Annotated[
        Literal["error", "skip"],
        Parameter(
            metavar="error|skip",
            group=OUTPUT,
            help="What to do about statements that cannot be converted: ``error`` (default) or "
            "``skip`` them. In JSON these are the ones that changed rows, as the log does not have "
            "the rows; to undo, all; as SQL, LOAD DATA; with ``--tables`` or ``--exclude``, as SQL "
            "or raw, those that changed rows.",
        ),
    ] = "error",
    rows_per_insert: Annotated[
        int,
        Parameter(
            metavar="NUMBER",
            group=OUTPUT,
            help="As SQL, or to undo: how many rows an INSERT may have (1 by default). They come "
            "from one event of the log, and have 1 MiB at most.",
        ),
    ] = 1,
    hexdump: Annotated[
        bool,
        Parameter(group=OUTPUT, negative=(), help="As text: print the bytes of each event, too."),
    ] = False,
    rewrite_db: RewriteDb = (),
    skip_gtids: SkipGtids = False,
    follow: Follow = False,
    schema: SchemaFile = None,
    lower_case_table_names: LowerCaseNames = None,
    keyring: KeyringFile = None,
    layers: Layers = (),
    skip_checksums: SkipChecksums = False,
    skip_torn_tail: SkipTornTail = False,
) -> int:
    """Print the content of logs, or write it as a log."""
    if events and as_ != "json":
        raise UsageError("--events goes with --as json")
    if follow and as_ in {"undo", "raw"}:
        raise UsageError(f"--follow has no end, and --as {as_} needs one: leave one of the two out")
    if hexdump and as_ != "text":
        raise UsageError(f"--hexdump goes with --as text, not with --as {as_}")
    if rows_per_insert < 1 or (rows_per_insert > 1 and as_ not in {"sql", "undo"}):
        raise UsageError("--rows-per-insert goes with --as sql and --as undo, and is 1 or more")
    if (as_ == "raw") != (into is not None):
        raise UsageError("--as raw and --into FILE go together")
    picks = picked_transactions(include_gtids, exclude_gtids, server_id)
    out = standard_output()
    names = renamed_databases(rewrite_db)
    wants = chosen_tables(tables, exclude)
    chosen = readers(
        sources,
        wants=wants,
        start=start,
        end=until,
        follow=follow,
        schema=schema,
        lower_case_table_names=lower_case_table_names,
        keyring=keyring,
        layers=layers,
        skip_checksums=skip_checksums,
        picks=picks,
        gtids=not skip_gtids,
        skip_torn_tail=skip_torn_tail,
        names=None if as_ == "raw" else names,
        rows=as_ != "raw",
        kernels=_kernels(as_, out, events=events, hexdump=hexdump),
    )
    if into is not None:
        from tailrace.cli.log.raw import RawOutput  # noqa: PLC0415 - only where asked for

        read = list(chosen)
        if len(read) > 1:
            listed = ", ".join(reader.name for reader in read)
            raise UsageError(f"one log is written, and there are several ({listed}): give one")
        for reader in read:
            wants = as_read(wants, reader)
            RawOutput(into, wants, names, statements, gtids=not skip_gtids).copy(reader)
        check_tables(wants, read, names)
        return 0
    status, read = 0, []
    for reader in chosen:
        wants = as_read(wants, reader)
        if follow:
            say_what_is_not_there(wants, reader)
        with until_stopped(reader) as ending:
            if as_ == "text":
                _text(reader, out, only_rows=not wants.takes_all, hexdump=hexdump)
            elif as_ == "json":
                _json(reader, out, events=events, statements=statements)
            elif as_ != "raw":
                from tailrace.cli.log.sql import show_sql, sql_output  # noqa: PLC0415 - as above

                show_sql(
                    reader,
                    as_,
                    _lines(reader, sql_output(out)).take,
                    wants=None if wants.takes_all else wants,
                    skips=statements,
                    renamed=names.keys(),
                    rows=rows_per_insert,
                )
            if not reader.stopped:
                say_how_it_ended(reader)
        status = ending.status
        read.append(reader)
    say_where_names_are_from(read)
    check_tables(wants, read, names)
    return status


def _kernels(how: str, out: TextIO, *, events: bool, hexdump: bool) -> tuple[str, ...]:
    """The kernels that write an output; none for output that needs single events, or has
    colours.
    """
    if how == "json" and not events:
        return JSON
    if how == "text" and not hexdump and not out.isatty():
        return TEXT
    if how in {"sql", "undo"}:
        return SQL
    return ()


def _text(reader: Reader, out: TextIO, *, only_rows: bool, hexdump: bool) -> None:
    from tailrace.cli.log.text import TextView  # noqa: PLC0415 - only where asked for

    output = output_to(out)

    def written() -> None:
        output.close()
        out.flush()

    if reader.follow:
        reader.on_pause = written
    try:
        TextView(output, only_rows=only_rows, hexdump=hexdump).show(reader)
    finally:
        output.close()


def _json(
    reader: Reader, out: TextIO, *, events: bool, statements: Literal["error", "skip"]
) -> None:
    lines = _lines(reader, out)
    if events:
        from tailrace.cli.log.json import event_json  # noqa: PLC0415 - only where asked for

        lines.take(printable_json(event_json(step.event)) for step in reader)
    else:
        from tailrace.cli.log.json import json_lines  # noqa: PLC0415 - only where asked for

        lines.take(json_lines(reader, statements))


def _lines(reader: Reader, out: TextIO) -> LineOutput:
    """The output for lines; if a reader follows, it is flushed at each transaction's end."""
    lines = LineOutput(out)
    if reader.follow:
        reader.on_pause = lines.flush
    return lines
