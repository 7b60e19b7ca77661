"""``tailrace stat``: counts the content of logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from tailrace.cli.options import (
    OUTPUT,
    Exclude,
    ExcludeGtids,
    IncludeGtids,
    KeyringFile,
    Layers,
    LowerCaseNames,
    SchemaFile,
    ServerId,
    SkipChecksums,
    Sources,
    Start,
    Tables,
    Until,
    chosen_tables,
    picked_transactions,
)
from tailrace.cli.output import output_to, standard_output
from tailrace.cli.sources import (
    as_read,
    check_tables,
    readers,
    say_how_it_ended,
    say_where_names_are_from,
)
from tailrace.columns.text.readers import COUNT
from tailrace.columns.text.statistics import count
from tailrace.errors import UsageError
from tailrace.extras import importing
from tailrace.log.statistics import Statistics
from tailrace.printable import counted, printable_json, size
from tailrace.storage.streams.base import told
from tailrace.times import time_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.cli.output import Output

Html = Annotated[
    Path | None,
    Parameter(
        name="--html",
        metavar="FILE",
        group=OUTPUT,
        help="Write a page with plots to this file instead of text: changes and bytes over time, "
        "sizes of transactions, the largest ones, definitions (DDL). It is one file that loads "
        "nothing.",
    ),
]


def stat(
    *sources: Sources,
    as_: Annotated[
        Literal["text", "json"],
        Parameter(
            name="--as",
            metavar="text|json",
            group=OUTPUT,
            help="``text`` (default), or ``json``: an object per log.",
        ),
    ] = "text",
    html: Html = None,
    tables: Tables = (),
    exclude: Exclude = (),
    start: Start = None,
    until: Until = None,
    include_gtids: IncludeGtids = None,
    exclude_gtids: ExcludeGtids = None,
    server_id: ServerId = None,
    schema: SchemaFile = None,
    lower_case_table_names: LowerCaseNames = None,
    keyring: KeyringFile = None,
    layers: Layers = (),
    skip_checksums: SkipChecksums = False,
) -> int:
    """Count the content of logs: rows by table, events by type, the largest transactions."""
    if html is not None and as_ == "json":
        raise UsageError("--html writes a page and prints nothing: leave --as json out")
    if html is not None and not sources:
        raise UsageError(
            f"--html takes the file to write, and no log is left to read: --html page.html {html}"
        )
    make_page = None if html is None else page_maker(html)
    pages: list[tuple[str, Statistics]] = []
    stream = standard_output()
    output = output_to(stream)
    wants = chosen_tables(tables, exclude)
    read = []
    chosen = readers(
        sources,
        wants=wants,
        start=start,
        end=until,
        schema=schema,
        lower_case_table_names=lower_case_table_names,
        keyring=keyring,
        layers=layers,
        skip_checksums=skip_checksums,
        picks=picked_transactions(include_gtids, exclude_gtids, server_id),
        kernels=COUNT,
    )
    for reader in chosen:
        wants = as_read(wants, reader)
        found = Statistics()
        count(reader, found)
        if make_page is not None:
            pages.append((reader.name, found))
        elif as_ == "json":
            text = json.dumps(_record(reader.name, found), ensure_ascii=False)
            stream.write(printable_json(text) + "\n")
        else:
            _print(output, reader.name, found)
        output.close()
        say_how_it_ended(reader)
        read.append(reader)
    if html is not None and make_page is not None:
        write_page(html, make_page(pages))
    say_where_names_are_from(read)
    check_tables(wants, read)
    return 0


def page_maker(html: Path) -> Callable[[list[tuple[str, Statistics]]], str]:
    """What makes the page, before a log is read: it may not be installed.

    Raises MissingExtra, and UsageError if the folder of ``html`` does not exist.
    """
    if not html.absolute().parent.is_dir():
        raise UsageError(f"--html {html}: the folder {html.parent} does not exist")
    with importing("report", "stat --html"):
        from tailrace.report import page  # noqa: PLC0415 - only where it is asked for
    return page


def write_page(html: Path, text: str) -> None:
    """Write the page; StorageError if that fails."""
    with told(html):
        html.write_text(text, encoding="utf-8")


def _record(name: str, found: Statistics) -> dict[str, Any]:
    return {
        "log": name,
        "files": found.files,
        "bytes": found.bytes,
        "transactions": found.transactions,
        "first": found.first or None,
        "last": found.last or None,
        "statement_changes": found.statement_changes,
        "rolled_back": found.rolled_back,
        "unfinished": found.unfinished,
        "tables": {
            table: {
                "inserts": counts.insert,
                "updates": counts.update,
                "deletes": counts.delete,
                "bytes": counts.bytes,
            }
            for table, counts in sorted(found.tables.items())
        },
        "events": {
            name: {"events": counts.events, "bytes": counts.bytes}
            for name, counts in sorted(found.events.items())
        },
        "largest_transactions": [
            {
                "position": str(each.start),
                "gtid": each.gtid,
                "rows": each.rows,
                "bytes": each.bytes,
                "seconds": each.seconds,
            }
            for each in found.largest
        ],
        "transaction_sizes": {
            what: {_range(digits): number for digits, number in sorted(counts.items()) if number}
            for what, counts in (("bytes", found.sizes.bytes), ("rows", found.sizes.rows))
        },
        "timeline": {
            "seconds": found.timeline.width,
            "tables": {
                table: [each._asdict() for each in intervals]
                for table, intervals in found.timeline.tables().items()
            },
            "definitions": [
                {"start": start, "statements": number}
                for start, number in found.timeline.definitions()
            ],
        },
        "definitions": [
            {
                "position": str(each.start),
                "gtid": each.gtid,
                "time": each.second,
                "database": each.database,
                "statement": each.statement,
            }
            for each in found.definitions
        ],
    }


def _range(digits: int) -> str:
    """The numbers that have so many binary digits, as ``64-127``."""
    return f"{1 << digits - 1}-{(1 << digits) - 1}" if digits > 1 else str(digits)


def _print(output: Output, name: str, found: Statistics) -> None:
    files, transactions = counted(found.files, "file"), counted(found.transactions, "transaction")
    text = f"{name}: {files}, {size(found.bytes)}, {transactions}"
    if found.first:
        first, last = time_text(found.first * 1_000_000), time_text(found.last * 1_000_000)
        text += f", {first} to {last} UTC"
    output.line((text, "file"))
    for note in found.not_counted:
        output.line((note, "alarm"))
    output.table(
        "Tables",
        ("table", "inserts", "updates", "deletes", "bytes"),
        [
            (
                table,
                f"{counts.insert:,}",
                f"{counts.update:,}",
                f"{counts.delete:,}",
                size(counts.bytes),
            )
            for table, counts in sorted(found.tables.items())
        ],
    )
    output.table(
        "Events",
        ("event", "events", "bytes"),
        [
            (name, f"{counts.events:,}", size(counts.bytes))
            for name, counts in sorted(found.events.items(), key=lambda item: -item[1].bytes)
        ],
    )
    output.table(
        "Largest transactions",
        ("position", "GTID", "rows", "bytes", "seconds"),
        [
            (
                str(each.start),
                each.gtid or "-",
                f"{each.rows:,}",
                size(each.bytes),
                f"{each.seconds:,}",
            )
            for each in found.largest
        ],
    )
