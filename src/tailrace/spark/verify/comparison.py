"""`verify`: whether the current tables of a lake equal the server's.

The server may change meanwhile, so its reading and the lake's are of different moments. Rows that
differ are read again, until nothing was committed in between, or until the lake, with all of the
log up to the second reading, differs from the server in the same way as before.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from tailrace.durations import seconds_of
from tailrace.errors import PipelineError, UsageError
from tailrace.live.tables import connected, unlogged_cascades
from tailrace.live.transport import ServerTransport
from tailrace.live.url import Source
from tailrace.log.sources import as_named
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.manifest.on_disk import within
from tailrace.spark.runtime.workers import Workers
from tailrace.spark.state.cascade.naming import CHANGED_BELOW
from tailrace.spark.verify.lag import LakeOfServer
from tailrace.spark.verify.report import VerifyReport
from tailrace.spark.verify.rounds import Rounds
from tailrace.table_filter import TableFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from tailrace.spark.input.server_log import Progress
    from tailrace.spark.verify.report import TableVerdict

RANGE_ROWS: Final = 100_000
FIRST_ROWS: Final = 10
_TRIES: Final = 6


def verify(
    source: str | Source,
    into: str | Path,
    *,
    spark: SparkSession | Callable[[], SparkSession] | None = None,
    tables: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    wait: float | str | None = None,
    range_rows: int = RANGE_ROWS,
    rows: int = FIRST_ROWS,
    progress: Progress | None = None,
) -> VerifyReport:
    """Compare the current tables of a lake with those of its server.

    ``source`` is the server, by the URL that `mirror` was given; ``into`` is the lake (a folder;
    for Iceberg also CATALOG.SCHEMA). `verify` writes only to a folder of its own in the lake, and
    removes it. ``tables`` are patterns of the tables to compare, ``exclude`` of those to leave out.
    Tasks of ``spark`` read the server's rows in ranges of about ``range_rows``. ``spark`` is a
    session, or a function that returns one; by default, a local session is started if there are
    more than a few rows to read. If the URL includes a password, this process reads the server.

    ``wait`` (``60s``, or a number of seconds) is the longest wait for the lake to be created, and
    again for it to catch up with the server. The report lists ``rows`` differing rows of each
    table. ``progress`` is called with ``create``, ``server``, ``lake`` or ``wait``, the amount
    done, and the whole amount.

    Raises `PipelineError` if the lake cannot be read or is another server's, UsageError (also if
    ``tables`` name a table that does not exist), and what connecting and reading raise.
    """
    if range_rows < 1 or rows < 0:
        raise UsageError("verify: range_rows is 1 or more, and rows 0 or more")
    wants = TableFilter.of(tables, exclude).watched()
    longest = 0.0 if wait is None else seconds_of(wait, "wait")
    asked = source if isinstance(source, Source) else Source.parse(source)
    workers = Workers(spark, here=True)
    clock = time.perf_counter()
    tell = progress or (lambda _phase, _done, _total: None)
    if longest and not LakeView.is_there(into):
        tell("create", 0, 1)
    with LakeOfServer(asked, into, longest) as lag, _scratch(lag.view.path) as folder:
        rounds = Rounds(asked, lag, workers, Path(folder), range_rows, rows, tell)
        wants, _ = as_named(wants, None, [ServerTransport(asked)])
        for _ in range(_TRIES):
            begin = lag.end()
            rounds.read_server(wants)
            end = lag.end()
            caught_up = lag.wait(end, longest, tell)
            rounds.read_lake()
            settled = caught_up and begin == end == lag.end()
            if rounds.judge(confirmed=settled, caught_up=caught_up) or not caught_up:
                break
        found = _explained(asked, rounds.verdicts())
        server = lag.end()
        size, transactions = lag.behind(end)
        return VerifyReport(
            tuple(found),
            str(lag.position),
            str(server),
            size,
            transactions,
            {"all": time.perf_counter() - clock},
            rounds.notes,
        )


def _explained(source: Source, found: list[TableVerdict]) -> list[TableVerdict]:
    """Tables that differ get a note where foreign keys change their rows below the log."""
    if not any(table.differing for table in found):
        return found
    with connected(source) as connection:
        keys = unlogged_cascades(connection) or {}
    said = {str(table): "; ".join(map(str, each)) for table, each in keys.items()}
    return [
        replace(table, notes=(*table.notes, f"{CHANGED_BELOW}: {said[table.name]}"))
        if table.differing and table.name in said
        else table
        for table in found
    ]


def _scratch(path: Path) -> TemporaryDirectory[str]:
    """A folder that tasks share with this process."""
    above = path / "_tailrace" / "verify"
    try:
        above.mkdir(exist_ok=True)
        within(path, above)
        prefix = f"{os.getpid()}-"
        return TemporaryDirectory(prefix=prefix, dir=above, ignore_cleanup_errors=True)
    except OSError as error:
        raise PipelineError(f"cannot write {above}: {error.strerror}") from error
