"""A transaction that is being filled: rows of tables, statements, events."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from tailrace.arguments import check_object, check_type
from tailrace.constants import EventFlag, EventType, Flavour, RowsFlag
from tailrace.errors import BoundaryError, UsageError
from tailrace.events import (
    AnnotateRowsEvent,
    Event,
    QueryCompressedEvent,
    QueryEvent,
    RowsQueryEvent,
    StatusVariable,
    XidEvent,
)
from tailrace.events.transaction import XID_SIZE
from tailrace.gtid import MariadbGtid
from tailrace.schema.classify import (
    StatementKind,
    classify,
    is_temporary,
    leading_words,
    of_database,
)
from tailrace.schema.table import Table
from tailrace.transaction.statements import (
    savepoint_of_rollback,
    savepoint_set,
    xa_end,
    xa_statement,
)
from tailrace.writing.cache import Group, cached
from tailrace.writing.foreign import OF_THE_FILE
from tailrace.writing.rows import LEAST_COMPRESSED, RowsSource

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
    from types import TracebackType

    from tailrace.gtid import AnyGtid
    from tailrace.position import Position
    from tailrace.writing.cache import EventCache, MadeEvents, RowsChunk
    from tailrace.writing.dialect import Dialect
    from tailrace.writing.gtids import AskedGtid
    from tailrace.writing.options import WriterOptions
    from tailrace.writing.rows import Change, WrittenTable


_DEFINITIONS: Final = frozenset(
    {StatementKind.DDL_TABLE, StatementKind.CREATE_SELECT, StatementKind.DDL_OTHER}
)


@dataclass(frozen=True, slots=True)
class Standing:
    """``alone``: it commits by itself. ``definition``: it is DDL, GRANT or the like.

    ``of_database``: it makes, changes or drops a database, and must not be run in one.
    ``xa_rollback``: it rolls a prepared transaction back.
    """

    alone: bool
    definition: bool
    of_database: bool
    xa_rollback: bool

    @classmethod
    def of(cls, sql: str) -> Self:
        """Classify this text. Raises UsageError for the begin or end of a transaction, and for
        the end of an XA transaction whose name is not as servers log it.
        """
        kind = classify(sql)
        try:
            how = xa_end(sql.encode())
            ends_xa = how is not None and xa_statement(sql) is not None
        except BoundaryError as error:
            raise UsageError(error.message) from None
        savepoint = savepoint_set(sql) or savepoint_of_rollback(sql)
        inside = savepoint or leading_words(sql, 1) == ["RELEASE"]
        if kind is StatementKind.CONTROL and not ends_xa and not inside:
            raise UsageError(
                f"{sql[:40]!r}: a transaction begins and ends with the `with` block, not by SQL"
            )
        definition = kind in _DEFINITIONS and not is_temporary(sql)
        rolls_back = ends_xa and how == "ROLLBACK"
        return cls(ends_xa or definition, definition, of_database(sql), rolls_back)


def text_of(sql: str | bytes) -> str:
    """A statement as text. Raises UsageError."""
    check_type("sql", sql, "str | bytes")
    if isinstance(sql, bytes):
        return sql.decode(errors="replace")
    try:
        sql.encode()
    except UnicodeEncodeError:
        raise UsageError("sql: the text is not Unicode; give it as bytes") from None
    return sql


_REJECTED: Final = OF_THE_FILE | {
    EventType.GTID,
    EventType.ANONYMOUS_GTID,
    EventType.GTID_TAGGED,
    EventType.MARIADB_GTID,
    EventType.XID,
    EventType.XA_PREPARE,
    EventType.TRANSACTION_PAYLOAD,
}
"""What the writer writes itself, or what belongs to no transaction."""


class TransactionLog(Protocol):
    """What a transaction needs of the log that it is committed to; `LogWriter` documents it."""

    dialect: Dialect
    options: WriterOptions
    server_id: int
    now: Callable[[], int]
    made: MadeEvents

    @property
    def flavour(self) -> Flavour:
        """Whose log it is."""

    def choose_gtid(self, gtid: AskedGtid, **source: Any) -> AnyGtid | None:
        """The GTID of the next transaction; raises if none can be added."""

    def table(self, table: Table, /) -> WrittenTable:
        """A table with its id."""

    def cache(self) -> EventCache:
        """An empty cache for a transaction."""

    def next_xid(self) -> int:
        """A number for a commit."""

    def write_group(
        self, group: Group, ready: Callable[[Group], None] | None, /
    ) -> Position | None:
        """Write it; where it ends."""

    def announce(self, group: Group, /) -> None:
        """Tell observers that it was written."""

    def rolled_back(self, error: BaseException | None = None, /) -> None:
        """Tell observers that it was not."""


@dataclass(slots=True)
class _Statement:
    """A statement whose rows are being added: its tables and text, and its last rows so far."""

    tables: dict[Table, WrittenTable]
    text: str | None
    held: RowsChunk | None = None


class TransactionWriter:
    """A transaction in the making. Made by `LogWriter.transaction`; a context manager.

    Each `insert`, `update`, `delete` is one statement: a table map, and rows events. One that
    raises leaves nothing of itself. Nothing is in the log before the transaction's end, which
    commits it; an exception in the ``with`` body, or `rollback`, discards it wholly. Memory: as
    much as the log's ``cache_limit``, and one rows event.

    A statement that commits by itself (DDL) commits everything before it, as on a server: see
    `query`. ``gtid`` and ``position`` (its end) are the last commit's. ``timestamp`` is in seconds
    UTC, the present time where it is not given; it may be changed from one statement to the next.
    ``original_commit_timestamp`` is in microseconds UTC (MySQL), where the transaction was first
    committed elsewhere.
    """

    def __init__(
        self,
        log: TransactionLog,
        gtid: AskedGtid = None,
        *,
        tag: str | None = None,
        domain_id: int | None = None,
        server_id: int | None = None,
        timestamp: int | None = None,
        original_commit_timestamp: int | None = None,
        thread_id: int = 1,
        foreign_key_checks: bool = True,
        unique_checks: bool = True,
        gtid_at_commit: bool = False,
    ) -> None:
        self._log = log
        self._source: dict[str, Any] = {
            "tag": tag,
            "domain_id": domain_id,
            "server_id": server_id,
        }
        chosen = None if gtid_at_commit else log.choose_gtid(gtid, **self._source)
        self._asked = None if gtid is None else chosen
        self.server_id = log.server_id if server_id is None else server_id
        if isinstance(chosen, MariadbGtid):
            self.server_id = chosen.server_id
        self.timestamp = log.now() // 1_000_000 if timestamp is None else timestamp
        self._original = original_commit_timestamp
        self._thread_id = thread_id
        self.set_checks(foreign_keys=foreign_key_checks, unique=unique_checks)
        self._statement: _Statement | None = None
        self._start()
        self._wanted = self._asked is not None
        self.gtid: AnyGtid | None = None
        self.position: Position | None = None

    def _start(self) -> None:
        """Nothing is in it yet."""
        self._cache = self._log.cache()
        self._is_started = self._alone = self._ddl = self._statements = self._wanted = False
        self._xa_rollback = False
        self._done = ""

    @property
    def disk_writes(self) -> int:
        """Writes to its temporary file: 0 as long as ``cache_limit`` was enough.

        They count from its beginning, or from the last statement that committed by itself.
        """
        return self._cache.disk_writes

    @property
    def tmp_file_name(self) -> str | None:
        """The path of its temporary file (see `BinlogCache.tmp_file_name`); None without one."""
        return self._cache.tmp_file_name

    # --- rows ------------------------------------------------------------------------------------

    def set_checks(self, *, foreign_keys: bool, unique: bool) -> None:
        """Which checks appliers make for the rows from here on."""
        self._flags = 0
        if not foreign_keys:
            self._flags |= RowsFlag.NO_FOREIGN_KEY_CHECKS
        if not unique:
            self._flags |= RowsFlag.RELAXED_UNIQUE_CHECKS

    def insert(self, table: Table, rows: Iterable[Any], *, statement: str | None = None) -> None:
        """Rows that were inserted: mappings by column name, sequences in the table's order, rows
        out of a log, a pyarrow Table or RecordBatch, or a data frame of pandas or polars.

        ``statement`` is the text that a reader is to see of it (ROWS_QUERY, ANNOTATE_ROWS).
        """
        self._rows(table, "insert", None, rows, statement)

    def update(
        self,
        table: Table,
        before: Iterable[Any],
        after: Iterable[Any] | None = None,
        *,
        statement: str | None = None,
    ) -> None:
        """Rows that were changed: as they were, and in the same order as they are now.

        A log's own `Row` objects hold both: give them as ``before`` alone.
        """
        self._rows(table, "update", before, after, statement)

    def delete(self, table: Table, rows: Iterable[Any], *, statement: str | None = None) -> None:
        """Rows that were deleted, as they were."""
        self._rows(table, "delete", rows, None, statement)

    @contextmanager
    def statement(self, *tables: Table, statement: str | None = None) -> Iterator[None]:
        """One statement that changes rows of several tables, as a multi-table UPDATE does: all
        rows that are added inside, which are of these ``tables``. An error leaves nothing of it.

        ``statement`` is its text, as in `insert`.
        """
        if not tables:
            raise UsageError("tables: a statement changes rows of one table at least")
        for table in tables:
            check_object("table", table, Table)
        names = ", ".join(f"{table.database}.{table.name}" for table in tables)
        self._check_fits(f"rows of {names}")
        opened = _Statement({table: self._known(table) for table in tables}, statement)
        with self._whole():
            self._statement = opened
            try:
                yield
            finally:
                self._statement = None
            if opened.held is not None:
                opened.held.end_statement()
                self._cache.append(opened.held.data, opened.held.count)

    def _known(self, table: Table) -> WrittenTable:
        if table.flavour is not self._log.flavour:
            raise UsageError(
                f"{table.database}.{table.name} is a table of {table.flavour}, the log is of"
                f" {self._log.flavour}"
            )
        return self._log.table(table)

    def _rows(
        self,
        table: Table,
        kind: Change,
        before: Iterable[Any] | None,
        after: Iterable[Any] | None,
        statement: str | None,
    ) -> None:
        if self._statement is None:
            with self.statement(table, statement=statement):
                self._rows(table, kind, before, after, None)
            return
        opened = self._statement
        if table not in opened.tables or statement is not None:
            raise UsageError(
                f"{table.database}.{table.name}: the tables and the text of a statement are given"
                " where it begins"
            )
        known = opened.tables[table]
        source = RowsSource(
            known,
            known.table_map,
            kind,
            self._log.options,
            flags=self._flags,
            header=self._header,
            made=self._log.made,
        )
        held = opened.held
        try:
            with self._whole():
                for chunk in source.of(before, after):
                    if opened.held is None:
                        self._begin_rows(opened)
                    else:
                        self._cache.append(opened.held.data, opened.held.count)
                    opened.held = chunk
        except BaseException:
            opened.held = held
            raise

    def _begin_rows(self, opened: _Statement) -> None:
        """What comes before a statement's first rows."""
        self._begin(next(iter(opened.tables)).database)
        if opened.text is not None:
            self._annotate(opened.text)
        for known in opened.tables.values():
            self._append_made(
                ("TABLE_MAP", known.table_map.table_id),
                partial(
                    known.table_map.replace, timestamp=self.timestamp, server_id=self.server_id
                ),
            )

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Add everything inside, or nothing after an error."""
        mark = self._cache.size, self._cache.count, self._is_started
        try:
            yield
        except BaseException:
            size, count, self._is_started = mark
            self._cache.cut(size, count)
            raise

    def _annotate(self, statement: str) -> None:
        if self._log.flavour is Flavour.MYSQL:
            event: Event = RowsQueryEvent.make(
                sql=statement, header_flags=EventFlag.IGNORABLE, **self._header
            )
        else:
            event = AnnotateRowsEvent.make(sql=statement, **self._header)
        self._append(event)

    # --- statements and events -------------------------------------------------------------------

    def query(
        self,
        sql: str | bytes,
        database: str = "",
        *,
        status: Mapping[StatusVariable, Any] | None = None,
        error_code: int = 0,
        exec_time: int = 0,
        alone: bool | None = None,
        thread_id: int | None = None,
        uses_temporary_tables: bool = False,
        uses_database: bool = True,
    ) -> None:
        """A statement, run in a default database.

        One that commits by itself (DDL, GRANT, …) is a transaction of its own; ``alone`` says so
        where the text does not tell. As on a server, it commits what comes before it; it then has
        the next GTID, and so has what follows it. ``status`` are status variables in addition to,
        or in place of, the usual ones: the session that a replica runs it in (no SQL modes,
        utf8mb4, autocommit). ``thread_id`` is the session's, by default the transaction's; whether
        the statement ``uses_temporary_tables`` of it, appliers must know; without ``uses_database``
        it is not executed in the database (the flag SUPPRESS_USE). Raises UsageError for
        transaction control, which is the writer's.
        """
        text = text_of(sql)
        standing = Standing.of(text)
        alone = standing.alone if alone is None else alone
        self._check_fits(f"the statement {text[:40]!r}")
        if alone and self._cache.count:
            self._commit_and_start_next()
        event = self._query(
            sql,
            database,
            status={**self._updated(database), **(status or {})},
            flags=EventFlag.SUPPRESS_USE * (standing.of_database or not uses_database)
            | EventFlag.THREAD_SPECIFIC * uses_temporary_tables,
            error_code=error_code,
            exec_time=exec_time,
            thread_id=thread_id,
        )
        with self._whole():
            if not alone:
                self._begin(database)
            self._append(event)
        self._statements = True
        self._alone, self._ddl = alone, alone and standing.definition
        self._xa_rollback = standing.xa_rollback

    def event(self, event: Event) -> None:
        """An event as it is, with its own server id and timestamp.

        Events that the writer writes itself (of files, GTIDs, commits) raise UsageError.
        """
        check_object("event", event, Event)
        if event.type in _REJECTED:
            raise UsageError(f"{event.name} is written by the log itself")
        self._check_fits(event.name)
        with self._whole():
            self._begin("")
            self._append(event)
        self._statements = self._statements or isinstance(event, QueryEvent)

    def _updated(self, database: str) -> dict[StatusVariable, Any]:
        if self._log.flavour is Flavour.MARIADB or not database:
            return {}
        return {StatusVariable.UPDATED_DB_NAMES: (database,)}

    def _query(
        self,
        sql: str | bytes,
        database: str,
        *,
        status: Mapping[StatusVariable, Any] | None = None,
        flags: int = 0,
        error_code: int = 0,
        exec_time: int = 0,
        thread_id: int | None = None,
    ) -> QueryEvent:
        kind: type[QueryEvent] = QueryEvent
        options = self._log.options
        if (
            options.compress
            and self._log.flavour is Flavour.MARIADB
            and len(sql) >= LEAST_COMPRESSED
        ):
            kind = QueryCompressedEvent
        return kind.make(
            sql=sql,
            database=database,
            status={**self._log.dialect.status, **(status or {})},
            thread_id=self._thread_id if thread_id is None else thread_id,
            exec_time=exec_time,
            error_code=error_code,
            header_flags=flags,
            **self._header,
        )

    # --- begin and end ---------------------------------------------------------------------------

    @property
    def _header(self) -> dict[str, Any]:
        return {
            "timestamp": self.timestamp,
            "server_id": self.server_id,
            "form": self._log.dialect.form,
        }

    def _begin(self, database: str) -> None:
        """MySQL's BEGIN, before the first event; MariaDB's is in the GTID event."""
        if self._is_started:
            return
        self._is_started = True
        if self._log.flavour is Flavour.MYSQL:
            self._append_made(
                ("BEGIN", database, self._thread_id),
                lambda: self._query("BEGIN", database, flags=EventFlag.SUPPRESS_USE),
            )

    def _append(self, event: Event) -> None:
        self._cache.append(cached(event))

    def _append_made(
        self, key: Hashable, make: Callable[[], Event], end: bytes = b"", *, over: int = 0
    ) -> None:
        made = self._log.made.get(key, make, self.timestamp, self.server_id, end, over=over)
        self._cache.append(made)

    def _xid(self) -> Event:
        return XidEvent.make(xid=0, **self._header)

    def _check_fits(self, what: str) -> None:
        if self._done:
            raise UsageError(f"{what} cannot be added: the transaction is {self._done}")
        if self._statement is not None:
            raise UsageError(f"{what} cannot be added: a statement of several tables is not over")
        if self._alone:
            self._commit_and_start_next()

    def _commit_and_start_next(self) -> None:
        """Commit as a server does before and after a statement that commits by itself."""
        self.commit()
        self._asked = None if self._asked is None else self._asked.following
        self._start()

    def commit(
        self, gtid: AskedGtid = None, *, original_commit_timestamp: int | None = None
    ) -> Position | None:
        """Write the transaction; its end in the log. The ``with`` block's end does that.

        ``gtid`` and ``original_commit_timestamp`` are as for `LogWriter.transaction`, where they
        were not known at its beginning. A transaction without events is written only if its GTID
        was given: servers do so, too, so that the number is used. Raises what `LogWriter.commit`
        does: the transaction is then discarded, or, after an error of an observer, in the log at
        ``position``.
        """
        if self._done:
            raise UsageError(f"the transaction is {self._done} already")
        try:
            if gtid is not None:
                self._asked = self._log.choose_gtid(gtid, **self._source)
                self._wanted = True
            if original_commit_timestamp is not None:
                self._original = original_commit_timestamp
            empty = not self._cache.count
            if empty and not self._wanted:
                self._done = "committed"
                return None
            if not self._alone:
                self._begin("")
                if empty:
                    self._append(self._query("COMMIT", "", flags=EventFlag.SUPPRESS_USE))
                else:
                    number = self._log.next_xid().to_bytes(XID_SIZE, "little")
                    self._append_made("XID", self._xid, number, over=XID_SIZE)
            group = Group(
                self._cache if empty else self._packed(),
                None,
                self.server_id,
                self.timestamp,
                original_timestamp=self._original,
                statements=self._statements,
                alone=self._alone,
                ddl=self._ddl,
                rolled_back=self._xa_rollback,
            )
            self._write(group)
            self._done = "committed"
        except BaseException as error:
            self._done = "discarded"
            self._log.rolled_back(error)
            raise
        finally:
            self._cache.close()
        self._log.announce(group)
        return self.position

    def _write(self, group: Group) -> None:
        """Give the whole transaction to the log."""
        self.position = self._log.write_group(group, self._choose)
        self.gtid = group.gtid

    def _packed(self) -> EventCache:
        """The events; in a payload where the log is to be compressed."""
        log = self._log
        if not log.options.compress or log.flavour is Flavour.MARIADB or self._alone:
            return self._cache
        packed = self._cache.compressed(self._header)
        if packed is not self._cache:
            self._cache.close()
            self._cache = packed
        return packed

    def _choose(self, group: Group) -> None:
        gtids = self._log.dialect.gtids
        if self._asked is not None:
            gtids.check(self._asked)
            group.gtid = self._asked
        else:
            group.gtid = gtids.choose(None, **self._source)

    def rollback(self) -> None:
        """Discard the transaction: nothing of it comes into the log."""
        if not self._done:
            self._done = "rolled back"
            begun = self._wanted or self._cache.count
            self._cache.close()
            if begun:
                self._log.rolled_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.rollback()
        elif not self._done:
            self.commit()
