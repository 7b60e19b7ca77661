"""One batch: what is new in logs is decoded by tasks, put into tables' states, and committed."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from tailrace.errors import LakeChanged, PipelineError
from tailrace.spark.current import patching
from tailrace.spark.current.build import Built, SourceChanges, build
from tailrace.spark.history.build import BuiltHistory, build_history
from tailrace.spark.lake.assemble import Made
from tailrace.spark.lake.damage import reading
from tailrace.spark.lake.resume import state_after
from tailrace.spark.report import report_of
from tailrace.spark.splits import SplitJob, write_split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tailrace.columns import Split
    from tailrace.selection import TableName
    from tailrace.spark.changelog import ChangeFile
    from tailrace.spark.current.patching import Patches
    from tailrace.spark.lake.manifest import Manifest, SourceState
    from tailrace.spark.lake.protocol import LakeStore
    from tailrace.spark.options import Options
    from tailrace.spark.report import MirrorReport
    from tailrace.spark.tasks import Report
    from tailrace.spark.wanted import WantedTables
    from tailrace.spark.workers import Workers
    from tailrace.storage import LogSeries

    Progress = Callable[[str, int, int], None]

_TRIES: Final = 3

Argument = TypeVar("Argument")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Taken:
    """What a batch takes of a source: splits, one behind the other, and the files they are in."""

    series: LogSeries
    splits: Sequence[Split]


class Batches:
    """Runs batches on an open lake, one after the other.

    ``tell`` is told how far a batch is, as `mirror`'s ``progress``, also from other threads.
    ``patches`` are other limits of merge-on-read than the usual ones, where that is the mode.
    ``wanted`` looks at the tables of the first batch of a new lake.
    """

    def __init__(
        self,
        store: LakeStore,
        options: Options,
        workers: Workers,
        tell: Progress,
        patches: Patches | None = None,
        wanted: WantedTables | None = None,
    ) -> None:
        self._store = store
        self._options = options
        self._workers = workers
        self._tell = tell
        beside = options.update_mode == "merge-on-read"
        self._patches = (patches or patching.DEFAULT_PATCHES) if beside else None
        self._jobs = 0
        self._asked = wanted

    def run(
        self, taken: Mapping[str, Taken], seconds: dict[str, float] | None = None
    ) -> MirrorReport:
        """Bring the lake forward by what was taken of each source, in one commit.

        ``seconds`` are those spent before, by phase, for the report. Where it fails, the lake is
        as it was, and another batch may be run. It is done again, a few times, where others write
        to tables of the lake meanwhile; then it raises `LakeChanged`.
        """
        for _ in range(_TRIES - 1):
            with contextlib.suppress(LakeChanged):
                return self._run(taken, seconds)
        return self._run(taken, seconds)

    def _run(self, taken: Mapping[str, Taken], seconds: dict[str, float] | None) -> MirrorReport:
        store = self._store
        laps = _Laps(dict(seconds or {}))
        store.refresh()
        try:
            files = self._read(taken)
            laps.lap("read")
            with reading(f"what the lake {store.label} has"):
                made = self._made(taken, files, laps)
                self._tell("commit", 0, 1)
                manifest = store.commit(made)
        except BaseException:
            store.discard()
            raise
        self._tell("commit", len(manifest.tables), len(manifest.tables))
        laps.lap("commit")
        size = sum(split.end - split.start for each in taken.values() for split in each.splits)
        return report_of(manifest, files, made.built, made.histories, size, laps.seconds)

    def _made(
        self, taken: Mapping[str, Taken], files: dict[str, list[ChangeFile]], laps: _Laps
    ) -> Made:
        """What the changes make of the committed states."""
        store = self._store
        sources = self._changes(taken, files)
        built = self._current(sources, taken) if "current" in self._options.keep else {}
        laps.lap("current")
        histories: dict[str, BuiltHistory] = {}
        if "history" in self._options.keep:
            histories = self._history(sources, taken)
            laps.lap("history")
        states: dict[str, SourceState] = {}
        for name, each in taken.items():
            state = state_after(each.series, store.manifest.sources.get(name), each.splits)
            if state is not None:
                states[name] = state
        return Made(
            files,
            built,
            states,
            self._options.tables,
            self._options.keep,
            histories=histories,
            shards=bool(self._options.shards),
            keys=self._options.keys,
            origins=self._renamed(taken),
            update_mode=self._options.update_mode or "copy-on-write",
        )

    def _read(self, taken: Mapping[str, Taken]) -> dict[str, list[ChangeFile]]:
        """Decode all splits; the changelog files by table's key, in log order."""
        folder = self._store.staging / "changelog"
        shards = bool(self._options.shards)
        asked = None if self._store.manifest.version else self._asked
        tables = self._options.tables if asked is None else asked.tables
        jobs = [
            SplitJob(split, tables, self._options.statements, folder, shards)
            for each in taken.values()
            for split in each.splits
        ]
        total = sum(job.split.end - job.split.start for job in jobs)
        self._tell("read", 0, total)
        results = self._workers.run(
            write_split,
            jobs,
            self._store.staging / "read",
            lambda done: self._tell("read", min(done, total), total),
            total,
        )
        self._tell("read", total, total)
        if asked is not None:
            asked.read(_tables_of(taken.values()).union(*(each.met for each in results)))
        files: dict[str, list[ChangeFile]] = {}
        for written in results:
            for file in sorted(written.files, key=lambda each: each.first):
                key = f"{file.source}/{file.name}" if shards else file.name
                files.setdefault(key, []).append(file)
        _check_tables(self._store.manifest, files)
        return files

    def _changes(
        self, taken: Mapping[str, Taken], files: Mapping[str, Sequence[ChangeFile]]
    ) -> dict[str, SourceChanges]:
        """What is new of each source, and the states that its tables have in the lake."""
        store = self._store
        found = {}
        for source, each in taken.items():
            tables = {
                key: table for key, table in store.manifest.tables.items() if table.source == source
            }
            found[source] = SourceChanges(
                each.splits,
                {new[0].name: new for new in files.values() if new[0].source == source},
                {
                    self._name(key, source): (table.current, store.current_paths(key))
                    for key, table in tables.items()
                    if table.current is not None
                },
                histories={
                    self._name(key, source): (table.history, store.history_paths(key))
                    for key, table in tables.items()
                    if table.history is not None
                },
                shard=source if self._options.shards else None,
            )
        return found

    def _current(
        self, sources: Mapping[str, SourceChanges], taken: Mapping[str, Taken]
    ) -> dict[str, Built]:
        """The current states of all tables, by key."""
        built = {}
        for source, changes, folder in self._apart(sources, "current"):
            done = build(
                changes,
                self._wanted,
                self._in_tasks,
                folder,
                keys=dict(self._options.keys),
                patches=self._patches,
            )
            built.update({self._key(source, name): each for name, each in done.items()})
        for key, table in self._store.manifest.tables.items():
            if table.source not in taken and table.current is not None:
                built[key] = Built(table.current, self._store.current_paths(key))
        return built

    def _history(
        self, sources: Mapping[str, SourceChanges], taken: Mapping[str, Taken]
    ) -> dict[str, BuiltHistory]:
        """The histories of all tables, by key."""
        built = {}
        for source, changes, folder in self._apart(sources, "history"):
            done = build_history(
                changes, self._wanted, self._in_tasks, folder, keys=dict(self._options.keys)
            )
            built.update({self._key(source, name): each for name, each in done.items()})
        for key, table in self._store.manifest.tables.items():
            if table.source not in taken and table.history is not None:
                built[key] = BuiltHistory(table.history, self._store.history_paths(key))
        return built

    def _apart(
        self, sources: Mapping[str, SourceChanges], name: str
    ) -> Iterator[tuple[str, list[SourceChanges], Path]]:
        """What is built together, and where: of shards each on its own, for tables' names recur."""
        top = self._store.staging / name
        top.mkdir()
        if not self._options.shards:
            yield "", list(sources.values()), top
            return
        for number, (source, each) in enumerate(sources.items()):
            folder = top / str(number)
            folder.mkdir()
            yield source, [each], folder

    def _renamed(self, taken: Mapping[str, Taken]) -> dict[str, str]:
        """The sources of tables that got their names from others, by key."""
        return {
            self._key(source, change.renamed): source
            for source, each in taken.items()
            for split in each.splits
            for change in split.changes
            if change.renamed is not None and self._wanted(change.renamed)
        }

    def _wanted(self, name: str) -> bool:
        return self._options.tables(*name.split(".", 1))

    def _key(self, source: str, name: str) -> str:
        return f"{source}/{name}" if self._options.shards else name

    def _name(self, key: str, source: str) -> str:
        return key.removeprefix(f"{source}/") if self._options.shards else key

    def _in_tasks(
        self, job: Callable[[Argument, Report], Result], arguments: Sequence[Argument]
    ) -> list[Result]:
        self._jobs += 1
        total = len(arguments)
        return self._workers.run(
            job,
            arguments,
            self._store.staging / f"job-{self._jobs}",
            lambda done: self._tell("current", done, total),
            _bytes_read(arguments),
        )


