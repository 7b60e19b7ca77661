"""`mirror`: binary logs into a lake, on Spark.

The driver plans splits of the logs, tasks decode them and write Parquet themselves, the driver
makes what is whole visible in one step: a run that dies anywhere leaves the lake as it was, and the
next one goes on from there. docs/design/lake.md tells what the lake looks like.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from tailrace.columns import plan_splits
from tailrace.columns.native import compile_all
from tailrace.errors import PipelineError, UsageError
from tailrace.live.url import Source
from tailrace.schema.catalogue import Catalogue
from tailrace.schema.given import load
from tailrace.selection import wants
from tailrace.spark.current.build import Built, SourceChanges, build, table_changes
from tailrace.spark.lake.assemble import Made, assemble
from tailrace.spark.lake.names import folder_name
from tailrace.spark.lake.resume import grown, resume, state_after
from tailrace.spark.lake.store import Lake
from tailrace.spark.report import MirrorReport, TableReport
from tailrace.spark.servers import ServerLogs, apart
from tailrace.spark.session import session
from tailrace.spark.splits import SplitJob, write_split
from tailrace.spark.tasks import run
from tailrace.storage import find_all

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from tailrace.columns import Split
    from tailrace.position import Position
    from tailrace.rows.schema import TableDefinition
    from tailrace.schema.tables import TableState
    from tailrace.spark.changelog import ChangeFile
    from tailrace.spark.lake.manifest import Current, Manifest, SourceState
    from tailrace.spark.tasks import Argument, Report, Result
    from tailrace.storage import LogSeries
    from tailrace.storage.keyring.base import Keyring

    Progress = Callable[[str, int, int], None]

KEEP: Final = ("changelog", "current")
_WORTH_A_START: Final = 1 << 20
"""Bytes of new log from which on Spark is started before it is known what is in them."""


def mirror(
    sources: str | Path | Source | Sequence[str | Path | Source],
    into: str | Path,
    *,
    spark: SparkSession | Callable[[], SparkSession] | None = None,
    tables: Sequence[str] | None = None,
    schema: str | Path | None = None,
    keyring: Keyring | str | Path | None = None,
    keep: Sequence[str] = KEEP,
    format: str = "parquet",  # noqa: A002 - what Spark calls it
    statements: Literal["error", "skip"] = "error",
    progress: Progress | None = None,
) -> MirrorReport:
    """Bring a lake up to the end of binary logs; a run that finds nothing new changes nothing.

    ``sources`` are log files, folders of logs, folders of such folders, or URLs of these
    (``s3://bucket/logs``), or servers (``mysql://user@host``), whose logs up to their present end
    are received into the lake's folder first (`tailrace.spark.servers`). ``keyring`` has the keys
    of files that are encrypted (a path, or as `tailrace.storage.keyring.open` takes it); tasks read
    it where they run. ``into`` is the lake's folder, new or from an earlier run. ``spark`` is a
    session, or a function that gives one once it is needed; by default a local one is started.
    ``tables`` are patterns (``shop.*``), ``schema`` an SQL file of CREATE TABLE statements for logs
    that name no columns, ``keep`` what the lake has of each table. ``statements`` says what to do
    about changes that were logged as statements. ``progress`` is told, also from other threads, a
    phase (``receive`` in bytes of a server's log; ``start``; ``read`` in bytes of log; ``current``
    in tasks; ``commit`` in tables; or a text to show), how much of it is done, and of how much.

    Raises `PipelineError` for a lake or sources that do not fit together, UsageError for arguments
    that do not, and what reading a log raises.
    """
    _check(keep, format)
    options = Options(
        None if tables is None else tuple(tables), tuple(k for k in KEEP if k in keep), statements
    )
    files, servers = apart([sources] if isinstance(sources, str | Path | Source) else sources)
    if keyring is not None and not files:
        raise UsageError("a keyring has the keys of files: a server sends its log decrypted")
    series = _distinct(find_all(files, keyring))
    given = [] if schema is None else list(load(schema))
    with Lake(Path(into)) as lake:
        _check_options(lake, options)
        logs = [ServerLogs.below(lake.sources, source) for source in servers]
        for each in logs:
            state = lake.manifest.sources.get(each.folder.name)
            series = _distinct([*series, each.receive(state, progress)])
        report = _Run(lake, series, given, options, progress).run(spark)
        for each in logs:
            each.keep_from(lake.manifest.sources.get(each.folder.name))
        return report


@dataclass(frozen=True)
class Options:
    """What a run was asked for."""

    tables: tuple[str, ...] | None
    keep: tuple[str, ...]
    statements: Literal["error", "skip"]


class _Run:
    """One run on an open lake."""

    def __init__(
        self,
        lake: Lake,
        series: Sequence[LogSeries],
        given: Sequence[TableDefinition | TableState],
        options: Options,
        progress: Progress | None,
    ) -> None:
        self._lake = lake
        self._series = series
        self._given = given
        self._options = options
        self._progress = progress
        self._seconds: dict[str, float] = {}
        self._clock = time.perf_counter()

    def run(self, spark: SparkSession | Callable[[], SparkSession] | None) -> MirrorReport:
        manifest = self._lake.manifest
        begins = {each.name: self._begin(each) for each in self._series}
        fresh = sum(grown(each, manifest.sources.get(each.name)) for each in self._series)
        if not fresh:
            return self._report(manifest, {}, {})
        self._tell("start", 0, 1)
        with ThreadPoolExecutor(2) as pool:
            starting = pool.submit(_session, spark) if fresh >= _WORTH_A_START else None
            compiling = pool.submit(compile_all, say=lambda text: self._tell(text, 0, 1))
            splits = {
                name: plan_splits(series, after=after, catalogue=catalogue)
                for name, (series, after, catalogue) in begins.items()
            }
            if not any(splits.values()):
                return self._report(manifest, {}, {})
            compiling.result()
            session = (starting or pool.submit(_session, spark)).result()
        self._lap("start")
        return self._with(session, splits)

    def _begin(self, series: LogSeries) -> tuple[LogSeries, Position | None, Catalogue]:
        """Where to begin in a series: where the lake ends."""
        state = self._lake.manifest.sources.get(series.name)
        catalogue = Catalogue()
        after = None
        if state is not None:
            series, after, catalogue = resume(series, state)
        catalogue.given(self._given)
        return series, after, catalogue

    def _with(self, session: SparkSession, splits: Mapping[str, Sequence[Split]]) -> MirrorReport:
        lake, options = self._lake, self._options
        files = self._read(session, splits)
        self._lap("read")
        built: dict[str, Built] = {}
        if "current" in options.keep:
            built = self._build(session, splits, files)
        self._lap("current")
        sources: dict[str, SourceState] = {}
        for each in self._series:
            state = state_after(each, lake.manifest.sources.get(each.name), splits[each.name])
            if state is not None:
                sources[each.name] = state
        renamed = {
            change.renamed: source
            for source, parts in splits.items()
            for change in table_changes(parts)
            if change.renamed is not None
        }
        made = Made(files, built, sources, options.tables, options.keep, renamed)
        manifest, places = assemble(lake, made)
        self._tell("commit", 0, len(places))
        lake.commit(manifest, places)
        self._tell("commit", len(places), len(places))
        self._lap("commit")
        size = sum(split.end - split.start for each in splits.values() for split in each)
        return self._report(manifest, files, built, size)

    def _read(
        self, session: SparkSession, splits: Mapping[str, Sequence[Split]]
    ) -> dict[str, list[ChangeFile]]:
        """Decode all splits; the changelog files by table, in log order."""
        folder = self._lake.staging / "changelog"
        jobs = [
            SplitJob(split, self._options.tables, self._options.statements, folder)
            for each in splits.values()
            for split in each
        ]
        total = sum(job.split.end - job.split.start for job in jobs)
        self._tell("read", 0, total)
        results = run(
            session,
            write_split,
            jobs,
            self._lake.staging / "read",
            lambda done: self._tell("read", min(done, total), total),
        )
        files: dict[str, list[ChangeFile]] = {}
        for written in results:
            for file in sorted(written, key=lambda each: each.first):
                files.setdefault(file.name, []).append(file)
        _check_tables(self._lake.manifest, files)
        return files

    def _build(
        self,
        session: SparkSession,
        splits: Mapping[str, Sequence[Split]],
        files: Mapping[str, Sequence[ChangeFile]],
    ) -> dict[str, Built]:
        """The current states of all tables."""
        lake = self._lake
        test = wants(self._options.tables)
        folder = lake.staging / "current"
        folder.mkdir()
        rounds = 0

        def in_tasks(
            job: Callable[[Argument, Report], Result], arguments: Sequence[Argument]
        ) -> list[Result]:
            nonlocal rounds
            rounds += 1
            total = len(arguments)
            return run(
                session,
                job,
                arguments,
                lake.staging / f"current-{rounds}",
                lambda done: self._tell("current", done, total),
            )

        sources = [
            SourceChanges(
                parts,
                {name: each for name, each in files.items() if each[0].source == source},
                self._committed(source),
            )
            for source, parts in splits.items()
        ]
        built = build(sources, lambda name: test(*name.split(".", 1)), in_tasks, folder)
        for name, table in lake.manifest.tables.items():
            if table.source not in splits and table.current is not None:
                built[name] = Built(table.current, self._paths(name))
        return built

    def _committed(self, source: str) -> dict[str, tuple[Current, tuple[str | None, ...]]]:
        return {
            name: (table.current, self._paths(name))
            for name, table in self._lake.manifest.tables.items()
            if table.source == source and table.current is not None
        }

    def _paths(self, name: str) -> tuple[str | None, ...]:
        """Where the files of a committed current state are."""
        table = self._lake.manifest.tables[name]
        folder = self._lake.folder(folder_name(table.database, table.table)) / "current"
        files = table.current.files if table.current is not None else ()
        return tuple(None if file is None else str(folder / file.name) for file in files)

    def _report(
        self,
        manifest: Manifest,
        files: Mapping[str, Sequence[ChangeFile]],
        built: Mapping[str, Built],
        size: int = 0,
    ) -> MirrorReport:
        tables = []
        for name, table in manifest.tables.items():
            fresh = files.get(name, ())
            changes: dict[str, int] = {}
            for file in fresh:
                for operation, count in file.operations.items():
                    changes[operation] = changes.get(operation, 0) + count
            current = table.current
            seconds = sum(file.seconds for file in fresh)
            data = [*table.changelog, *(current.files if current is not None else ())]
            tables.append(
                TableReport(
                    name,
                    {operation: count for operation, count in changes.items() if count},
                    current.rows if current is not None and current.refused is None else None,
                    sum(file.size for file in data if file is not None),
                    seconds + (built[name].seconds if name in built else 0.0),
                    current.refused if current is not None else None,
                    table.dropped,
                    next((file.names for file in fresh if file.names != "log"), table.names),
                    _notes(current),
                )
            )
        positions = {name: f"{at.file}:{at.offset}" for name, at in manifest.sources.items()}
        return MirrorReport(manifest.version, tuple(tables), positions, size, self._seconds)

    def _tell(self, phase: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(phase, done, total)

    def _lap(self, phase: str) -> None:
        now = time.perf_counter()
        self._seconds[phase] = now - self._clock
        self._clock = now


def _session(spark: SparkSession | Callable[[], SparkSession] | None) -> SparkSession:
    if spark is None:
        return session()
    return spark() if callable(spark) else spark


def _check(keep: Sequence[str], lake_format: str) -> None:
    if unknown := [each for each in keep if each not in KEEP]:
        raise UsageError(f"a lake keeps {' and '.join(KEEP)}, and no {unknown[0]!r}")
    if not keep:
        raise UsageError(f"give what the lake is to keep: {', '.join(KEEP)}")
    if lake_format != "parquet":
        raise UsageError(f"a lake is written as parquet, and not as {lake_format!r}")


def _check_options(lake: Lake, options: Options) -> None:
    """A lake goes on as it was begun: what was left out before cannot be read any more."""
    manifest = lake.manifest
    if not manifest.version:
        return
    if manifest.keep != options.keep:
        raise PipelineError(
            f"{lake.path} was begun with --keep {','.join(manifest.keep)}: give that again, or a "
            "new folder"
        )
    if manifest.patterns != options.tables:
        begun = "all tables" if manifest.patterns is None else f"--tables {manifest.patterns}"
        raise PipelineError(
            f"{lake.path} was begun with {begun}: give the same again, or a new folder"
        )


def _distinct(series: Sequence[LogSeries]) -> Sequence[LogSeries]:
    by_name: dict[str, LogSeries] = {}
    for each in series:
        if each.files[0].joined:
            raise UsageError(
                f"{each.name}: a mirror reads logs more than once, and not through a pipe: give"
                " files, folders or URLs"
            )
        other = by_name.setdefault(each.name, each)
        if other is not each:
            raise PipelineError(
                f"{each.files[0].path} and {other.files[0].path} are both source {each.name!r}: "
                "name the folders of two servers' logs differently"
            )
    return series


def _check_tables(manifest: Manifest, files: Mapping[str, Sequence[ChangeFile]]) -> None:
    """A table of the lake comes from one source."""
    for name, written in files.items():
        sources = {file.source for file in written}
        if (known := manifest.tables.get(name)) is not None:
            sources.add(known.source)
        if len(sources) > 1:
            raise PipelineError(
                f"table {name} is in the logs of {' and '.join(sorted(sources))}: mirror them into "
                "a lake each, or leave it out of one with --tables"
            )
        if len({(file.database, file.table) for file in written}) > 1:
            raise PipelineError(f"two tables are called {name}: mirror one of them")


def _notes(current: Current | None) -> tuple[str, ...]:
    if current is None or current.refused is not None:
        return ()
    notes = current.notes
    if current.unseen:
        notes += (
            f"{current.unseen} of its rows were there before the log begins, so there may be more",
        )
    return notes
