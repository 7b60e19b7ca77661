"""The index in shards, which Spark's tasks make: `index`.

The driver follows the log, of a server a copy, and ends each batch where a transaction ends. A task
for each shard takes the batch into a new version of it (a copy by links of the one before), with
`tailrace.search.feed`, as an index in one process is made. It reads the batch's part of the log; of
the rows it indexes those whose key is the shard's. When all shards have their new version, the
manifest is replaced: readers see all of a batch or nothing.

A shard's version holds its position, so the index needs no other checkpoint: each run begins at the
index's position. The next run removes what a killed run made and did not publish.
"""

from __future__ import annotations

import tempfile
import threading
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import LakeChanged, PipelineError, UsageError
from tailrace.live.scheme import names_server
from tailrace.live.url import Source as Server
from tailrace.log.rows import items
from tailrace.log.sources import as_named, logs_of
from tailrace.position import Position
from tailrace.schema.user_schema import load
from tailrace.search.analysis import Analyser
from tailrace.search.feed import Feed, Indexed, check_indexed
from tailrace.search.manifest import FILE, Manifest, shard_of
from tailrace.search.shard import ShardWriter, open_shard, state_in
from tailrace.spark.input.backlog import Limits
from tailrace.spark.input.growing_log import open_log
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.runtime.session import session
from tailrace.spark.runtime.tasks import run
from tailrace.spark.search.lake import position_of, take_lake
from tailrace.storage import find
from tailrace.storage.objects.url import names_object
from tailrace.storage.versions import Versions, versions_of
from tailrace.table_filter import TableFilter
from tailrace.transports import SeriesTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal

    from pyspark.sql import SparkSession

    from tailrace.log.sources import AnyLog
    from tailrace.schema.letter_case import LowerCase
    from tailrace.spark.input.growing_log import GrowingLog

_LOOK_SECONDS: Final = 0.05
_BATCH_BYTES: Final = 16 << 20
"""Bytes of log in a batch, so that readers see some of a backlog soon, and a kill costs little."""
_LAKE_SECONDS: Final = 0.2


@dataclass(frozen=True)
class _Log:
    """What a task reads: a log's files, and of a server also its tables."""

    path: str
    server: str | None
    options: dict[str, Any]


class _Copy:
    """The copy of a server's log, read as the server sends it: without what is before the start.

    In files all DDL before it is read, again for each batch.
    """

    def __init__(self, folder: str) -> None:
        (series,) = find(folder)
        files = SeriesTransport(series)
        self.name, self.peek = files.name, files.peek
        self.locate, self.read = files.locate, files.read


@dataclass(frozen=True)
class _Job:
    """The next version of a shard: with the log up to ``end``, or (None) the tables' rows; or with
    a version of a lake.
    """

    versions: Versions
    manifest: str
    number: int
    base: str | None
    log: _Log
    first: Position | None = None
    end: Position | None = None
    lake: LakeView | None = None


@dataclass(frozen=True)
class _Made:
    """A version: up to where it goes. Readers may see it when the log was read up to ``hold``."""

    name: str
    position: Position
    hold: Position
    rows: int
    transactions: int
    time: int | None


def _make(job: _Job) -> _Made:
    """In a task: make the next version of a shard. One that has the batch already stays as it is,
    as Spark may run a batch, and a task, twice.
    """
    new = f"shards/{job.number}-{token_hex(8)}"
    folder = job.versions.fork(job.base, new)
    wants = Manifest.loads(job.manifest, new)
    count = len(wants.shards)
    writer = ShardWriter(
        folder, wants.analyser, takes=lambda key: shard_of(key, count) == job.number
    )
    try:
        log = None if job.lake is not None else _log_of(job.log)
        feed = Feed(writer, wants.wants, log)
        at, read = writer.state.position, writer.state.read
        if job.lake is not None:
            feed.done.rows = take_lake(job.lake, writer, wants.wants)
            feed.done.transactions, feed.done.time = 1, writer.state.time
        elif job.end is None:
            feed.load_all(has_schema=job.log.options["schema"] is not None)
        elif read is None or read < job.end:
            with items(
                job.log.path if job.log.server is None else _Copy(job.log.path),
                start=at or job.first,
                until=job.end,
                tables=wants.tables,
                exclude=wants.exclude or None,
                **job.log.options,
            ) as reading:
                feed.run(reading)
            resume = feed.done.position if reading.in_doubt else job.end
            feed.finish(resume, job.end)
        position, tables = writer.state.position, writer.state.tables
    finally:
        writer.close()
    job.versions.done(job.base, new)
    if position is None:
        raise PipelineError(f"shard {job.number} has no position")
    done = feed.done
    loaded = [Position.parse(each.loaded) for each in tables.values() if each.loaded]
    return _Made(new, position, max([position, *loaded]), done.rows, done.transactions, done.time)