class _Laps:
    """Wall-clock seconds by phase."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds
        self._clock = time.perf_counter()

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.seconds[phase] = now - self._clock
        self._clock = now


def _tables_of(taken: Iterable[Taken]) -> set[TableName]:
    """The tables that the statements of logs tell of."""
    found: set[TableName] = set()
    for split in (split for each in taken for split in each.splits):
        found |= split.catalogue.names()
        names = [each.renamed or each.table for each in split.changes if each.kind != "drop"]
        found |= {(database, table) for database, _, table in (one.partition(".") for one in names)}
    return {each for each in found if "*" not in each}


def _check_tables(manifest: Manifest, files: Mapping[str, Sequence[ChangeFile]]) -> None:
    """A table of the lake comes from one source, unless there are shards."""
    for key, written in files.items():
        sources = {file.source for file in written}
        if (known := manifest.tables.get(key)) is not None:
            sources.add(known.source)
        if len(sources) > 1:
            raise PipelineError(
                f"table {key} is in the logs of {' and '.join(sorted(sources))}: mirror them into "
                "a lake each, leave it out of one with --tables, or begin a lake with --shards, "
                "which has a column _source"
            )
        if len({(file.database, file.table) for file in written}) > 1:
            raise PipelineError(f"two tables are called {key}: mirror one of them")


def _bytes_read(arguments: object) -> int:
    """The sizes of the files that jobs name, at most some fields deep."""
    if isinstance(arguments, tuple | list):
        return sum(_bytes_read(each) for each in arguments)
    if isinstance(arguments, str):
        path = Path(arguments)
        return path.stat().st_size if path.is_absolute() and path.is_file() else 0
    reads = getattr(arguments, "reads", None)
    if isinstance(reads, int):  # a job that reads some columns only says how much
        return reads
    found = 0
    for name in ("source", "base", "pieces", "spills", "paths", "tails", "path", "open", "files"):
        value = getattr(arguments, name, None)
        if value is not None:
            found += _bytes_read(value)
    return found
