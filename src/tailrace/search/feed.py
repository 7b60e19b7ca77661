"""From logs or a server into an index: `index`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING, Final, Literal

from tailrace.constants import Flavour
from tailrace.errors import SchemaError, UsageError
from tailrace.live.transport import ServerTransport
from tailrace.log.changes import Change, Logged
from tailrace.log.rows import CommittedItem, Items, items
from tailrace.log.sources import as_named, logs_of
from tailrace.log_mark import check_log, mark_of
from tailrace.search.analysis import Analyser
from tailrace.search.manifest import FILE, Manifest
from tailrace.search.shard import ShardWriter
from tailrace.sql.logged import effects_in, renaming
from tailrace.storage.objects.url import names_object
from tailrace.storage.versions import Versions
from tailrace.table_filter import TableFilter
from tailrace.values.row import RowSet

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from tailrace.live.url import Source as Server
    from tailrace.log.sources import AnyLog, Source
    from tailrace.position import Position
    from tailrace.schema.letter_case import LowerCase
    from tailrace.search.shard import State
    from tailrace.selection import Bound
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.layer import Layers
    from tailrace.table_name import TableName

_AHEAD: Final = 512
"""Rows events and statements that are read ahead."""
_SECONDS: Final = 10.0
"""How long after a commit there is another one, however much there is to read."""
_ROWS: Final = 500_000
"""After so many rows there is a commit."""
_EVERY: Final = 1.0
"""Seconds between two reports of the progress."""


@dataclass
class Indexed:
    """What was indexed by a call, and up to where."""

    rows: int = 0
    transactions: int = 0
    position: Position | None = None
    time: int | None = None
    """When the last transaction was committed on the server, in microseconds UTC."""
    skipped: int = 0
    """Changes that were logged as statements, and are missing (``statements="skip"``)."""


def index(
    source: Source,
    into: str | Path,
    *,
    tables: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    until: Bound | None = None,
    follow: bool = False,
    schema: str | Path | None = None,
    keyring: Keyring | str | Path | None = None,
    layers: Layers | None = None,
    lower_case_table_names: LowerCase = None,
    verify_checksums: bool = True,
    statements: Literal["error", "skip"] = "error",
    analyser: Analyser | None = None,
    on_start: Callable[[Items], object] | None = None,
    on_progress: Callable[[Indexed], object] | None = None,
) -> Indexed:
    """Index the text columns of tables, and with ``follow`` what changes in them from then on.

    ``into`` is the index's folder. A new index of a server has first the rows that its tables have
    (its user needs SELECT and LOCK TABLES on them); of logs it has what they tell. One that
    exists continues where it ends. The other arguments are those of `tailrace.rows`; ``analyser``
    says how text becomes tokens. ``on_start`` is given the reading, whose ``stop`` ends the call
    after a transaction; ``on_progress`` is told once a second how far it is.

    Readers see what was committed, transaction by transaction, moments later. The process may be
    killed at any time: the next call continues, and each change is indexed once.

    ``lower_case_table_names`` is that of the server that wrote the log. A server is asked, and a
    log shows it in most cases; what it leaves open is an error.

    Raises what reading raises; StorageError if another process writes to the index; UsageError for
    other tables or another analyser than the index has; SchemaError for a statement after which the
    index has to be built again.

    >>> from tailrace.search import Index, index
    >>> done = index("examples/shop/mysql", "reviews", tables="shop.reviews")
    >>> done.rows, str(done.position)
    (255, 'binlog.000004:51043')
    >>> Index("reviews").search("+would +again", limit=1).hits[0].table
    'shop.reviews'
    """
    logs = logs_of(source, keyring, layers)
    if len(logs) != 1:
        raise UsageError("an index follows one log: give one")
    wants = TableFilter.of(tables, exclude)
    wants, lower_case_table_names = as_named(wants, lower_case_table_names, logs)
    wanted = Manifest(wants.only, wants.exclude, analyser or Analyser())
    if names_object(into):
        raise UsageError(f"{into}: an index in an object store is made on Spark (--shards)")
    server = logs[0].source if isinstance(logs[0], ServerTransport) else None
    with Versions(Path(into), FILE).alone():
        manifest = Manifest.agreed(into, wanted)
        if len(manifest.shards) > 1:
            raise UsageError(
                f"{into}: the index has {len(manifest.shards)} shards: continue it on Spark"
                " (--shards)"
            )
        writer = ShardWriter(Path(into) / manifest.shards[0], manifest.analyser)
        feed = Feed(writer, wants, logs[0], on_progress)
        try:
            if writer.state.lake is not None:
                raise UsageError(
                    f"{into}: the index is of a lake: give the lake, or another folder"
                )
            check_indexed(logs[0], writer.state)
            if writer.state.position is None and server is not None and server.start is None:
                feed.load_all(has_schema=schema is not None)
            reading = items(
                logs[0],
                start=writer.state.position,
                until=until,
                follow=follow,
                tables=tables,
                exclude=exclude,
                schema=schema,
                lower_case_table_names=lower_case_table_names,
                verify_checksums=verify_checksums,
                statements=statements,
            )
            with reading:
                if on_start is not None:
                    on_start(reading)
                feed.run(reading)
                feed.done.skipped = reading.skipped_statements
        finally:
            writer.close()
    return feed.done


def check_indexed(log: AnyLog, state: State) -> None:
    """Raise `LogPurged`, `LogReset` if a log is not the one that an index has read."""
    if state.position is not None:
        check_log(log, state.position, state.mark, "build the index again, in another folder")


class Feed:
    """Takes what is read into a shard, and decides when to commit; ``log`` is None for a lake."""

    def __init__(
        self,
        writer: ShardWriter,
        wants: TableFilter,
        log: AnyLog | None,
        on_progress: Callable[[Indexed], object] | None = None,
    ) -> None:
        self.server = log.source if isinstance(log, ServerTransport) else None
        self._log = log
        state = writer.state
        self.done = Indexed(position=state.position, time=state.time)
        self._writer = writer
        self._wants = wants
        self._on_progress = on_progress
        self._told = 0.0
        self._read = state.read
        self._time = state.time
        self._committed = time.monotonic()
        self._took = 0.0
        self._at_once = self._is_open = False

    # --- rows by SELECT --------------------------------------------------------------------------

    def load_all(self, *, has_schema: bool) -> None:
        """The rows of all tables, of a server whose index is new."""
        from tailrace.live.snapshot import logs_names, wanted_tables  # noqa: PLC0415 - with PyMySQL

        if self.server is not None:
            if not (has_schema or logs_names(self.server)):
                raise UsageError(
                    f"{self.server.name}: its log does not have the names of columns: set"
                    " binlog_row_metadata=FULL there, or give its tables' CREATE TABLE (--schema)"
                )
            tables = wanted_tables(self.server, self._wants)
            self.done.position = self._read = self._load(self.server, tables)
        self._commit()

    def _load(self, server: Server, tables: Collection[TableName]) -> Position:
        """Read tables; readers see them at the next commit, ahead of the others for moments."""
        from tailrace.live.snapshot import snapshot  # noqa: PLC0415 - as above

        first, waiting = None, {*tables}
        while True:  # again for tables that a statement changed meanwhile
            with snapshot(server, waiting) as found:
                first = first or found.position
                for name in found.missing:
                    self._writer.missing(str(name), found.missing_at)
                waiting -= found.missing
                for table in found.tables:
                    self._writer.drop(str(table.name))
                    for row in table.rows:
                        self._writer.change(table.schema, (row,))
                        self._count(1)
                    if table.is_unchanged():
                        self._writer.loaded(table.schema, table.state, found.position)
                        waiting.remove(table.name)
            if not waiting:
                return first

    def _define(self, table: TableName, flavour: Flavour) -> None:
        """Ask MariaDB for a table's definition if the log was not read from its CREATE TABLE on.

        Raises SchemaError if the server does not tell it.
        """
        is_told = flavour is not Flavour.MARIADB or self._writer.defines(table)
        if self.server is None or is_told:
            return
        from tailrace.live.tables import definitions_of  # noqa: PLC0415 - with PyMySQL

        said = definitions_of(self.server, [table])
        if said.end is None or table not in said.tables:
            raise SchemaError(
                f"{table}: MariaDB's log does not say which columns are UUID, INET or JSON, and the"
                f" server does not tell its definition ({said.reasons[table]}): give its CREATE"
                " TABLE (--schema), or leave it out (--exclude)"
            )
        self._writer.learn(said.tables[table], said.end)

    # --- the log ---------------------------------------------------------------------------------

    def run(self, reading: Items) -> None:
        """Take in all that is read."""
        self._writer.share_definitions(reading.definitions)
        ahead: Queue[CommittedItem | BaseException | None] = Queue(_AHEAD)

        def read() -> None:
            try:
                for item in reading:
                    ahead.put(item)
                ahead.put(None)
            except BaseException as error:  # noqa: BLE001 - it is raised below
                ahead.put(error)

        thread = Thread(target=read, name="tailrace index", daemon=True)
        thread.start()
        try:
            while (item := self._next(ahead)) is not None:
                if isinstance(item, BaseException):
                    raise item
                self._take(item)
        finally:
            reading.stop()
            reading.close()
            while thread.is_alive():  # it may wait for room
                while not ahead.empty():
                    ahead.get_nowait()
                thread.join(0.01)
        if not self._is_open and (
            self._writer.pending or self.done.position != self._writer.state.position
        ):
            self._commit()

    def _next(
        self, ahead: Queue[CommittedItem | BaseException | None]
    ) -> CommittedItem | BaseException | None:
        """The next item. What was taken in is committed when there is time for it, or need."""
        while not self._is_open:
            now = time.monotonic()
            since = now - self._committed
            moved = self.done.position != self._writer.state.position
            if not (self._writer.pending or moved):
                break
            pause = self._took if self._writer.pending else _SECONDS
            idle = ahead.empty() and since >= pause
            if idle or self._at_once or since >= _SECONDS or self._writer.pending >= _ROWS:
                self._commit()
                break
            try:
                return (
                    ahead.get(timeout=max(pause - since, 0.001)) if ahead.empty() else ahead.get()
                )
            except Empty:
                continue
        return ahead.get()

    def _take(self, given: CommittedItem) -> None:
        item, read, resume = given
        if resume is not None:
            self._end(read, resume)
        elif self._read is not None and read <= self._read:
            return  # it is in the index, of an earlier call
        elif isinstance(item, Change):
            self._is_open = True
            table = item.event.table_map.full_name
            if not self._writer.takes_changes(table, read):
                return
            self._define(table, item.event.form.flavour)
            schema = self._writer.schema_of(item.event)
            rows = [*iter(RowSet(item.event, schema))]  # a list of one asks for its length first
            self._writer.change(schema, rows)
            self._time = item.group.time_of(item.event)
            self._count(len(rows))
        elif isinstance(item, Logged):
            self._statement(item, read)

    def _statement(self, item: Logged, read: Position) -> None:
        if self._writer.pending and not self._is_open:
            self._commit()
        self._is_open = True  # until its end is read, and so the position after it
        unknown = self._writer.statement(item.event, self._wants, read)
        self._at_once = self._at_once or self._writer.pending > 0
        if not unknown:
            return
        if self.server is None:
            names = ", ".join(map(str, sorted(unknown)))
            renamed = any(renaming(effect) is not None for effect in effects_in(item.event))
            more = ", or select the table that was renamed, too (--tables)" if renamed else ""
            raise item.event.error(
                f"{names}: rows came or went with a statement, and are not in the log:"
                f" «{item.event.sql:.100}»: index the server{more}",
                SchemaError,
            )
        self._load(self.server, sorted(unknown))

    def _end(self, read: Position, resume: Position) -> None:
        self._is_open = False
        self.done.transactions += 1
        self.done.position, self.done.time = resume, self._time
        if self._read is None or read > self._read:
            self._read = read

    def finish(self, position: Position | None, read: Position) -> None:
        """Commit what was taken in, when the log was read up to ``read``."""
        self.done.position, self._read = position, read
        self._commit()

    def _commit(self) -> None:
        begin = time.monotonic()
        position, state = self.done.position, self._writer.state
        before = None if state.position is None else state.position.file
        if self._log is not None and position is not None and position.file != before:
            state.mark = mark_of(self._log, position.file)
        self._writer.commit(position, read=self._read, time=self._time)
        self._committed = time.monotonic()
        self._took = self._committed - begin
        self._at_once = False

    def _count(self, rows: int) -> None:
        self.done.rows += rows
        if self._on_progress is not None and time.monotonic() - self._told >= _EVERY:
            self._told = time.monotonic()
            self._on_progress(self.done)
