"""The options of reads and streams of the data source ``binlog``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from tailrace.errors import UsageError
from tailrace.live.scheme import names_server
from tailrace.live.tables import connected, lower_case
from tailrace.live.transport import ServerTransport
from tailrace.log.sources import as_named
from tailrace.schema.letter_case import lowers_names
from tailrace.selection import start_of
from tailrace.sizes import bytes_of
from tailrace.spark.record.option import Option, choice, flag, names, number, parse, patterns
from tailrace.spark.stream.filters import full_name
from tailrace.table_filter import TableFilter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.selection import Start

STREAMING: Final = {
    "start": Option(start_of),
    "maxBytesPerTrigger": Option(number()),
    "maxTransactionsPerTrigger": Option(number()),
    "spool": Option(),
    "spoolLimit": Option(bytes_of),
    "index": Option(),
    "schemaChange": Option(choice("error", "ignore"), "error"),
}
_READING: Final = {
    "path": Option(),
    "tables": Option(patterns),
    "exclude": Option(patterns),
    "images": Option(choice("json", "row", "both")),
    "columns": Option(names),
    "schema": Option(),
    "lower_case_table_names": Option(choice("0", "1", "2")),
    "keyring": Option(),
    "verify_checksums": Option(flag, True),
    "statements": Option(choice("error", "skip"), "error"),
    "split": Option(number(), 64 << 20),
    **STREAMING,
}
NAMES: Final = frozenset(name.lower() for name in _READING)
"""All names, in lower case."""


@dataclass(frozen=True)
class Options:
    """The options of a read or stream, understood: `BinlogDataSource` describes them.

    ``table`` is the one table whose columns are wanted; None for change records with images as
    JSON. ``images`` are of one table. ``lowers_names`` says whether the server that wrote the log
    puts names into lower case, if that is known; then so are ``tables`` and ``table``. The others
    are named as the options are.
    """

    path: str
    tables: TableFilter
    table: str | None
    images: Literal["row", "both"]
    columns: tuple[str, ...] | None
    schema: str | None
    lowers_names: bool | None
    keyring: str | None
    verify_checksums: bool
    statements: Literal["error", "skip"]
    split: int
    start: Start | None
    max_bytes_per_trigger: int | None
    max_transactions_per_trigger: int | None
    spool: str | None
    spool_limit: int | None
    index: str | None
    schema_change: Literal["error", "ignore"]

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Options:
        """Understand what was given to ``.option(…)``, whatever the case of the names.

        A server is asked whether it puts names into lower case. Raises UsageError, also where it
        does not answer and ``tables`` or ``exclude`` have letters in upper case; and what
        connecting raises then.
        """
        options = parse(given, _READING, "format binlog")
        if not options["path"]:
            raise UsageError('format binlog: give the logs, a file or folder, by option("path", …)')
        tables, exclude, images, case = (
            options.pop(name) for name in ("tables", "exclude", "images", "lower_case_table_names")
        )
        told, path = TableFilter.of(tables, exclude), options["path"]
        asked = [ServerTransport.of_url(path)] if case is None and names_server(path) else []
        known: Any = None if case is None else int(case)
        wants, case = as_named(told, known, asked)
        if asked and case is None and told != told.lowered():
            with connected(asked[0].source) as connection:  # its error says why
                lower_case(connection)
            raise UsageError(
                f"{asked[0].name} does not answer whether it puts names of tables into lower case:"
                ' start again once it does, or give its option("lower_case_table_names", …)'
            )
        table = full_name(wants.only[0]) if wants.only and not wants.only[1:] else None
        if images == "json":
            table = None
        one = "is for one table: give its full name by option tables, such as shop.orders"
        if table is None and images not in {None, "json"}:
            raise UsageError(f"option images {images} {one}")
        if table is None and options["columns"] is not None:
            raise UsageError(f"option columns {one}")
        if table is not None and exclude is not None:
            raise UsageError(f"option exclude: option tables is one table, {table}: leave it out")
        return cls(
            table=table,
            tables=wants,
            images="both" if images == "both" else "row",
            lowers_names=lowers_names(case),
            **{re.sub("([A-Z])", r"_\1", name).lower(): each for name, each in options.items()},
        )


def refuse_streaming(given: Mapping[str, str], *, server: bool = False) -> None:
    """Raise UsageError where a batch read is given options of streams; a ``server`` has a spool."""
    streaming = {name.lower() for name in STREAMING} - ({"spool"} if server else set())
    if found := sorted(name for name in given if name.lower() in streaming):
        raise UsageError(f"option {found[0]} is for spark.readStream: a batch reads all there is")