def _log_of(log: _Log) -> AnyLog:
    """The log itself; of a server not its copy."""
    return logs_of(log.server or log.path, log.options["keyring"])[0]


def index(
    source: str | Path,
    into: str | Path,
    *,
    shards: int = 1,
    tables: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    spark: SparkSession | None = None,
    follow: bool = False,
    work: str | Path | None = None,
    schema: str | Path | None = None,
    lower_case_table_names: LowerCase = None,
    keyring: str | Path | None = None,
    verify_checksums: bool = True,
    statements: Literal["error", "skip"] = "error",
    analyser: Analyser | None = None,
    stop: threading.Event | None = None,
    on_progress: Callable[[Indexed], object] | None = None,
) -> Indexed:
    """Index the text columns of tables on Spark, and with ``follow`` what changes in them.

    As `tailrace.search.index` in one process, with these differences. The index has ``shards``
    shards, each made by a task; of an existing index their number is fixed. ``into`` is a folder
    that driver and tasks share, or a URL in an object store (``s3://bucket/reviews``). ``source``
    is the path or URL of logs, or a server's URL, which tasks read, too: on a cluster do not put a
    password into it, but name an option file.

    ``source`` may also be a lake that `tailrace.spark.mirror` has made of one log, with current
    states (CATALOG.SCHEMA, or its folder): the index has the rows that the lake has, and follows
    its commits. Then one shard is made without Spark.

    ``work`` is a folder of this index that driver and tasks share, for the copy of a server's log
    and of an object store's shards; by default one in the index's folder, else a temporary one,
    which is removed at the end. ``stop`` ends a call that reads a log, or that follows a lake;
    ``on_progress`` is told after each batch.

    Readers see what was committed, batch by batch, whole transactions only. The driver and tasks
    may be killed at any time: the next call continues, and each change is indexed once.

    ``lower_case_table_names`` is that of the server that wrote the log. A server is asked, and a
    log shows it in most cases; what it leaves open is an error.

    Raises what `tailrace.search.index` raises, and PipelineError if Spark fails.

    >>> from tailrace.search import Index
    >>> from tailrace.spark.search import index
    >>> done = index("examples/shop/mysql", "reviews", shards=2, tables="shop.reviews")
    >>> done.rows, len(Index("reviews").states)
    (255, 2)
    """
    server = str(source) if names_server(str(source)) else None
    asked = () if server is None else logs_of(server)
    wants = TableFilter.of(tables, exclude)
    wants, lower_case_table_names = as_named(wants, lower_case_table_names, asked)
    stop = stop or threading.Event()
    if shards < 1:
        raise UsageError(f"an index has 1 shard or more, and not {shards}")
    wanted = Manifest(wants.only, wants.exclude, analyser or Analyser(), ("",) * shards)
    with ExitStack() as stack:
        place = _work(into, work, stack)
        versions = versions_of(into, FILE, place / "index")
        stack.enter_context(versions.alone())
        head = versions.head()
        found = None if head is None else Manifest.loads(head, str(into))
        if found is not None:
            found.check(wanted, into)
            if shards not in {1, len(found.shards)}:
                raise UsageError(f"{into}: the index has {len(found.shards)} shards")
        options: dict[str, Any] = {"verify_checksums": verify_checksums, "statements": statements}
        options |= {"schema": schema, "keyring": None if server else keyring}
        options["lower_case_table_names"] = lower_case_table_names
        spool = place / "log"
        log = _Log(str(source) if server is None else str(spool), server, options)
        manifest = found or wanted
        is_lake = server is None and not names_object(source) and LakeView.is_there(source)
        if spark is None and not (is_lake and len(manifest.shards) == 1):
            spark = session()
        indexing = _Indexing(spark, versions, manifest, log, on_progress)
        begin = indexing.begin(is_new=found is None, is_lake=is_lake)
        if is_lake:
            if schema is not None or keyring is not None:
                raise UsageError("a lake is read without a schema and a keyring")
            indexing.follow_lake(source, stop, follow=follow)
            return indexing.done
        growing = open_log(
            str(source),
            None if keyring is None else str(keyring),
            begin,
            server and str(spool),
            None,
            given=() if schema is None else load(schema),
        )
        with closing(growing):
            indexing.follow(growing, stop, follow=follow)
    return indexing.done


