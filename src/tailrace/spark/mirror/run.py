"""`mirror`: binary logs into a lake, on Spark.

The driver plans splits of the logs. Tasks decode them and write data files. The driver then makes
all files of the batch visible in one commit: a run that dies before it leaves the lake as it was,
and the next run resumes there. docs/design/lake.md describes the lake.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Unpack

from tailrace.arguments import check_choice
from tailrace.durations import seconds_of
from tailrace.errors import UsageError
from tailrace.live.url import Source
from tailrace.schema.letter_case import lowers_names
from tailrace.schema.user_schema import load
from tailrace.spark.input.sources import Sources
from tailrace.spark.lake.asides import STATES
from tailrace.spark.lake.folder import format_of
from tailrace.spark.lake.lake import open_store
from tailrace.spark.manifest.lake_options import LakeKeywords, LakeOptions
from tailrace.spark.mirror.batches import BATCH_BYTES, Batches
from tailrace.spark.mirror.new_lake import NewLake
from tailrace.spark.mirror.retry import take_up
from tailrace.spark.mirror.unnamed import AskedNames, first_needed
from tailrace.spark.runtime.session import check_installed, check_spark, is_submitted
from tailrace.spark.runtime.workers import SMALL_BYTES, Workers
from tailrace.spark.state.cascade.naming import Cascades
from tailrace.table_filter import TableFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from tailrace.schema.letter_case import LowerCase
    from tailrace.spark.input.server_log import Progress
    from tailrace.spark.mirror.report import MirrorReport, Moment
    from tailrace.storage.keyring.base import Keyring

TRIGGER_SECONDS: Final = 10.0


def mirror(
    sources: str | Path | Source | Sequence[str | Path | Source],
    into: str | Path,
    *,
    spark: SparkSession | Callable[[], SparkSession] | None = None,
    schema: str | Path | None = None,
    keyring: Keyring | str | Path | None = None,
    statements: Literal["error", "skip"] = "error",
    retry_tables: str | Sequence[str] | None = None,
    incomplete: Literal["error", "accept"] = "error",
    progress: Progress | None = None,
    follow: bool = False,
    trigger: float | str = TRIGGER_SECONDS,
    batch_bytes: int = BATCH_BYTES,
    stop: threading.Event | None = None,
    on_moment: Callable[[Moment], None] | None = None,
    notice: Callable[[str], None] | None = None,
    lower_case_table_names: LowerCase = None,
    spool_limit: int | str | None = None,
    **lake: Unpack[LakeKeywords],
) -> MirrorReport:
    """Bring a lake up to the end of binary logs; a run that finds nothing new changes nothing.

    ``sources`` are log files, folders of logs, folders of such folders, URLs of these
    (``s3://bucket/logs``), or servers (``mysql://user@host``), whose logs are received into the
    lake's folder (`tailrace.spark.input.server_log`). A start in a server's URL (``?start=now``,
    ``?position=``, ``?gtid=``) is where a new lake begins; an existing one continues where it ends.

    - ``into``: the lake's folder, new or from an earlier run; for Iceberg also CATALOG.SCHEMA.
    - ``spark``: a session, or a function that gives one once it is needed; by default a local
      session is started.
    - ``keyring``: the keys of encrypted files (a path, or as `tailrace.storage.keyring.open` takes
      it); tasks read it where they run.
    - ``tables``, ``exclude``: patterns (``shop.*``) of the tables to mirror, and of those to leave
      out in any case: their rows are not decoded.
    - ``schema``: an SQL file of CREATE TABLE statements, for logs that name no columns.
    - ``format``: ``parquet`` (default), ``delta`` or ``iceberg``.
    - ``keep``: what the lake keeps of each table: ``changelog`` and ``current`` (default),
      ``history``.
    - ``keys``: the key columns of tables whose logs do not name them.
    - ``statements``: what to do about changes that were logged as statements.
    - ``shards``: several sources may have the same tables, which get a column ``_source``.
    - ``update_mode``: how changed rows of a large table's current state are replaced.
      ``merge-on-read`` (default of Delta and Iceberg) marks them as deleted and writes the new ones
      separately; ``copy-on-write`` rewrites their files, for readers without deletion vectors
      (docs/design/amplification.md).
    - ``cascades``: what to do about foreign keys that change rows without a log of it: ``name`` the
      tables (default), or ``apply`` what the keys do, from the definitions in the log
      (docs/design/cascades.md).
    - ``lower_case_table_names``: that of the server that wrote the logs. A server is asked, and a
      lake knows it of its sources. Logs show it in most cases; what they leave open is an error.

    - ``spool_limit``: how much of servers' logs is received and not yet in the lake, in bytes or as
      text (``20GB``, the default). Receiving pauses there and resumes. A file is deleted when the
      lake has all of it, so the disk holds a log file more.

    ``format``, ``keep``, ``tables``, ``exclude``, ``keys``, ``shards``, ``update_mode`` and
    ``cascades`` (`LakeKeywords`) are fixed when a lake is created: they need not be given again.

    If something goes wrong with one table, it is *set aside*: it stays as it is in the lake, and
    the others continue (`tailrace.spark.state.failure` decides what is one table's failure). Each
    run's report names it and the reason. ``retry_tables`` are patterns of such tables to resume
    first, by reading the log from where they stopped; one that fails again stays set aside.

    If the log of a server does not name a table's columns, or updates lack some that the server may
    generate, and its CREATE TABLE was not read, the server is asked for the definition
    (`tailrace.spark.mirror.unnamed`). If it does not fit the rows, the table is set aside.

    A table is incomplete if its CREATE TABLE is not in the log that is read: rows from before it
    may be missing (`tailrace.spark.mirror.complete`). A new lake is created with such tables only
    if ``incomplete`` is ``accept``; then they are marked, in the report and for `verify`.

    With ``follow`` it continues with new changes, in batches of at most ``batch_bytes`` bytes of
    log, every ``trigger`` (``10s``, or a number of seconds), until ``stop`` is set; then it ends
    after the current batch.

    Small batches are done in this process, without Spark
    (`tailrace.spark.runtime.workers.SMALL_BYTES`); without ``follow`` not if ``spark`` is a
    session.

    ``progress`` is called, also from other threads, with a phase (``receive`` in bytes of a
    server's log; ``start``; ``read`` in bytes of log; ``current`` in tasks; ``commit`` in tables;
    or a text to show), how much of it is done, and of how much. ``on_moment`` is called at each
    trigger, ``notice`` with sentences for people, such as that a pattern matches no table (a name
    that matches none creates no lake). The report is of all batches together.

    Raises `PipelineError` for a lake or sources that do not fit together, UsageError for wrong
    arguments, and what reading a log raises; the lake then stays at the last batch.
    """
    begun, only = format_of(into), LakeKeywords(format=lake.get("format"))
    options = LakeOptions.of({**lake, "format": begun or only["format"]})
    if begun is not None:  # opened in another format, the lake would seem to be new
        LakeOptions(format=begun).check(str(into), LakeOptions.of(only), only)
    check_installed(options.format)
    every = seconds_of(trigger, "trigger")
    check_choice("statements", statements, ("error", "skip"))
    check_choice("incomplete", incomplete, ("error", "accept"))
    if batch_bytes < 1:
        raise UsageError(f"batches of {batch_bytes} bytes: give a number from 1 on")
    say = notice or (lambda _text: None)
    given = [] if schema is None else list(load(schema))
    inputs = Sources(
        [sources] if isinstance(sources, str | Path | Source) else sources,
        keyring,
        given,
        say,
        lowers_names(lower_case_table_names),
        spool_limit,
    )
    tell = progress or (lambda _phase, _done, _total: None)
    starts = (spark is None or callable(spark)) and not is_submitted()

    def starting() -> None:
        check_spark(f"mirroring more than {SMALL_BYTES >> 20} MiB at once", java=starts)
        tell("start", 0, 1)

    if inputs.servers or follow:  # they may need it later: told before anything is received
        check_spark("mirroring a server, or with --follow,", java=starts)
    workers = Workers(spark, here=follow or starts, starting=starting)
    asks_for_tables = not (STATES.isdisjoint(options.keep) and options.tables.takes_all)
    with (
        open_store(into, options.format) as store,
        inputs.of_lake(
            store.sources,
            lambda: store.manifest.sources,
            lambda name: first_needed(store.manifest, name),
            options.tables if asks_for_tables and not store.manifest.version else None,
        ),
    ):
        retried = None if retry_tables is None else TableFilter.of(retry_tables)
        by_name = bool(options.keys or retried) or not options.tables.takes_all
        if inputs.lower_names(by_name=by_name):
            options = options.lowered()
            retried = None if retried is None else retried.lowered()
        if store.manifest.version:
            asked, options = options, store.manifest.options
            options.check(store.label, asked, lake)
        inputs.cascades = options.cascades == "apply"
        new: NewLake | None = None
        if not store.manifest.version:
            new = NewLake(options, inputs, accept=incomplete == "accept", follow=follow, notice=say)
        batches = Batches(
            inputs,
            store,
            options,
            workers,
            tell,
            Cascades(inputs.asked, options, say),
            AskedNames(inputs.asked.sources, say),
            new=new,
            statements=statements,
            follow=follow,
            trigger=every,
            most=batch_bytes,
            stop=(stop if follow else None) or threading.Event(),
            on_moment=on_moment,
        )
        if retried is not None:
            take_up(batches, retried)
        return batches.run()