def _work(into: str | Path, work: str | Path | None, stack: ExitStack) -> Path:
    if work is None and names_object(into):
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tailrace-index-")))
    place = Path(into) / "work" if work is None else Path(work)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place.resolve()


@dataclass
class _Indexing:
    """The driver: has the next versions made, and publishes them together."""

    spark: SparkSession | None
    versions: Versions
    manifest: Manifest
    log: _Log
    on_progress: Callable[[Indexed], object] | None
    done: Indexed = field(default_factory=Indexed)

    def __post_init__(self) -> None:
        self._shards: list[str | None] = [None] * len(self.manifest.shards)
        self._published: tuple[str, ...] = ()
        self._hold: Position | None = None

    def begin(self, *, is_new: bool, is_lake: bool) -> Position | None:
        """Where the log is to be read from; None: from where its source says.

        A new index of a server has the rows of its tables first. Each shard reads them in a
        transaction of its own: readers see them when all shards were brought to one position.
        """
        if not is_new:
            self._shards = [*self.manifest.shards]
            self._published = self.manifest.shards
            self.versions.clean(self._published)
            shard = open_shard(self.versions.bring(self._published[0]), self.manifest.analyser)
            state = state_in(shard, shard.searcher())
            if (state.lake is not None) is not is_lake:
                kind = "a log" if is_lake else "a lake"
                raise UsageError(f"the index is of {kind}: give that, or another --into")
            if not is_lake:
                check_indexed(_log_of(self.log), state)
            self.done = Indexed(position=state.position, time=state.time)
            return state.position
        if self.log.server is None or Server.parse(self.log.server).start is not None:
            return None
        made = self._made()
        positions = [each.position for each in made]
        self._take(made, max(positions), min(positions))
        return min(positions)

    def follow_lake(self, lake: str | Path, stop: threading.Event, *, follow: bool) -> None:
        """Take in the lake's version, and with ``follow`` each newest one."""
        version = None
        while True:
            view = LakeView.open(lake)
            if view.manifest.version != version:
                version, end = view.manifest.version, position_of(view)
                try:
                    self._take(self._made(lake=view), end, end)
                except LakeChanged:
                    if LakeView.open(lake).manifest.version == version:
                        raise
                    continue
            if not follow or stop.wait(_LAKE_SECONDS):
                return

    def follow(self, log: GrowingLog, stop: threading.Event, *, follow: bool) -> None:
        """Follow the log, or take in what it has by now."""
        backlog = log.backlog
        first = log.begin()
        until = None if follow else log.present_end(first)
        at = backlog.offset(log.look(first), first)
        while not stop.is_set():
            series, end = log.next_end(at, Limits(_BATCH_BYTES))
            if until is not None:
                end = min(end, until)
            if end > at.position:
                made = self._made(first, end)
                self._take(made, max(each.hold for each in made), end)
                at = backlog.offset(series, end)
                log.committed(min(each.position for each in made))  # what is in-doubt is read again
            elif until is None or Position(series.files[-1].name, series.files[-1].size) < until:
                stop.wait(_LOOK_SECONDS)
            else:
                return

    def _made(
        self,
        first: Position | None = None,
        end: Position | None = None,
        lake: LakeView | None = None,
    ) -> list[_Made]:
        manifest = self.manifest.dumps()
        jobs = [
            _Job(self.versions, manifest, number, base, self.log, first, end, lake)
            for number, base in enumerate(self._shards)
        ]
        if self.spark is None:
            return [_make(job) for job in jobs]
        return run(self.spark, _make, jobs)

    def _take(self, made: list[_Made], hold: Position, end: Position) -> None:
        """Publish the new versions, if they are of one position, else when a later batch was made.

        ``hold`` is the highest that rows of one of them are of, ``end`` up to where all were read.
        """
        self._shards = [each.name for each in made]
        self._hold = hold if self._hold is None else max(hold, self._hold)
        rows = self.done.rows + max(each.rows for each in made)
        transactions = self.done.transactions + max(each.transactions for each in made)
        self.done = Indexed(rows, transactions, end, made[0].time or self.done.time)
        if self._hold <= end:
            self._hold = None
            shards = tuple(each.name for each in made)
            self.versions.publish(replace(self.manifest, shards=shards).dumps())
            self.versions.clean({*shards, *self._published})
            self._published = shards
        if self.on_progress is not None:
            self.on_progress(self.done)
